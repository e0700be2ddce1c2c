// What the programs of this folder share: numbers to work on, and comparisons that print what failed.
#pragma once

#include <cstdio>
#include <vector>

inline int& failures() {
  static int count = 0;
  return count;
}

inline void check(const char* what, bool right) {
  std::printf("%s: %s\n", what, right ? "right" : "WRONG");
  failures() += !right;
}

// Values of a linear congruential generator.
inline std::vector<unsigned> numbers(int n, unsigned below = ~0u) {
  std::vector<unsigned> out(n);
  unsigned state = 12345;
  for (unsigned& one : out) {
    state = state * 1664525u + 1013904223u;
    one = (state >> 4) % below;
  }
  return out;
}

// The content of a vector on the device.
template <class Vector>
auto host(const Vector& device) {
  std::vector<typename Vector::value_type> out(device.size());
  cudaMemcpy(out.data(), device.data().get(), out.size() * sizeof(out[0]), cudaMemcpyDeviceToHost);
  return out;
}
