#include "channel.hpp"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tileproof::record {
namespace {

constexpr int kRefused = 2;

class Channel {
 public:
  Channel() {
    const char* path = std::getenv("TILEPROOF_RECORD_SOCKET");
    sockaddr_un place = {};
    place.sun_family = AF_UNIX;
    if (!path || std::strlen(path) >= sizeof place.sun_path)
      give_up("this CUDA library stands in for NVIDIA's only below `tileproof record -- PROGRAM`");
    std::strcpy(place.sun_path, path);
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0 || ::connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place))
      give_up("the recorder has ended");
    owner_ = ::getpid();
  }

  void send(Bytes bytes) {
    if (owner_ != ::getpid()) give_up("the program forked and uses CUDA in the child");
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) give_up("the recorder has ended");
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }

  void receive(char* to, std::size_t count) {
    while (count) {
      const auto got = ::recv(socket_, to, count, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) give_up("the recorder has ended");
      to += got;
      count -= static_cast<std::size_t>(got);
    }
  }

  [[noreturn]] static void give_up(const char* why) {
    std::fflush(nullptr);
    std::fprintf(stderr, "tileproof record: %s\n", why);
    ::_exit(kRefused);
  }

 private:
  int socket_ = -1;
  pid_t owner_ = 0;
};

Channel& channel() {
  static auto* one = new Channel;  // programs call from their own destructors
  return *one;
}

void send(const Event& event, const Bytes* payload, std::size_t count, bool answer) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += payload[i].size();
  const std::string line =
      event.json() + ",\"payload\":" + std::to_string(total) + (answer ? ",\"answer\":true}\n" : "}\n");
  channel().send({line.data(), line.size()});
  for (std::size_t i = 0; i < count; ++i) channel().send(payload[i]);
}

}  // namespace

Event::Event(std::string_view kind) : json_("{\"event\":\"" + std::string(kind) + "\"") {}

Event& Event::raw(std::string_view key, std::string_view value) {
  json_.append(",\"").append(key).append("\":").append(value);
  return *this;
}

Event& Event::number(std::string_view key, std::int64_t value) { return raw(key, std::to_string(value)); }
Event& Event::address(std::string_view key, std::uint64_t value) { return raw(key, std::to_string(value)); }

Event& Event::text(std::string_view key, std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned char>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return raw(key, out + "\"");
}

void tell(const Event& event, std::initializer_list<Bytes> payload) {
  send(event, payload.begin(), payload.size(), false);
}
void tell(const Event& event, const std::vector<Bytes>& payload) {
  send(event, payload.data(), payload.size(), false);
}

// An answer: u32 code, u64 bytes, the bytes.
Reply ask(const Event& event, std::initializer_list<Bytes> payload) {
  send(event, payload.begin(), payload.size(), true);
  std::uint32_t code;
  std::uint64_t count;
  channel().receive(reinterpret_cast<char*>(&code), sizeof code);
  channel().receive(reinterpret_cast<char*>(&count), sizeof count);
  Reply out{static_cast<int>(code), std::string(count, '\0')};
  channel().receive(out.bytes.data(), count);
  return out;
}

void refuse(std::string_view call, std::string_view why) {
  std::fflush(nullptr);
  ask(Event("refused").text("call", call).text("why", why));
  ::_exit(kRefused);
}

int fail(std::string_view call, int code, std::string_view why) {
  tell(Event("failed").text("call", call).number("code", code).text("why", why));
  return code;
}

std::recursive_mutex& calls() {
  static auto* one = new std::recursive_mutex;
  return *one;
}

}  // namespace tileproof::record
