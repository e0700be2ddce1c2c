// PyTorch's memory-efficient attention backward, as its headers have it, for sm_80: f16, two heads of 64,
// more queries and keys than a block has, keys that end inside a block. dQ, dK and dV against double
// precision.
#include <ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h>

#include <cmath>
#include <vector>

#include "check.h"

constexpr int kHeads = 2, kQueries = 96, kKeys = 120, kDim = 64;
using Half = cutlass::half_t;
using Backward =
    PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::arch::Sm80, Half, true, false, true, 64, 64, 64>;
using Matrix = std::vector<Half>;  // [rows, heads, dim]

__global__ void __launch_bounds__(Backward::kNumThreads, Backward::kMinBlocksPerSm)
    backward(typename Backward::Params p) {
  if (p.advance_to_block()) Backward::attention_kernel(p);
}

Matrix drawn(int rows, unsigned skip) {
  const std::vector<unsigned> bits = numbers(rows * kHeads * kDim + skip, 256);
  Matrix out;
  for (size_t i = skip; i < bits.size(); ++i) out.push_back(Half((float(bits[i]) - 127.5f) / 128));
  return out;
}

template <class T>
T* on_device(const std::vector<T>& content) {
  T* device;
  cudaMalloc(&device, content.size() * sizeof(T));
  cudaMemcpy(device, content.data(), content.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}

// The largest difference, divided by the largest magnitude.
double difference(const Half* device, const std::vector<double>& expected) {
  Matrix found(expected.size());
  cudaMemcpy(found.data(), device, found.size() * sizeof(Half), cudaMemcpyDeviceToHost);
  double most = 0, largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    most = std::fmax(most, std::fabs(float(found[i]) - expected[i]));
    largest = std::fmax(largest, std::fabs(expected[i]));
    if (std::isnan(float(found[i]))) return NAN;
  }
  return most / largest;
}

// With an argument the kernel gets a wrong LSE.
int main(int count, char**) {
  const Matrix q = drawn(kQueries, 1), k = drawn(kKeys, 7), v = drawn(kKeys, 100),
               d_o = drawn(kQueries, 1000);
  const double scale = 1 / std::sqrt(double(kDim));
  std::vector<double> dq(q.size()), dk(k.size()), dv(v.size());
  Matrix o(q.size());
  std::vector<float> lse(kHeads * kQueries);
  for (int h = 0; h < kHeads; ++h)
    for (int i = 0; i < kQueries; ++i) {
      auto at = [&](int row) { return size_t(row * kHeads + h) * kDim; };
      std::vector<double> p(kKeys), d_p(kKeys), out(kDim);
      double sum = 0, delta = 0;
      for (int j = 0; j < kKeys; ++j) {
        for (int d = 0; d < kDim; ++d) {
          p[j] += scale * float(q[at(i) + d]) * float(k[at(j) + d]);
          d_p[j] += double(float(d_o[at(i) + d])) * float(v[at(j) + d]);
        }
        sum += p[j] = std::exp(p[j]);
      }
      for (double& one : p) one /= sum;
      lse[h * kQueries + i] = float(std::log(sum)) + (count > 1 ? 0.1f : 0.0f);
      for (int d = 0; d < kDim; ++d) {
        for (int j = 0; j < kKeys; ++j) out[d] += p[j] * float(v[at(j) + d]);
        o[at(i) + d] = Half(float(out[d]));
        delta += double(float(o[at(i) + d])) * float(d_o[at(i) + d]);
      }
      for (int j = 0; j < kKeys; ++j)
        for (int d = 0; d < kDim; ++d) {
          const double d_s = scale * p[j] * (d_p[j] - delta);
          dq[at(i) + d] += d_s * float(k[at(j) + d]);
          dk[at(j) + d] += d_s * float(q[at(i) + d]);
          dv[at(j) + d] += p[j] * float(d_o[at(i) + d]);
        }
    }

  Backward::Params p;
  p.query_ptr = on_device(q), p.key_ptr = on_device(k), p.value_ptr = on_device(v);
  p.logsumexp_ptr = on_device(lse);
  p.output_ptr = on_device(o), p.grad_output_ptr = on_device(d_o);
  p.delta_ptr = on_device(std::vector<float>(lse.size()));
  p.grad_query_ptr = on_device(Matrix(q.size()));
  p.grad_key_ptr = on_device(Matrix(k.size()));
  p.grad_value_ptr = on_device(Matrix(v.size()));
  p.scale = float(scale);
  p.head_dim = p.head_dim_value = kDim;
  p.num_queries = kQueries, p.num_keys = kKeys, p.num_heads = kHeads, p.num_batches = 1;
  p.q_strideM = p.k_strideM = p.v_strideM = p.gO_strideM = kHeads * kDim;
  p.q_strideH = p.k_strideH = p.v_strideH = kDim;
  p.o_strideH = p.gO_strideH = p.gQ_strideH = p.gK_strideH = p.gV_strideH = kDim;
  p.q_strideB = p.o_strideB = p.gO_strideB = p.gQ_strideB = int64_t(q.size());
  p.k_strideB = p.v_strideB = p.gK_strideB = p.gV_strideB = int64_t(k.size());
  p.lse_strideH = p.delta_strideH = kQueries;
  p.lse_strideB = p.delta_strideB = kHeads * kQueries;
  if (const size_t bytes = p.workspace_size())
    cudaMalloc(&p.workspace, bytes), cudaMemset(p.workspace, 0, bytes);
  const int bytes = int(sizeof(typename Backward::SharedStorage));
  cudaFuncSetAttribute((const void*)backward, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  backward<<<p.getBlocksGrid(), p.getThreadsGrid(), bytes>>>(p);
  check("dQ", difference(p.grad_query_ptr, dq) < 2e-3);
  check("dK", difference(p.grad_key_ptr, dk) < 2e-3);
  check("dV", difference(p.grad_value_ptr, dv) < 2e-3);
  return failures();
}
