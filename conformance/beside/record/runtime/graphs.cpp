#include "graphs.hpp"

#include <algorithm>
#include <unordered_set>

#include "abi.hpp"
#include "channel.hpp"

namespace tileproof::record {
namespace {

struct Known {
  std::unordered_set<const void*> graphs, executables;
  std::map<int, Capture*> captures;  // by stream
  int captured = 0;
};
Known& known() {
  static auto* one = new Known;
  return *one;
}

Executable* executable_of(std::string_view call, void* handle) {
  if (!known().executables.count(handle)) refuse(call, "its graph is none, or was destroyed");
  return static_cast<Executable*>(handle);
}

bool holds(const Graph& graph, const void* node) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](auto& one) { return one.get() == node; });
}

}  // namespace

Node* Graph::add(Work work, std::vector<Node*> after) {
  nodes.push_back(std::make_unique<Node>(Node{std::move(work), std::move(after)}));
  return nodes.back().get();
}

Capture* capturing(int stream) {
  const auto found = known().captures.find(stream);
  return found == known().captures.end() ? nullptr : found->second;
}

bool captured(int stream, const Work& work) {
  auto* capture = capturing(stream);
  if (!capture) return false;
  auto& ends = capture->ends[stream];
  ends = {capture->graph->add(work, ends)};
  return true;
}

int begin_capture(std::string_view call, void* stream) {
  const int number = stream_number(stream);
  if (!number) return fail(call, abi::kCaptureUnsupported, "the legacy default stream cannot be captured");
  if (capturing(number)) return fail(call, abi::kIllegalState, "the stream is being captured already");
  auto* one = new Capture{make_graph(), number, ++known().captured, {}};
  one->ends[number] = {};
  known().captures[number] = one;
  return 0;
}

int join(std::string_view call, int stream, const Mark& mark) {
  for (const auto& [_, capture] : known().captures) {
    if (capture->graph != mark.graph) continue;
    auto& ends = capture->ends[stream];
    for (auto* node : mark.after)
      if (std::find(ends.begin(), ends.end(), node) == ends.end()) ends.push_back(node);
    known().captures[stream] = capture;
    return 0;
  }
  return fail(call, abi::kCapturedEvent, "the capture that the event was recorded in is over");
}

int end_capture(std::string_view call, void* stream, void** graph) {
  const int number = stream_number(stream);
  auto* capture = capturing(number);
  if (!capture) return fail(call, abi::kIllegalState, "the stream is not being captured");
  if (capture->origin != number)
    return fail(call, abi::kCaptureUnmatched, "the capture did not begin in this stream");
  // Streams that joined are to be joined back: everything comes before the end of the stream it began in.
  std::unordered_set<const Node*> reached;
  std::vector<const Node*> left(capture->ends[number].begin(), capture->ends[number].end());
  while (!left.empty()) {
    const auto* one = left.back();
    left.pop_back();
    if (reached.insert(one).second) left.insert(left.end(), one->after.begin(), one->after.end());
  }
  const bool joined = reached.size() == capture->graph->nodes.size();
  std::erase_if(known().captures, [&](const auto& one) { return one.second == capture; });
  *graph = joined ? capture->graph : nullptr;
  delete capture;
  return joined ? 0
                : fail(call, abi::kCaptureUnjoined, "a stream that joined the capture was not joined back");
}

Graph* graph_of(std::string_view call, void* handle) {
  if (!known().graphs.count(handle)) refuse(call, "its graph is none, or was destroyed");
  return static_cast<Graph*>(handle);
}

Graph* make_graph() {
  auto* one = new Graph;
  known().graphs.insert(one);
  return one;
}

int drop_graph(std::string_view call, void* handle) {
  graph_of(call, handle);
  known().graphs.erase(handle);  // it stays where it is: events of a capture may point into it
  return 0;
}

int add_node(std::string_view call, void** out, void* graph, void* const* after, std::size_t count,
             Work work) {
  auto* to = graph_of(call, graph);
  std::vector<Node*> before;
  for (std::size_t i = 0; i < count; ++i) {
    if (!holds(*to, after[i])) return fail(call, abi::kInvalidValue, "a dependency is no node of the graph");
    before.push_back(static_cast<Node*>(after[i]));
  }
  *out = to->add(std::move(work), std::move(before));
  return 0;
}

