// The way to the recorder, a socket: what the program does goes there as lines of JSON with bytes behind
// them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tileproof::record {

using Bytes = std::span<const char>;

inline Bytes bytes_of(const void* data, std::size_t count) { return {static_cast<const char*>(data), count}; }

// One message: what happened, by name, with its fields.
class Event {
 public:
  explicit Event(std::string_view kind);
  Event& number(std::string_view key, std::int64_t value);
  Event& address(std::string_view key, std::uint64_t value);
  Event& text(std::string_view key, std::string_view value);
  template <class T>
  Event& list(std::string_view key, const T* values, std::size_t count) {
    std::string out = "[";
    for (std::size_t i = 0; i < count; ++i) out += (i ? "," : "") + std::to_string(values[i]);
    return raw(key, out + "]");
  }
  const std::string& json() const { return json_; }

 private:
  Event& raw(std::string_view key, std::string_view value);
  std::string json_;
};

struct Reply {
  int code = 0;  // of the CUDA API
  std::string bytes;
};

// Sends it; `payload` follows.
void tell(const Event& event, std::initializer_list<Bytes> payload = {});
void tell(const Event& event, const std::vector<Bytes>& payload);
// Sends it and waits for the answer.
Reply ask(const Event& event, std::initializer_list<Bytes> payload = {});

// Ends the program with exit code 2: it did what cannot be recorded.
[[noreturn]] void refuse(std::string_view call, std::string_view why);
// Tells the recorder that a call fails, and why; `code` goes back to the program.
int fail(std::string_view call, int code, std::string_view why);

// Held in every call: programs may call from several threads.
std::recursive_mutex& calls();
using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace tileproof::record
