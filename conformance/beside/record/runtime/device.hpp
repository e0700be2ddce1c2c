// The device that both APIs act on: its memory, modules, kernels and launches. The recorder holds the memory;
// here is what lies where.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi.hpp"
#include "channel.hpp"
#include "graphs.hpp"
#include "limits.hpp"
#include "streams.hpp"

namespace tileproof::record {

using namespace limits;

enum class Place { device, managed, pinned, registered };
struct Allocation {
  std::size_t bytes = 0;
  Place place = Place::device;
};

struct Module {
  int number = 0;
  const void* image = nullptr;
  bool sent = false;
  std::string managed;  // a __managed__ variable of it, which nothing here can place
};

struct Kernel {
  Module* module = nullptr;
  std::string name;
  bool known = false;  // what follows, from the PTX
  std::vector<std::size_t> offsets, sizes;
  int max_threads = kMaxThreads, static_shared = -1, cluster[3] = {0, 0, 0};
  int attributes[16] = {};  // as set by the program, by number
};

struct Variable {
  Module* module = nullptr;
  std::string name;
  std::uint64_t address = 0;  // 0: not asked for
  std::size_t bytes = 0;
};

class Device {
 public:
  int processors = kProcessors;
  bool hopper = false;  // an H200 in place of a B200

  // Memory. `address` of a failed allocation is 0.
  std::uint64_t allocate(std::string_view call, std::size_t bytes, Place place);
  int free(std::string_view call, std::uint64_t address, bool host);
  int adopt(std::string_view call, void* host, std::size_t bytes);
  int release(std::string_view call, void* host);
  void exchange(bool out);
  // The allocation that holds the address, or null; `first` becomes where it begins.
  const Allocation* holding(std::uint64_t address, std::uint64_t* first = nullptr) const;

  // Modules.
  Module* load(const void* image, bool now, std::string_view call, int* code = nullptr);
  Kernel* kernel(Module* module, std::string_view name);
  Kernel* kernel_of(const void* handle);  // a registered host function or a Kernel*; null: neither
  bool describe(std::string_view call, Kernel* kernel);
  void send(Module* module, std::string_view call);

  std::unordered_map<const void*, Kernel*> functions;
  std::unordered_map<const void*, Variable*> variables;
  std::vector<Kernel*> kernels;
  int last_error = 0;

 private:
  std::map<std::uint64_t, Allocation> allocations_;
  std::vector<Module*> modules_;
  std::unordered_set<const void*> handles_;
  std::uint64_t next_ = 0;

  friend Device& device();
  Device();
};

Device& device();

// Host and device sides of a copy are told apart by their addresses; `kind` is held against them.
int copy(std::string_view call, void* to, const void* from, std::size_t bytes, int kind);
int fill(std::string_view call, std::uint64_t to, const void* value, std::size_t size, std::size_t count);
// Rows of `width` bytes, `height` of them, pitches in bytes.
int copy_rows(std::string_view call, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
              std::size_t width, std::size_t height, int kind);
// A box of bytes, plane by plane.
int copy_box(std::string_view call, const abi::Copy3D& how);
int symbol_address(std::string_view call, Variable* variable, std::uint64_t& address, std::size_t& bytes);

struct Launch {
  unsigned grid[3], block[3];
  std::size_t shared = 0;
  const void* stream = nullptr;
  const abi::Attribute* attributes = nullptr;
  unsigned count = 0;
  bool cooperative = false;
  int number = -1;  // of the stream, in the place of its handle
};
// `arguments` by parameter, or with `packed` one block of `packed_bytes` bytes.
int launch(std::string_view call, Kernel* kernel, const Launch& how, void** arguments,
           const void* packed = nullptr, std::size_t packed_bytes = 0);
// A launch for later, with its arguments as they are now; `code` is of the API where there is none.
Work launch_work(std::string_view call, Kernel* kernel, const Launch& how, void** arguments, int* code);
int set_attribute(std::string_view call, Kernel* kernel, int attribute, int value);
int get_attribute(std::string_view call, Kernel* kernel, int attribute, int* value);
// Blocks that one processor holds at once, by threads and shared memory.
int resident_blocks(std::string_view call, Kernel* kernel, int threads, std::size_t dynamic, int* blocks);
bool device_attribute(int attribute, int* value);  // whether it is known

// The caught or refused function of this name in this process; null when there is none.
void* entry_point(const char* name);

}  // namespace tileproof::record