int add_dependencies(std::string_view call, void* graph, void* const* from, void* const* to,
                     const void* edges, std::size_t count) {
  auto* in = graph_of(call, graph);
  if (edges) refuse(call, "edges with data are not recorded");
  for (std::size_t i = 0; i < count; ++i) {
    if (!holds(*in, from[i]) || !holds(*in, to[i]))
      return fail(call, abi::kInvalidValue, "an end of a dependency is no node of the graph");
    static_cast<Node*>(to[i])->after.push_back(static_cast<Node*>(from[i]));
  }
  return 0;
}

int list_nodes(std::string_view call, void* graph, void** nodes, std::size_t* count) {
  const auto* from = graph_of(call, graph);
  if (nodes)
    for (std::size_t i = 0; i < *count; ++i)
      nodes[i] = i < from->nodes.size() ? from->nodes[i].get() : nullptr;
  if (!nodes || *count > from->nodes.size()) *count = from->nodes.size();
  return 0;
}

int instantiate(std::string_view call, void** out, void* graph) {
  const auto* from = graph_of(call, graph);
  auto made = std::make_unique<Executable>();
  bool more = true;
  while (more) {  // in the order of their making, as soon as what they come after is there
    more = false;
    for (const auto& node : from->nodes) {
      const auto there = [&](const Node* one) { return made->places.count(one) != 0; };
      if (there(node.get()) || !std::all_of(node->after.begin(), node->after.end(), there)) continue;
      Executable::Step step{node->work, {}};
      for (const auto* one : node->after) step.after.push_back(made->places[one]);
      made->places[node.get()] = made->steps.size();
      made->steps.push_back(std::move(step));
      more = true;
    }
  }
  if (made->steps.size() != from->nodes.size())
    return fail(call, abi::kInvalidValue, "the nodes of the graph wait for each other in a circle");
  known().executables.insert(made.get());
  *out = made.release();
  return 0;
}

int drop_executable(std::string_view call, void* handle) {
  auto* one = executable_of(call, handle);
  known().executables.erase(handle);
  delete one;
  return 0;
}

int replace_work(std::string_view call, void* executable, void* node, Work work) {
  auto* in = executable_of(call, executable);
  const auto found = in->places.find(static_cast<const Node*>(node));
  if (found == in->places.end()) return fail(call, abi::kInvalidValue, "the graph has no such node");
  in->steps[found->second].work = std::move(work);
  return 0;
}

// A node goes on in the stream of one that it comes after, where that one is its stream's last; the first
// goes into the stream of the launch, others into streams of their own, which nothing but events orders.
int run_graph(std::string_view call, void* executable, void* stream) {
  constexpr unsigned kNonBlocking = 1;
  const auto& steps = executable_of(call, executable)->steps;
  const int origin = stream_number(stream);
  if (capturing(origin)) refuse(call, "a graph that is launched into a capture is not recorded");
  const auto mark = [](int in) {
    const int number = new_mark_number();
    tell(Event("mark").number("number", number).number("stream", in));
    return number;
  };
  const auto wait = [](int in, int number) {
    tell(Event("wait").number("stream", in).number("number", number));
  };
  std::vector<std::size_t> lanes(steps.size()), ends;  // of each step its lane, of each lane its last step
  std::vector<bool> crossed(steps.size());             // a step of another lane comes after it
  for (std::size_t i = 0; i < steps.size(); ++i) {
    lanes[i] = ends.size();
    for (const auto one : steps[i].after)
      if (ends[lanes[one]] == one) lanes[i] = lanes[one];
    if (lanes[i] == ends.size()) ends.push_back(i);
    ends[lanes[i]] = i;
    for (const auto one : steps[i].after)
      if (lanes[one] != lanes[i]) crossed[one] = true;
  }
  std::vector<int> streams(ends.size(), origin);
  const int begin = ends.size() > 1 ? mark(origin) : 0;
  for (std::size_t lane = 1; lane < ends.size(); ++lane) {
    streams[lane] = new_number();
    tell(Event("stream").number("number", streams[lane]).number("flags", kNonBlocking));
    wait(streams[lane], begin);
  }
  std::vector<int> marks(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int mine = streams[lanes[i]];
    for (const auto one : steps[i].after)
      if (lanes[one] != lanes[i]) wait(mine, marks[one]);
    if (steps[i].work)
      if (const int code = steps[i].work(mine)) return code;
    if (crossed[i]) marks[i] = mark(mine);
  }
  for (std::size_t lane = 1; lane < ends.size(); ++lane) wait(origin, mark(streams[lane]));
  return 0;
}

}  // namespace tileproof::record
