#include "streams.hpp"

#include <cstdint>
#include <unordered_map>

#include "abi.hpp"
#include "channel.hpp"
#include "graphs.hpp"

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

constexpr std::uintptr_t kLegacy = 1, kPerThread = 2;  // cudaStreamLegacy, cudaStreamPerThread
thread_local bool thread_default = false, standing = false;
thread_local Target where;
thread_local int own = 0;  // the number of this thread's default stream

bool is_default(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle) <= kPerThread; }

void told(int number, unsigned flags) {
  tell(Event("stream").number("number", number).number("flags", flags));
}

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
  if (!is_default(stream)) return stream_of("a launch", const_cast<void*>(stream))->number;
  const auto which = reinterpret_cast<std::uintptr_t>(stream);
  if (which == kLegacy || (which != kPerThread && !thread_default)) return 0;
  if (!own) told(own = new_number(), 0);
  return own;
}

int new_number() { return ++streams().made; }
int new_mark_number() { return ++marks().made; }

int make_stream(void** out, unsigned flags, int priority) {
  auto* one = streams().make();
  one->flags = flags;
  one->priority = priority;
  *out = one;
  told(one->number, flags);
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
  const int number = stream_number(stream);
  if (auto* capture = capturing(number)) {
    mark->graph = capture->graph;
    mark->after = capture->ends[number];
    return 0;
  }
  mark->recorded = true;
  mark->graph = nullptr;
  tell(Event("mark").number("number", mark->number).number("stream", number));
  return 0;
}

int wait_mark(std::string_view call, void* stream, void* handle) {
  const auto* mark = mark_of(call, handle);
  const int number = stream_number(stream);
  if (mark->graph) return join(call, number, *mark);
  if (capturing(number)) {
    if (mark->recorded)
      return fail(call, abi::kCaptureIsolation, "a captured stream waits for an event outside");
    return 0;
  }
  tell(Event("wait").number("stream", number).number("number", mark->number));
  return 0;
}

int wait_for_stream(std::string_view call, void* stream) {
  stream_of(call, stream);
  const int number = stream_number(stream);
  if (capturing(number)) return fail(call, abi::kCaptureUnsupported, "the stream is being captured");
  tell(Event("synced").number("stream", number));
  return 0;
}

int wait_for_mark(std::string_view call, void* handle) {
  const auto* mark = mark_of(call, handle);
  if (mark->graph) return fail(call, abi::kCapturedEvent, "the event was recorded in a capture");
  tell(Event("synced").number("number", mark->number));
  return 0;
}

void wait_for_all() { tell(Event("synced")); }

int elapsed(std::string_view call, float* milliseconds, void* from, void* to) {
  if (!mark_of(call, from)->recorded || !mark_of(call, to)->recorded)
    return fail(call, abi::kInvalidHandle, "an event of the two was never recorded");
  constexpr unsigned kNoTiming = 2;
  if ((mark_of(call, from)->flags | mark_of(call, to)->flags) & kNoTiming)
    return fail(call, abi::kInvalidHandle, "an event of the two was made without timing");
  for (void* one : {from, to}) wait_for_mark(call, one);  // it succeeds where both are over
  *milliseconds = 1;                                      // there is no time here; a program may divide by it
  return 0;
}

Target target() { return standing ? where : Target{stream_number(nullptr), true}; }

Into::Into(int number) : before_(where), stood_(standing) {
  where = {number, false};
  standing = true;
}
Into::~Into() {
  where = before_;
  standing = stood_;
}

PerThread::PerThread() : before_(thread_default) { thread_default = true; }
PerThread::~PerThread() { thread_default = before_; }
bool per_thread() { return thread_default; }

}  // namespace tileproof::record
