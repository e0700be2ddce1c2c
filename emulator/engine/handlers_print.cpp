// vprintf and __assertfail: the two functions that compiled kernels call.
#include <cstdio>

#include "machine.hpp"
#include "slots/control.hpp"

namespace tileproof {
namespace {

// A zero-terminated string in any space a generic address can name; empty after a fault.
std::string string_at(Exec& x, uint64_t address, int lane) {
  std::string s;
  for (size_t n = 0; n < 4096; ++n) {
    const uint8_t* p = x.load(Space::Generic, address + n, 1, lane);
    if (!p || !*p) break;
    s.push_back(static_cast<char>(*p));
  }
  return s;
}

// Formats as device printf does: arguments lie in the buffer at their natural alignment, floats as double.
std::string format(Exec& x, const std::string& f, uint64_t args, int lane) {
  std::string out;
  uint64_t at = args;
  auto take = [&](uint32_t size) {
    at = (at + size - 1) / size * size;
    uint64_t v = 0;
    if (const uint8_t* p = x.load(Space::Generic, at, size, lane)) std::memcpy(&v, p, size);
    at += size;
    return v;
  };
  for (size_t k = 0; k < f.size(); ++k) {
    if (f[k] != '%') {
      out.push_back(f[k]);
      continue;
    }
    std::string spec = "%";
    int longs = 0;
    for (++k; k < f.size() && std::string("-+ #0123456789.*hlzjt").find(f[k]) != std::string::npos; ++k) {
      if (f[k] == 'l' || f[k] == 'z' || f[k] == 'j' || f[k] == 't') {
        longs += f[k] == 'l' ? 1 : 2;
      } else if (f[k] == '*') {
        spec += std::to_string(static_cast<int32_t>(take(4)));
      } else if (f[k] != 'h') {
        spec.push_back(f[k]);
      }
    }
    if (k >= f.size()) break;
    char buffer[512] = "";
    const char c = f[k];
    switch (c) {
      case '%':
        out.push_back('%');
        continue;
      case 'd':
      case 'i':
        if (longs)
          std::snprintf(buffer, sizeof buffer, (spec + "lld").c_str(), static_cast<long long>(take(8)));
        else
          std::snprintf(buffer, sizeof buffer, (spec + "d").c_str(), static_cast<int32_t>(take(4)));
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        if (longs)
          std::snprintf(buffer, sizeof buffer, (spec + "ll" + c).c_str(),
                        static_cast<unsigned long long>(take(8)));
        else
          std::snprintf(buffer, sizeof buffer, (spec + c).c_str(), static_cast<uint32_t>(take(4)));
        break;
      case 'c':
        std::snprintf(buffer, sizeof buffer, (spec + "c").c_str(), static_cast<int>(take(4)));
        break;
      case 'p':
        std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(take(8)));
        break;
      case 's':
        out += string_at(x, take(8), lane);
        continue;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A': {
        const uint64_t bits = take(8);
        double v;
        std::memcpy(&v, &bits, 8);
        std::snprintf(buffer, sizeof buffer, (spec + c).c_str(), v);
        break;
      }
      default:
        out += spec + c;
        continue;
    }
    out += buffer;
  }
  return out;
}

// The return value may be none; the argument buffer is 0 where there are none.
Step vprintf_call(Exec& x, const Instr& i) {
  for (uint32_t m = x.mask; m && !x.e.stopped; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const std::string f = string_at(x, x.src<uint64_t>(i.o[slot::call_vprintf::format])[l], l);
    x.e.printf_text += format(x, f, x.src<uint64_t>(i.o[slot::call_vprintf::arguments])[l], l);
    if (i.o[slot::call_vprintf::dst] != INT32_MIN) x.dst<uint32_t>(i.o[slot::call_vprintf::dst])[l] = 0;
  }
  return x.e.stopped ? Step::Stop : Step::Next;
}

Step assertfail_call(Exec& x, const Instr& i) {
  const int l = x.lane();
  x.e.fault(
      "device-assert",
      "device assertion failed: " + string_at(x, x.src<uint64_t>(i.o[slot::call_assertfail::message])[l], l) +
          " at " + string_at(x, x.src<uint64_t>(i.o[slot::call_assertfail::file])[l], l) + ":" +
          std::to_string(x.src<uint32_t>(i.o[slot::call_assertfail::line])[l]) + " in " +
          string_at(x, x.src<uint64_t>(i.o[slot::call_assertfail::function])[l], l),
      x.origin(l));
  return Step::Stop;
}

const Registrar print({{"call.vprintf", vprintf_call}, {"call.assertfail", assertfail_call}});

}  // namespace
}  // namespace tileproof
