// What ends a launch from outside: a time limit, and a signal for Python.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace tileproof {

class Watch {
 public:
  // `seconds` 0: no limit. `interrupted` says whether Python wants the launch to end (Ctrl-C); it is asked
  // some twenty times a second.
  Watch(double seconds, std::function<bool()> interrupted)
      : seconds_(seconds), interrupted_(std::move(interrupted)), begun_(Clock::now()), asked_(begun_) {}

  enum class Verdict : uint8_t { GoOn, TimeLimit, Interrupted };
  // Cheap enough for every few hundred instructions: one reading of the clock.
  Verdict look() {
    const auto now = Clock::now();
    if (seconds_ > 0 && now - begun_ > std::chrono::duration<double>(seconds_)) return Verdict::TimeLimit;
    if (now - asked_ < std::chrono::milliseconds(50)) return Verdict::GoOn;
    asked_ = now;
    return interrupted_ && interrupted_() ? Verdict::Interrupted : Verdict::GoOn;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  std::function<bool()> interrupted_;
  Clock::time_point begun_, asked_;
};

}  // namespace tileproof
