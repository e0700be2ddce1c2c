// Scans, reductions, selections and histograms of CUB and Thrust against loops on the host.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/unique.h>

#include <cub/cub.cuh>
#include <numeric>
#include <vector>

#include "check.h"

struct IsOdd {
  __host__ __device__ bool operator()(unsigned x) const { return x & 1; }
};

// Calls a function of CUB twice: for the size of its temporary storage, and to run.
template <class Call>
void with_room(Call call) {
  size_t bytes = 0;
  call(nullptr, bytes);
  thrust::device_vector<char> room(bytes);
  call(thrust::raw_pointer_cast(room.data()), bytes);
}

int main() {
  const int n = 5000;
  const std::vector<unsigned> in = numbers(n, 50);
  thrust::device_vector<unsigned> device(in.begin(), in.end()), out(n), counts(n);
  thrust::device_vector<int> number(1);
  unsigned *in_p = device.data().get(), *out_p = out.data().get(), *counts_p = counts.data().get();
  int* number_p = number.data().get();

  with_room([&](void* room, size_t& bytes) { cub::DeviceScan::InclusiveSum(room, bytes, in_p, out_p, n); });
  std::vector<unsigned> expected(n);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  check("inclusive scan", host(out) == expected);

  with_room([&](void* room, size_t& bytes) { cub::DeviceReduce::Sum(room, bytes, in_p, out_p, n); });
  check("sum", out[0] == expected[n - 1]);

  std::vector<unsigned> odd;
  for (unsigned x : in)
    if (x & 1) odd.push_back(x);
  with_room([&](void* room, size_t& bytes) {
    cub::DeviceSelect::If(room, bytes, in_p, out_p, number_p, n, IsOdd());
  });
  std::vector<unsigned> selected = host(out);
  selected.resize(number[0]);
  check("select", selected == odd);

  std::vector<unsigned> histogram(51);
  for (unsigned x : in) ++histogram[x];
  histogram.pop_back();
  thrust::device_vector<int> bins(50);
  with_room([&](void* room, size_t& bytes) {
    cub::DeviceHistogram::HistogramEven(room, bytes, in_p, bins.data().get(), 51, 0u, 50u, n);
  });
  const std::vector<int> counted = host(bins);
  check("histogram", std::vector<unsigned>(counted.begin(), counted.end()) == histogram);

  // Runs: each number as often as the number before it is large.
  std::vector<unsigned> runs, heads, lengths;
  for (unsigned x : numbers(400, 9))
    for (unsigned i = 0; i <= x; ++i) runs.push_back(x * 3 + i / 7);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i == 0 || runs[i] != runs[i - 1]) heads.push_back(runs[i]), lengths.push_back(0);
    ++lengths.back();
  }
  device.assign(runs.begin(), runs.end());
  out.resize(runs.size());
  counts.resize(runs.size());
  in_p = device.data().get(), out_p = out.data().get(), counts_p = counts.data().get();
  with_room([&](void* room, size_t& bytes) {
    cub::DeviceRunLengthEncode::Encode(room, bytes, in_p, out_p, counts_p, number_p, int(runs.size()));
  });
  auto first = [&](const thrust::device_vector<unsigned>& vector, size_t size) {
    std::vector<unsigned> found = host(vector);
    found.resize(size);
    return found;
  };
  check("run-length encoding", number[0] == int(heads.size()) && first(out, heads.size()) == heads &&
                                   first(counts, heads.size()) == lengths);

  thrust::device_vector<unsigned> ones(runs.size(), 1), keys_out(runs.size()), sums(runs.size());
  auto ends =
      thrust::reduce_by_key(device.begin(), device.end(), ones.begin(), keys_out.begin(), sums.begin());
  check("reduce by key", ends.first - keys_out.begin() == long(heads.size()) &&
                             first(keys_out, heads.size()) == heads && first(sums, heads.size()) == lengths);

  auto end = thrust::unique_copy(device.begin(), device.end(), out.begin());
  check("unique", end - out.begin() == long(heads.size()) && first(out, heads.size()) == heads);
  auto in_place = thrust::unique(device.begin(), device.end());
  check("unique in place",
        in_place - device.begin() == long(heads.size()) && first(device, heads.size()) == heads);
  return failures();
}
