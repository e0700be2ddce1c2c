// The runtime API's graphs: captured from streams, or made node by node.
#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {

using Nodes = void* const*;

Work kernel_work(const char* call, const abi::KernelNode* node, int* code) {
  const auto &g = node->grid, &b = node->block;
  const Launch how{{g.x, g.y, g.z}, {b.x, b.y, b.z}, node->shared};
  return launch_work(call, device().kernel_of(node->function), how, node->arguments, code);
}

Work fill_work(const char* call, const abi::FillNode& how) {
  return [=](int stream) {
    const Into into(stream);
    for (std::size_t row = 0; row < how.height; ++row)
      if (const int code = fill(call, reinterpret_cast<std::uint64_t>(how.to) + row * how.pitch, &how.value,
                                how.element, how.width))
        return code;
    return 0;
  };
}

int add(const char* call, void** out, void* graph, Nodes after, std::size_t count, Work work) {
  return done(add_node(call, out, graph, after, count, std::move(work)));
}

}  // namespace

TILEPROOF_API int cudaStreamBeginCapture(void* stream, int) {
  Lock lock(calls());
  return done(begin_capture("cudaStreamBeginCapture", stream));
}
TILEPROOF_API int cudaStreamEndCapture(void* stream, void** graph) {
  Lock lock(calls());
  return done(end_capture("cudaStreamEndCapture", stream, graph));
}
TILEPROOF_API int cudaStreamIsCapturing(void* stream, int* out) {
  Lock lock(calls());
  *out = capturing(stream_number(stream)) ? 1 : 0;
  return 0;
}
TILEPROOF_API int cudaStreamGetCaptureInfo(void* stream, int* out, unsigned long long* id, void** graph,
                                           const void** nodes, const void** edges, std::size_t* count) {
  Lock lock(calls());
  const int number = stream_number(stream);
  auto* capture = capturing(number);
  *out = capture ? 1 : 0;
  if (!capture) return 0;
  if (id) *id = static_cast<unsigned long long>(capture->id);
  if (graph) *graph = capture->graph;
  if (nodes) *nodes = capture->ends[number].data();
  if (edges) *edges = nullptr;
  if (count) *count = capture->ends[number].size();
  return 0;
}

TILEPROOF_API int cudaGraphCreate(void** out, unsigned) {
  Lock lock(calls());
  *out = make_graph();
  return 0;
}
TILEPROOF_API int cudaGraphDestroy(void* graph) {
  Lock lock(calls());
  return done(drop_graph("cudaGraphDestroy", graph));
}
TILEPROOF_API int cudaGraphAddKernelNode(void** out, void* graph, Nodes after, std::size_t count,
                                         const abi::KernelNode* node) {
  Lock lock(calls());
  int code = 0;
  auto work = kernel_work("cudaGraphAddKernelNode", node, &code);
  return code ? done(code) : add("cudaGraphAddKernelNode", out, graph, after, count, std::move(work));
}
TILEPROOF_API int cudaGraphAddMemcpyNode1D(void** out, void* graph, Nodes after, std::size_t count, void* to,
                                           const void* from, std::size_t bytes, int kind) {
  Lock lock(calls());
  return add("cudaGraphAddMemcpyNode1D", out, graph, after, count, [=](int stream) {
    const Into into(stream);
    return copy("cudaGraphAddMemcpyNode1D", to, from, bytes, kind);
  });
}
TILEPROOF_API int cudaGraphAddMemcpyNode(void** out, void* graph, Nodes after, std::size_t count,
                                         const abi::Copy3D* how) {
  Lock lock(calls());
  return add("cudaGraphAddMemcpyNode", out, graph, after, count, [how = *how](int stream) {
    const Into into(stream);
    return copy_box("cudaGraphAddMemcpyNode", how);
  });
}
TILEPROOF_API int cudaGraphAddMemsetNode(void** out, void* graph, Nodes after, std::size_t count,
                                         const abi::FillNode* node) {
  Lock lock(calls());
  return add("cudaGraphAddMemsetNode", out, graph, after, count, fill_work("cudaGraphAddMemsetNode", *node));
}
TILEPROOF_API int cudaGraphAddHostNode(void** out, void* graph, Nodes after, std::size_t count,
                                       const abi::HostNode* node) {
  Lock lock(calls());
  return add("cudaGraphAddHostNode", out, graph, after, count, [how = *node](int) {
    how.function(how.data);
    return 0;
  });
}
TILEPROOF_API int cudaGraphAddEmptyNode(void** out, void* graph, Nodes after, std::size_t count) {
  Lock lock(calls());
  return add("cudaGraphAddEmptyNode", out, graph, after, count, {});
}
TILEPROOF_API int cudaGraphAddDependencies(void* graph, Nodes from, Nodes to, const void* edges,
                                           std::size_t count) {
  Lock lock(calls());
  return done(add_dependencies("cudaGraphAddDependencies", graph, from, to, edges, count));
}
TILEPROOF_API int cudaGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
  Lock lock(calls());
  return done(list_nodes("cudaGraphGetNodes", graph, nodes, count));
}

TILEPROOF_API int cudaGraphInstantiate(void** out, void* graph, unsigned long long) {
  Lock lock(calls());
  return done(instantiate("cudaGraphInstantiate", out, graph));
}
TILEPROOF_API int cudaGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}
TILEPROOF_API int cudaGraphExecKernelNodeSetParams(void* executable, void* node,
                                                   const abi::KernelNode* params) {
  Lock lock(calls());
  int code = 0;
  auto work = kernel_work("cudaGraphExecKernelNodeSetParams", params, &code);
  return done(code ? code
                   : replace_work("cudaGraphExecKernelNodeSetParams", executable, node, std::move(work)));
}
TILEPROOF_API int cudaGraphExecDestroy(void* executable) {
  Lock lock(calls());
  return done(drop_executable("cudaGraphExecDestroy", executable));
}
TILEPROOF_API int cudaGraphUpload(void*, void*) { return 0; }
TILEPROOF_API int cudaGraphLaunch(void* executable, void* stream) {
  Lock lock(calls());
  return done(run_graph("cudaGraphLaunch", executable, stream));
}

TILEPROOF_ALSO(cudaStreamBeginCapture_ptsz, cudaStreamBeginCapture);
TILEPROOF_ALSO(cudaStreamEndCapture_ptsz, cudaStreamEndCapture);
TILEPROOF_ALSO(cudaStreamIsCapturing_ptsz, cudaStreamIsCapturing);
TILEPROOF_ALSO(cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo);
TILEPROOF_ALSO(cudaGraphUpload_ptsz, cudaGraphUpload);
TILEPROOF_ALSO(cudaGraphLaunch_ptsz, cudaGraphLaunch);
