// The driver API's graphs: captured from streams, or made of kernel nodes.
#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {
using Nodes = void* const*;
}  // namespace

TILEPROOF_API int cuStreamBeginCapture_v2(void* stream, int) {
  Lock lock(calls());
  return begin_capture("cuStreamBeginCapture", stream);
}
TILEPROOF_API int cuStreamEndCapture(void* stream, void** graph) {
  Lock lock(calls());
  return end_capture("cuStreamEndCapture", stream, graph);
}
TILEPROOF_API int cuStreamIsCapturing(void* stream, int* out) {
  Lock lock(calls());
  *out = capturing(stream_number(stream)) ? 1 : 0;
  return 0;
}
TILEPROOF_API int cuStreamGetCaptureInfo_v3(void* stream, int* out, std::uint64_t* id, void** graph,
                                            const void** nodes, const void** edges, std::size_t* count) {
  Lock lock(calls());
  const int number = stream_number(stream);
  auto* capture = capturing(number);
  *out = capture ? 1 : 0;
  if (!capture) return 0;
  if (id) *id = static_cast<std::uint64_t>(capture->id);
  if (graph) *graph = capture->graph;
  if (nodes) *nodes = capture->ends[number].data();
  if (edges) *edges = nullptr;
  if (count) *count = capture->ends[number].size();
  return 0;
}
TILEPROOF_API int cuGraphCreate(void** out, unsigned) {
  Lock lock(calls());
  *out = make_graph();
  return 0;
}
TILEPROOF_API int cuGraphDestroy(void* graph) {
  Lock lock(calls());
  return drop_graph("cuGraphDestroy", graph);
}
TILEPROOF_API int cuGraphAddKernelNode_v2(void** out, void* graph, Nodes after, std::size_t count,
                                          const abi::DriverKernelNode* node) {
  Lock lock(calls());
  const auto *g = node->grid, *b = node->block;
  const Launch how{{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, node->shared};
  const void* kernel = node->function ? node->function : node->kernel;
  int code = 0;
  auto work = launch_work("cuGraphAddKernelNode", device().kernel_of(kernel), how, node->arguments, &code);
  return code ? code : add_node("cuGraphAddKernelNode", out, graph, after, count, std::move(work));
}
TILEPROOF_API int cuGraphAddEmptyNode(void** out, void* graph, Nodes after, std::size_t count) {
  Lock lock(calls());
  return add_node("cuGraphAddEmptyNode", out, graph, after, count, {});
}
TILEPROOF_API int cuGraphAddDependencies_v2(void* graph, Nodes from, Nodes to, const void* edges,
                                            std::size_t count) {
  Lock lock(calls());
  return add_dependencies("cuGraphAddDependencies", graph, from, to, edges, count);
}
TILEPROOF_API int cuGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
  Lock lock(calls());
  return list_nodes("cuGraphGetNodes", graph, nodes, count);
}
TILEPROOF_API int cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
  Lock lock(calls());
  return instantiate("cuGraphInstantiate", out, graph);
}
TILEPROOF_API int cuGraphExecDestroy(void* executable) {
  Lock lock(calls());
  return drop_executable("cuGraphExecDestroy", executable);
}
TILEPROOF_API int cuGraphUpload(void*, void*) { return 0; }
TILEPROOF_API int cuGraphLaunch(void* executable, void* stream) {
  Lock lock(calls());
  return run_graph("cuGraphLaunch", executable, stream);
}

TILEPROOF_ALSO(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2);
TILEPROOF_ALSO(cuStreamEndCapture_ptsz, cuStreamEndCapture);
TILEPROOF_ALSO(cuStreamIsCapturing_ptsz, cuStreamIsCapturing);
TILEPROOF_ALSO(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3);
TILEPROOF_ALSO(cuGraphUpload_ptsz, cuGraphUpload);
TILEPROOF_ALSO(cuGraphLaunch_ptsz, cuGraphLaunch);
