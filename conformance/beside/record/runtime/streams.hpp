// Streams and events: handles with a number. What the program enqueues is done at once, in the order of its
// calls; the recorder is told which stream it went into and what waits for what.
#pragma once
#include <string_view>
#include <vector>

namespace tileproof::record {

struct Graph;
struct Node;

struct Stream {
  int number = 0;
  unsigned flags = 0;
  int priority = 0;
};
struct Mark {  // an event
  int number = 0;
  unsigned flags = 0;
  bool recorded = false;
  Graph* graph = nullptr;    // of an event that is recorded in a capture:
  std::vector<Node*> after;  // what it stands for there
};

// 0 of the legacy default stream; each thread has a default stream of its own beside it.
int stream_number(const void* stream);
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
// The host waits, or has seen that it need not: for a stream, an event, everything.
int wait_for_stream(std::string_view call, void* stream);
int wait_for_mark(std::string_view call, void* handle);
void wait_for_all();
int new_number();       // of a stream that no handle stands for
int new_mark_number();  // likewise of an event

// Where what a call enqueues goes while one of these stands: by a stream's handle or number. Without one it
// goes into the default stream, and the host waits.
struct Target {
  int stream = 0;
  bool waits = true;
};
Target target();
class Into {
 public:
  explicit Into(const void* stream) : Into(stream_number(stream)) {}
  explicit Into(int number);
  ~Into();
  Into(const Into&) = delete;

 private:
  Target before_;
  bool stood_;
};

// While it stands, the default stream is the thread's own (--default-stream per-thread).
class PerThread {
 public:
  PerThread();
  ~PerThread();
  PerThread(const PerThread&) = delete;

 private:
  bool before_;
};
bool per_thread();

}  // namespace tileproof::record
