// vprintf and __assertfail: the two functions that compiled kernels call.
#include <algorithm>
#include <cstdio>

#include "machine.hpp"
#include "slots/control.hpp"

namespace tileproof {
namespace {

// A zero-terminated string in any space a generic address can name, cut at kMostString; empty after a fault.
std::string string_at(Exec& x, uint64_t address, int lane) {
  std::string s;
  for (size_t n = 0; n <= kMostString; ++n) {
    const uint8_t* p = x.load(Space::Generic, address + n, 1, lane);
    if (!p || !*p) return s;
    s.push_back(static_cast<char>(*p));
  }
  s.pop_back();
  ++x.e.cut["printf: strings longer than " + std::to_string(kMostString) + " bytes"];
  return s;
}

// What vprintf reads: arguments lie in the buffer at their natural alignment, floats as double.
class Arguments {
 public:
  Arguments(Exec& x, uint64_t at, int lane) : x_(x), at_(at), lane_(lane) {}
  uint64_t take(uint32_t size) {
    at_ = (at_ + size - 1) / size * size;
    uint64_t v = 0;
    if (const uint8_t* p = x_.load(Space::Generic, at_, size, lane_)) std::memcpy(&v, p, size);
    at_ += size;
    return v;
  }

 private:
  Exec& x_;
  uint64_t at_;
  int lane_;
};

// One conversion of a format: %[flags][width][.precision][size]type (CUDA C++ programming guide, formatted
// output). Width and precision are cut at kMostField.
struct Conversion {
  std::string flags;
  int width = 0, precision = -1;
  bool wide = false;  // an integer of 64 bits
  char type = 0;      // 0: the format ends before it
};

Conversion read_conversion(Exec& x, const std::string& f, size_t& k, Arguments& arguments) {
  Conversion c;
  auto number = [&] {
    int64_t n = 0;
    if (k < f.size() && f[k] == '*') {
      ++k;
      n = static_cast<int32_t>(arguments.take(4));
    } else {
      for (; k < f.size() && f[k] >= '0' && f[k] <= '9'; ++k)
        n = std::min<int64_t>(10 * n + (f[k] - '0'), INT32_MAX);
    }
    if (n > kMostField || n < -kMostField)
      ++x.e.cut["printf: widths and precisions above " + std::to_string(kMostField)];
    return static_cast<int>(std::clamp<int64_t>(n, -kMostField, kMostField));
  };
  for (; k < f.size() && f[k] && std::strchr("-+ #0", f[k]); ++k)
    if (c.flags.find(f[k]) == std::string::npos) c.flags.push_back(f[k]);
  c.width = number();
  if (k < f.size() && f[k] == '.') {
    ++k;
    c.precision = number();
  }
  int longs = 0;
  for (; k < f.size() && f[k] && std::strchr("hlzjt", f[k]); ++k)
    longs += f[k] == 'l' ? 1 : f[k] == 'h' ? 0 : 2;
  c.wide = longs > 0;
  if (k < f.size()) c.type = f[k];
  return c;
}

std::string shown(const Conversion& c, const char* size, auto value) {
  char text[2 * kMostField + 512];
  const std::string spec = "%" + c.flags + "*.*" + size + c.type;
  std::snprintf(text, sizeof text, spec.c_str(), c.width, c.precision, value);
  return text;
}

// Formats as device printf does.
std::string format(Exec& x, const std::string& f, uint64_t at, int lane) {
  std::string out;
  Arguments arguments(x, at, lane);
  for (size_t k = 0; k < f.size() && out.size() < kMostPrintf && !x.e.stopped; ++k) {
    if (f[k] != '%') {
      out.push_back(f[k]);
      continue;
    }
    const size_t begins = k++;
    const Conversion c = read_conversion(x, f, k, arguments);
    switch (c.type) {
      case 0:
        return out;
      case '%':
        out.push_back('%');
        break;
      case 'd':
      case 'i':
        out += c.wide ? shown(c, "ll", static_cast<long long>(arguments.take(8)))
                      : shown(c, "", static_cast<int32_t>(arguments.take(4)));
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        out += c.wide ? shown(c, "ll", static_cast<unsigned long long>(arguments.take(8)))
                      : shown(c, "", static_cast<uint32_t>(arguments.take(4)));
        break;
      case 'c':
        out += shown(c, "", static_cast<int>(arguments.take(4)));
        break;
      case 'p':
        out += hex(arguments.take(8));
        break;
      case 's':
        out += string_at(x, arguments.take(8), lane);
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A': {
        const uint64_t bits = arguments.take(8);
        double v;
        std::memcpy(&v, &bits, 8);
        out += shown(c, "", v);
        break;
      }
      default:
        out += f.substr(begins, k + 1 - begins);
    }
  }
  return out;
}

const std::string kCut = "printf: calls after " + std::to_string(kMostPrintf) + " bytes";

// The return value may be none; the argument buffer is 0 where there are none.
Step vprintf_call(Exec& x, const Instr& i) {
  for (uint32_t m = x.mask; m && !x.e.stopped; m &= m - 1) {
    const int l = __builtin_ctz(m);
    std::string& text = x.e.printf_text;
    if (text.size() < kMostPrintf) {
      const std::string f = string_at(x, x.src<uint64_t>(i.o[slot::call_vprintf::format])[l], l);
      text += format(x, f, x.src<uint64_t>(i.o[slot::call_vprintf::arguments])[l], l);
      x.e.spend(1 + f.size() / 4, x.origin(l));
      if (text.size() > kMostPrintf) {
        text.resize(kMostPrintf);
        ++x.e.cut[kCut];
      }
    } else {
      ++x.e.cut[kCut];
    }
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
