// Streams and events: handles with a number. What the program enqueues is done at once, in the order of its
// calls.
#pragma once
#include <string_view>

namespace tileproof::record {

struct Stream {
  int number = 0;
  unsigned flags = 0;
  int priority = 0;
};
struct Mark {  // an event
  int number = 0;
  unsigned flags = 0;
  bool recorded = false;
};

int stream_number(const void* stream);  // 0 of the default streams
// Null for a default stream; ends the program for a handle that is none.
Stream* stream_of(std::string_view call, void* handle);
Mark* mark_of(std::string_view call, void* handle);
int make_stream(void** out, unsigned flags, int priority);
int drop_stream(std::string_view call, void* handle);
int make_mark(void** out, unsigned flags);
int drop_mark(std::string_view call, void* handle);
int record_mark(std::string_view call, void* handle, void* stream);
int wait_mark(std::string_view call, void* stream, void* handle);
int elapsed(std::string_view call, float* milliseconds, void* from, void* to);

}  // namespace tileproof::record
