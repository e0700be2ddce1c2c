// Sorts of CUB and Thrust against the standard library's. WITHOUT_RADIX leaves out those that take longest to
// compile.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/merge.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cstdio>
#include <cub/cub.cuh>
#include <numeric>
#include <vector>

#include "check.h"

struct ByRemainder {
  __host__ __device__ bool operator()(int a, int b) const { return a % 97 < b % 97; }
};

int main() {
  const int n = 12000;
  const std::vector<unsigned> keys = numbers(n);
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 0);

  std::vector<unsigned> expected = keys;
  std::sort(expected.begin(), expected.end());

#ifndef WITHOUT_RADIX
  thrust::device_vector<unsigned> in(keys.begin(), keys.end()), out(n);
  thrust::device_vector<int> in_values(values), out_values(n);
  size_t bytes = 0;
  unsigned *in_p = thrust::raw_pointer_cast(in.data()), *out_p = thrust::raw_pointer_cast(out.data());
  int *values_p = thrust::raw_pointer_cast(in_values.data()),
      *out_values_p = thrust::raw_pointer_cast(out_values.data());
  cub::DeviceRadixSort::SortKeys(nullptr, bytes, in_p, out_p, n);
  thrust::device_vector<char> room(bytes);
  cub::DeviceRadixSort::SortKeys(thrust::raw_pointer_cast(room.data()), bytes, in_p, out_p, n);
  check("radix sort of keys", host(out) == expected);

  cub::DeviceRadixSort::SortPairs(nullptr, bytes, in_p, out_p, values_p, out_values_p, n);
  room.resize(bytes);
  cub::DeviceRadixSort::SortPairs(thrust::raw_pointer_cast(room.data()), bytes, in_p, out_p, values_p,
                                  out_values_p, n);
  std::vector<int> order = values;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  check("radix sort of pairs", host(out) == expected && host(out_values) == order);
#endif

  std::vector<int> also(values.rbegin(), values.rend());
  thrust::device_vector<int> sorted(also);
  thrust::stable_sort(sorted.begin(), sorted.end(), ByRemainder());
  std::stable_sort(also.begin(), also.end(), ByRemainder());
  check("stable sort with a comparator", host(sorted) == also);

  thrust::device_vector<unsigned> left(expected.begin(), expected.begin() + n / 3),
      right(expected.begin() + n / 3, expected.end());
  for (unsigned& one : expected) one /= 2;
  std::vector<unsigned> a(expected.begin(), expected.begin() + n / 3), b = expected,
                                                                       both(a.size() + b.size());
  thrust::device_vector<unsigned> da(a.begin(), a.end()), db(b.begin(), b.end()), merged(both.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), both.begin());
  thrust::merge(da.begin(), da.end(), db.begin(), db.end(), merged.begin());
  check("merge", host(merged) == both);
  return failures();
}
