// Runs the kernels around the sparse MLA backward on a card through the driver API, on inputs made of a seed,
// and writes each output (tools/silicon/mla_around.py): mla_around KERNELS.cubin FOLDER.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using CUdeviceptr = unsigned long long;
void* library() {
  static void* found = dlopen("libcuda.so.1", RTLD_NOW);
  if (!found) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return found;
}
template <class... A>
void call(const char* name, A... a) {
  auto f = reinterpret_cast<int (*)(A...)>(dlsym(library(), name));
  const int error = f ? f(a...) : -1;
  if (error) {
    std::fprintf(stderr, "%s: error %d\n", name, error);
    std::exit(1);
  }
}

uint64_t mix(uint64_t seed, uint64_t i) {  // splitmix64
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

void* module = nullptr;
std::string out;
template <class T>
CUdeviceptr copied(const std::vector<T>& v) {
  CUdeviceptr p = 0;
  call("cuMemAlloc_v2", &p, size_t(v.size() * sizeof(T) + 64));
  call("cuMemcpyHtoD_v2", p, (const void*)v.data(), size_t(v.size() * sizeof(T)));
  return p;
}
void launch(const char* entry, unsigned grid, unsigned block, void** params) {
  void* f = nullptr;
  call("cuModuleGetFunction", &f, module, entry);
  call("cuLaunchKernel", f, grid, 1u, 1u, block, 1u, 1u, 0u, (void*)nullptr, params, (void**)nullptr);
  call("cuCtxSynchronize");
}
void written(const std::string& name, CUdeviceptr p, size_t bytes) {
  std::vector<char> host(bytes);
  call("cuMemcpyDtoH_v2", (void*)host.data(), p, bytes);
  std::ofstream(out + "/" + name + ".bin", std::ios::binary).write(host.data(), bytes);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  out = argv[2];
  std::ifstream file(argv[1], std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  int device = 0, major = 0, minor = 0;
  char name[100] = "";
  void* context = nullptr;
  call("cuInit", 0u);
  call("cuDeviceGet", &device, 0);
  call("cuDeviceGetName", name, 100, device);
  call("cuDeviceGetAttribute", &major, 75, device);
  call("cuDeviceGetAttribute", &minor, 76, device);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  call("cuModuleLoadData", &module, (const void*)image.data());
  std::printf("%s sm_%d%d\n", name, major, minor);
  const int sizes[4][2] = {{1, 1}, {3, 64}, {2, 128}, {5, 7}};
  for (int s = 0; s < 4; ++s) {
    const int tokens = sizes[s][0], heads = sizes[s][1];
    const size_t count = size_t(tokens) * heads * 512;
    std::vector<uint16_t> o(count), dO(count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t b = mix(1000 + s, i);
      o[i] = uint16_t((b & 0x807f) | ((118 + (b >> 16 & 0xff) % 12) << 7));
      dO[i] = uint16_t((b >> 32 & 0x807f) | ((118 + (b >> 48 & 0xff) % 12) << 7));
    }
    struct {
      CUdeviceptr o, dO, delta;
      int heads, unused;
    } params;
    params = {copied(o), copied(dO), copied(std::vector<uint32_t>(tokens * heads, 0xdeadbeef)), heads, 0};
    void* given[] = {&params};
    launch("tileproof_mla_delta", tokens, 128, given);
    written("delta-" + std::to_string(s), params.delta, size_t(tokens) * heads * 4);
  }
  for (int s = 0; s < 4; ++s) {
    int64_t count = (s == 3 ? 1 << 18 : 4096) + s;
    std::vector<uint32_t> wide(count);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t b = mix(2000 + s, i);
      wide[i] = uint32_t(b);
      if (i % 4 == 1) wide[i] = (wide[i] & 0xffff0000u) | uint32_t(0x7fff + (b >> 40) % 3);  // halves of bf16
      if (i % 4 == 2)
        wide[i] = (wide[i] & 0x807fe000u) | uint32_t(96 + (b >> 32 & 0xff) % 50) << 23 | 0x1000u;
    }
    CUdeviceptr given_wide = copied(wide), narrow = copied(std::vector<uint16_t>(count, 0xabcd));
    CUdeviceptr values = copied(std::vector<uint32_t>(count + 5, 0xdeadbeef));
    void* given[] = {&given_wide, &narrow, &count};
    launch("tileproof_mla_bf16", 4, 256, given);
    written("bf16-" + std::to_string(s), narrow, size_t(count) * 2);
    launch("tileproof_mla_f16", 4, 256, given);
    written("f16-" + std::to_string(s), narrow, size_t(count) * 2);
    void* cleared[] = {&values, &count};
    launch("tileproof_mla_clear", 4, 256, cleared);
    written("clear-" + std::to_string(s), values, size_t(count + 5) * 4);
  }
  std::printf("done\n");
}
