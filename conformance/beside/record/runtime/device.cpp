#include "device.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "fatbin.hpp"

namespace tileproof::record {
namespace {

// Device addresses: their upper halves are no number that a program computes with (0x4CC7 is 19655), so that
// 8 bytes of two 32-bit extents are not taken for one. Nothing is mapped there: a host that reads device
// memory crashes, as it does beside a card.
constexpr std::uint64_t kBase = 0x4CC7'6000'0000, kSpace = std::uint64_t{1} << 40;
constexpr std::uint64_t kGuard = 1 << 20;  // between two allocations, as the emulator keeps them apart
// Where the emulator puts a module's variables.
constexpr std::uint64_t kVariables = 0x0800'0000'0000, kVariablesEnd = 0x0900'0000'0000;

const char* word(Place place) {
  constexpr const char* kWords[] = {"device", "managed", "pinned", "registered"};
  return kWords[static_cast<int>(place)];
}

std::string range(std::uint64_t address, std::size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%zu bytes at %#llx", bytes, static_cast<unsigned long long>(address));
  return text;
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// What a copy's end is: device memory of an allocation, host memory, or neither.
enum class Side { device, host, outside };
Side side_of(std::uint64_t address, std::size_t bytes) {
  if (address >= kVariables && address < kVariablesEnd) return Side::device;
  std::uint64_t first = 0;
  const auto* found = device().holding(address, &first);
  if (!found) return address >= kBase && address < kBase + kSpace ? Side::outside : Side::host;
  if (address + bytes > first + found->bytes) return Side::outside;
  return found->place == Place::device ? Side::device : Side::host;
}

}  // namespace

Device::Device() {
  if (const char* count = std::getenv("TILEPROOF_RECORD_SMS")) processors = std::atoi(count);
  hopper = std::getenv("TILEPROOF_RECORD_HOPPER") != nullptr;
  next_ = kBase;
  if (const char* base = std::getenv("TILEPROOF_RECORD_BASE")) next_ = std::strtoull(base, nullptr, 0);
  mmap(reinterpret_cast<void*>(kBase), kSpace, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
}

Device& device() {
  static auto* one = new Device;
  return *one;
}

std::uint64_t Device::allocate(std::string_view call, std::size_t bytes, Place place) {
  const std::size_t room = (bytes + kGuard - 1) / kGuard * kGuard;
  const std::uint64_t address = next_;
  if (const auto [stream, waits] = target(); !waits && capturing(stream))
    refuse(call, "memory nodes of a graph are not recorded");
  Event event("malloc");
  event.address("address", address).number("bytes", static_cast<std::int64_t>(bytes));
  event.text("place", word(place)).text("call", call);
  if (place != Place::device) {
    const int file = memfd_create("tileproof", MFD_CLOEXEC);
    void* at = reinterpret_cast<void*>(address);
    const bool made =
        file >= 0 && !ftruncate(file, static_cast<off_t>(room)) &&
        mmap(at, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
    event.text("file", "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file));
    const int code = made ? ask(event).code : abi::kOutOfMemory;
    if (file >= 0) close(file);
    if (code) {
      fail(call, code, "there is no host memory for " + range(address, bytes));
      return 0;
    }
  } else if (const auto reply = ask(event); reply.code) {
    fail(call, reply.code, reply.bytes);
    return 0;
  }
  next_ += room + kGuard;
  allocations_[address] = {bytes, place};
  return address;
}

int Device::free(std::string_view call, std::uint64_t address, bool host) {
  if (!address) return 0;
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.place == Place::registered)
    return fail(call, abi::kInvalidValue, "no allocation begins at its address, or it was freed");
  if (host != (found->second.place == Place::pinned))
    return fail(call, abi::kInvalidValue, std::string("that memory is ") + word(found->second.place));
  if (found->second.place != Place::device) {
    const std::size_t room = (found->second.bytes + kGuard - 1) / kGuard * kGuard;
    mmap(reinterpret_cast<void*>(address), room, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  }
  const auto [stream, waits] = target();
  if (capturing(stream)) refuse(call, "memory nodes of a graph are not recorded");
  allocations_.erase(found);
  Event event("free");
  event.address("address", address);
  if (!waits) event.number("stream", stream);  // cudaFree waits for the device
  tell(event);
  return 0;
}

int Device::adopt(std::string_view call, void* host, std::size_t bytes) {
  if (!host || !bytes) return fail(call, abi::kInvalidValue, "there is no memory to register");
  const auto reply = ask(Event("malloc")
                             .address("address", number(host))
                             .number("bytes", static_cast<std::int64_t>(bytes))
                             .text("place", word(Place::registered))
                             .text("call", call));
  if (reply.code) return fail(call, reply.code, reply.bytes);
  allocations_[number(host)] = {bytes, Place::registered};
  return 0;
}

int Device::release(std::string_view call, void* host) {
  const auto found = allocations_.find(number(host));
  if (found == allocations_.end() || found->second.place != Place::registered)
    return fail(call, abi::kInvalidValue, "that memory is not registered");
  allocations_.erase(found);
  tell(Event("free").address("address", number(host)));
  return 0;
}

const Allocation* Device::holding(std::uint64_t address, std::uint64_t* first) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  --after;
  if (address >= after->first + after->second.bytes) return nullptr;
  if (first) *first = after->first;
  return &after->second;
}

// Registered host memory has no second copy that a launch could read: the recorder gets its bytes before, and
// the program gets them after.
void Device::exchange(bool out) {
  for (const auto& [address, one] : allocations_) {
    if (one.place != Place::registered) continue;
    auto* at = reinterpret_cast<char*>(address);
    if (out) {
      tell(Event("write").address("address", address), {bytes_of(at, one.bytes)});
    } else {
      const auto reply = ask(
          Event("read").address("address", address).number("bytes", static_cast<std::int64_t>(one.bytes)));
      std::memcpy(at, reply.bytes.data(), reply.bytes.size());
    }
  }
}

Module* Device::load(const void* image, bool now, std::string_view call, int* code) {
  auto* one = new Module{static_cast<int>(modules_.size()), image, false, ""};
  modules_.push_back(one);
  if (!now) return one;
  one->sent = true;
  const auto reply = ask(Event("image").number("number", one->number), {extent(image)});
  if (reply.code == abi::kNoBinary && reply.bytes.find("SASS") != reply.bytes.npos)
    refuse(call, "the image holds SASS and no PTX: build it with code=compute_100a");
  if (reply.code) *code = fail(call, abi::kInvalidImage, reply.bytes);
  return reply.code ? nullptr : one;
}

void Device::send(Module* module, std::string_view call) {
  if (module->sent) return;
  if (!module->managed.empty())
    refuse(call, "the program has a __managed__ variable, " + module->managed +
                     "; allocate with cudaMallocManaged");
  module->sent = true;
  const auto reply = ask(Event("image").number("number", module->number), {extent(module->image)});
  if (reply.code == abi::kNoBinary)
    refuse(call, "the program's device code cannot be recorded: " + reply.bytes +
                     "; compile it with -gencode arch=compute_100a,code=compute_100a (PTX in the program)");
  if (reply.code) refuse(call, "the program's PTX cannot be read: " + reply.bytes);
}

Kernel* Device::kernel(Module* module, std::string_view name) {
  for (auto* one : kernels)
    if (one->module == module && one->name == name) return one;
  auto* one = new Kernel;
  one->module = module;
  one->name = name;
  one->attributes[abi::kMaxDynamicShared] = kDefaultSharedBytes;
  kernels.push_back(one);
  handles_.insert(one);
  return one;
}

Kernel* Device::kernel_of(const void* handle) {
  if (const auto found = functions.find(handle); found != functions.end()) return found->second;
  return handles_.contains(handle) ? static_cast<Kernel*>(const_cast<void*>(handle)) : nullptr;
}

bool Device::describe(std::string_view call, Kernel* kernel) {
  if (kernel->known) return true;
  send(kernel->module, call);
  const auto reply = ask(Event("entry").number("module", kernel->module->number).text("name", kernel->name));
  if (reply.code) return false;
  std::istringstream words(reply.bytes);
  words >> kernel->max_threads >> kernel->cluster[0] >> kernel->cluster[1] >> kernel->cluster[2];
  for (std::size_t offset, size; words >> offset >> size;) {
    kernel->offsets.push_back(offset);
    kernel->sizes.push_back(size);
  }
  return kernel->known = true;
}

int copy(std::string_view call, void* to, const void* from, std::size_t bytes, int kind) {
  if (!bytes) return 0;
  const auto onto = side_of(number(to), bytes), off = side_of(number(from), bytes);
  if (onto == Side::outside)
    return fail(call, abi::kInvalidValue, "no allocation holds the target, " + range(number(to), bytes));
  if (off == Side::outside)
    return fail(call, abi::kInvalidValue, "no allocation holds the source, " + range(number(from), bytes));
  if (kind < abi::kHostToHost || kind > abi::kDefault)
    return fail(call, abi::kInvalidDirection, "cudaMemcpyKind " + std::to_string(kind) + " is none");
  // Managed and pinned memory is on both sides.
  const bool plain_to = onto == Side::host && !device().holding(number(to));
  const bool plain_from = off == Side::host && !device().holding(number(from));
  const bool to_device = kind == abi::kHostToDevice || kind == abi::kDeviceToDevice;
  const bool from_device = kind == abi::kDeviceToHost || kind == abi::kDeviceToDevice;
  if (kind != abi::kDefault && ((to_device && plain_to) || (!to_device && onto == Side::device)))
    return fail(call, abi::kInvalidValue,
                "cudaMemcpyKind says that the target is " +
                    std::string(to_device ? "on the device" : "on the host") +
                    ", and it is not: " + range(number(to), bytes));
  if (kind != abi::kDefault && ((from_device && plain_from) || (!from_device && off == Side::device)))
    return fail(call, abi::kInvalidValue,
                "cudaMemcpyKind says that the source is " +
                    std::string(from_device ? "on the device" : "on the host") +
                    ", and it is not: " + range(number(from), bytes));
  const auto size = static_cast<std::int64_t>(bytes);
  const auto [stream, waits] = target();
  const auto again = [=, call = std::string(call)](int number) {
    const Into into(number);
    return copy(call, to, from, bytes, kind);
  };
  if (captured(stream, again)) return 0;
  if (onto == Side::device && off == Side::device) {
    // No copy within the device is waited for (CUDA runtime API, API synchronization behavior).
    tell(Event("copy")
             .address("address", number(to))
             .address("source", number(from))
             .number("bytes", size)
             .number("stream", stream)
             .number("waits", 0));
  } else if (onto == Side::device) {
    tell(Event("write").address("address", number(to)).number("stream", stream).number("waits", waits),
         {bytes_of(from, bytes)});
  } else if (off == Side::device) {
    const auto reply = ask(Event("read")
                               .address("address", number(from))
                               .number("bytes", size)
                               .number("stream", stream)
                               .number("waits", waits));
    if (reply.code) return fail(call, reply.code, reply.bytes);
    std::memcpy(to, reply.bytes.data(), bytes);
  } else {
    std::memmove(to, from, bytes);
  }
  return 0;
}

int copy_rows(std::string_view call, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
              std::size_t width, std::size_t height, int kind) {
  if (height > 1 && (width > to_pitch || width > from_pitch))
    return fail(call, abi::kInvalidPitch,
                "a row of " + std::to_string(width) + " bytes is wider than its pitch");
  for (std::size_t row = 0; row < height; ++row)
    if (const int code = copy(call, static_cast<char*>(to) + row * to_pitch,
                              static_cast<const char*>(from) + row * from_pitch, width, kind))
      return code;
  return 0;
}

int copy_box(std::string_view call, const abi::Copy3D& how) {
  if (how.from_array || how.to_array) refuse(call, "CUDA arrays are not recorded");
  for (std::size_t z = 0; z < how.extent.depth; ++z) {
    const auto at = [&](const abi::Pitched& p, const abi::Position& o) {
      return static_cast<char*>(p.data) + ((o.z + z) * p.height + o.y) * p.pitch + o.x;
    };
    if (const int code = copy_rows(call, at(how.to, how.to_at), how.to.pitch, at(how.from, how.from_at),
                                   how.from.pitch, how.extent.width, how.extent.height, how.kind))
      return code;
  }
  return 0;
}

int fill(std::string_view call, std::uint64_t to, const void* value, std::size_t size, std::size_t count) {
  if (!count) return 0;
  const auto side = side_of(to, size * count);
  if (side == Side::outside || (side == Side::host && !device().holding(to)))
    return fail(call, abi::kInvalidValue, "no allocation holds the target, " + range(to, size * count));
  const int stream = target().stream;
  const std::string kept(static_cast<const char*>(value), size);
  const auto again = [=, call = std::string(call)](int number) {
    const Into into(number);
    return fill(call, to, kept.data(), kept.size(), count);
  };
  if (captured(stream, again)) return 0;
  if (side == Side::device) {
    // The host does not wait for a fill of device memory (the same page).
    tell(Event("fill")
             .address("address", to)
             .number("count", static_cast<std::int64_t>(count))
             .number("stream", stream)
             .number("waits", 0),
         {bytes_of(value, size)});
    return 0;
  }
  auto* at = reinterpret_cast<char*>(to);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(at + i * size, value, size);
  return 0;
}

int symbol_address(std::string_view call, Variable* variable, std::uint64_t& address, std::size_t& bytes) {
  if (!variable->address) {
    device().send(variable->module, call);
    const auto reply =
        ask(Event("variable").number("module", variable->module->number).text("name", variable->name));
    if (reply.code) return fail(call, abi::kInvalidSymbol, reply.bytes);
    std::istringstream(reply.bytes) >> variable->address >> variable->bytes;
  }
  address = variable->address;
  bytes = variable->bytes;
  return 0;
}

}  // namespace tileproof::record
