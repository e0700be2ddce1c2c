// CUDA graphs: what was captured from streams or added node by node, done again at each launch of the graph.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "streams.hpp"

namespace tileproof::record {

using Work = std::function<int(int stream)>;  // into a stream by its number; the code of the API

struct Node {
  Work work;  // empty: it only orders
  std::vector<Node*> after;
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  Node* add(Work work, std::vector<Node*> after);
};

// A capture under way: of the stream that it began in, and those that waited for an event of it.
struct Capture {
  Graph* graph = nullptr;
  int origin = 0, id = 0;
  std::map<int, std::vector<Node*>> ends;  // by stream: what its next node comes after
};

// Nodes in an order in which they may run, each with the places of those it comes after.
struct Executable {
  struct Step {
    Work work;
    std::vector<std::size_t> after;
  };
  std::vector<Step> steps;
  std::unordered_map<const Node*, std::size_t> places;
};

Capture* capturing(int stream);  // null: the stream is not captured
// Takes the work into the graph where the stream is captured; whether it was taken.
bool captured(int stream, const Work& work);
int begin_capture(std::string_view call, void* stream);
int end_capture(std::string_view call, void* stream, void** graph);
// A stream waits for an event that was recorded in a capture: it is captured too from here on.
int join(std::string_view call, int stream, const Mark& mark);

Graph* graph_of(std::string_view call, void* handle);  // ends the program for a handle that is none
Graph* make_graph();
int drop_graph(std::string_view call, void* handle);
int add_node(std::string_view call, void** out, void* graph, void* const* after, std::size_t count,
             Work work);
int add_dependencies(std::string_view call, void* graph, void* const* from, void* const* to,
                     const void* edges, std::size_t count);
int list_nodes(std::string_view call, void* graph, void** nodes, std::size_t* count);
int instantiate(std::string_view call, void** out, void* graph);
int drop_executable(std::string_view call, void* handle);
int replace_work(std::string_view call, void* executable, void* node, Work work);
int run_graph(std::string_view call, void* executable, void* stream);

}  // namespace tileproof::record
