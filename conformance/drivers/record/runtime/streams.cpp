#include "streams.hpp"

#include <unordered_map>

#include "abi.hpp"
#include "channel.hpp"

namespace tileproof::record {
namespace {

// Handles stay known after they were destroyed: their use is named.
template <class T>
struct Handles {
  std::unordered_map<const void*, bool> alive;
  int made = 0;

  T* make() {
    auto* one = new T;
    one->number = ++made;
    alive[one] = true;
    return one;
  }
  T* find(void* handle) {
    const auto found = alive.find(handle);
    return found != alive.end() && found->second ? static_cast<T*>(handle) : nullptr;
  }
};
Handles<Stream>& streams() {
  static auto* one = new Handles<Stream>;
  return *one;
}
Handles<Mark>& marks() {
  static auto* one = new Handles<Mark>;
  return *one;
}

bool is_default(const void* handle) {
  return reinterpret_cast<std::size_t>(handle) <= 2;
}  // null, legacy, per thread

}  // namespace

Stream* stream_of(std::string_view call, void* handle) {
  if (is_default(handle)) return nullptr;
  auto* found = streams().find(handle);
  if (!found) refuse(call, "its stream is none, or was destroyed");
  return found;
}

Mark* mark_of(std::string_view call, void* handle) {
  auto* found = marks().find(handle);
  if (!found) refuse(call, "its event is none, or was destroyed");
  return found;
}

int stream_number(const void* stream) {
  const auto* found = stream_of("a launch", const_cast<void*>(stream));
  return found ? found->number : 0;
}

int make_stream(void** out, unsigned flags, int priority) {
  auto* one = streams().make();
  one->flags = flags;
  one->priority = priority;
  *out = one;
  return 0;
}

int drop_stream(std::string_view call, void* handle) {
  if (!streams().find(handle)) return fail(call, abi::kInvalidHandle, "its stream is none, or was destroyed");
  streams().alive[handle] = false;
  return 0;
}

int make_mark(void** out, unsigned flags) {
  auto* one = marks().make();
  one->flags = flags;
  *out = one;
  return 0;
}

int drop_mark(std::string_view call, void* handle) {
  if (!marks().find(handle)) return fail(call, abi::kInvalidHandle, "its event is none, or was destroyed");
  marks().alive[handle] = false;
  return 0;
}

int record_mark(std::string_view call, void* handle, void* stream) {
  auto* mark = mark_of(call, handle);
  mark->recorded = true;
  tell(Event("mark").number("number", mark->number).number("stream", stream_number(stream)));
  return 0;
}

int wait_mark(std::string_view call, void* stream, void* handle) {
  tell(Event("wait").number("stream", stream_number(stream)).number("number", mark_of(call, handle)->number));
  return 0;
}

int elapsed(std::string_view call, float* milliseconds, void* from, void* to) {
  if (!mark_of(call, from)->recorded || !mark_of(call, to)->recorded)
    return fail(call, abi::kInvalidHandle, "an event of the two was never recorded");
  constexpr unsigned kNoTiming = 2;
  if ((mark_of(call, from)->flags | mark_of(call, to)->flags) & kNoTiming)
    return fail(call, abi::kInvalidHandle, "an event of the two was made without timing");
  *milliseconds = 1;  // there is no time here; a program may divide by it
  return 0;
}

}  // namespace tileproof::record
