// Judges a dump against a case of Tileproof vectors: c++ -O2 -std=c++17 read_vectors.cpp
//   read_vectors VECTORS/CASE DUMP     DUMP: a folder of .npy files, bf16 as 2-byte raw data (V2)
// Exit code 0: everything in the dump is right; 1: something is wrong; 2: it cannot be judged.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>
namespace fs = std::filesystem;
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
  size_t bytes = 0;  // of an element
};
template <class T>
static T take(const char* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
static double decoded(const std::string& type, const char* at) {
  if (type == "f8") return take<double>(at);
  if (type == "f4") return take<float>(at);
  if (type == "i8") return double(take<int64_t>(at));
  if (type != "f2" && type != "V2") throw std::runtime_error("an unsupported dtype: " + type);
  // bf16, or f16: the exponent 31 is that of infinity and NaN, 0 that of subnormals.
  int h = take<uint16_t>(at), f = type == "f2", e = f ? h >> 10 & 31 : h >> 7 & 255, m = h & (f ? 1023 : 127);
  bool last = e == (f ? 31 : 255);
  double v =
      last ? (m ? NAN : INFINITY) : std::ldexp(m + (e ? f ? 1024 : 128 : 0), (e ? e : 1) - (f ? 25 : 134));
  return h >> 15 ? -v : v;
}
static Array load(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(in)), {});
  auto no = [&](const char* why) { return std::runtime_error(file.string() + ": " + why); };
  if (all.size() < 12 || all.compare(0, 6, "\x93NUMPY")) throw no("not an .npy file");
  size_t head = all[6] == 1 ? 10 : 12;
  size_t length = head == 10 ? take<uint16_t>(&all[8]) : take<uint32_t>(&all[8]);
  if (all.size() < head + length) throw no("cut short");
  std::string text = all.substr(head, length);
  if (text.find("'fortran_order': False") == std::string::npos) throw no("expected C order");
  size_t d = text.find("'descr': '") + 10, s = text.find("'shape': (") + 10;
  std::string type = text.substr(d, text.find('\'', d) - d).substr(1);
  Array a;
  size_t count = 1;
  while (text[s] != ')') {
    size_t used = 0;
    a.shape.push_back(std::stoll(text.substr(s), &used));
    count *= a.shape.back();
    s = text.find_first_not_of(", ", s + used);
  }
  a.bytes = std::stoul(type.substr(1));
  if (all.size() < head + length + count * a.bytes) throw no("cut short");
  for (size_t i = 0; i < count; ++i) a.values.push_back(decoded(type, &all[head + length] + i * a.bytes));
  return a;
}
static bool right(const fs::path& set, const std::string& name, const Array& found) {
  Array value = load(set / "expected" / name), first;
  bool narrow = found.bytes == 2 && fs::exists(set / "bound16" / name),
       part = fs::exists(set / "first" / name);
  Array bound = load(set / (narrow ? "bound16" : "bound") / name);
  if (part) first = load(set / "first" / name);
  bool fits = found.shape.size() == value.shape.size();
  for (size_t k = 0; fits && k < value.shape.size(); ++k)
    fits = part ? first.values[k] + value.shape[k] <= found.shape[k] : value.shape[k] == found.shape[k];
  if (!fits) return std::printf("%s: another shape\n", name.c_str()), false;
  size_t wrong = 0;
  for (size_t i = 0; i < value.values.size(); ++i) {
    size_t rest = i, at = 0, step = 1;
    for (size_t k = value.shape.size(); k-- > 0; rest /= value.shape[k], step *= found.shape[k])
      at += step * (rest % value.shape[k] + (part ? size_t(first.values[k]) : 0));
    double f = found.values[at], v = value.values[i], b = bound.values[i];
    if (std::isnan(b) || std::isinf(b) || std::fabs(f - v) <= b || f == v || (std::isnan(f) && std::isnan(v)))
      continue;
    if (!wrong++)
      std::printf("%s: element %zu: expected %.9g within %.3g, found %.9g\n", name.c_str(), at, v, b, f);
  }
  std::printf("%s: %zu of %zu wrong\n", name.c_str(), wrong, value.values.size());
  return !wrong;
}
int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("read_vectors VECTORS/CASE DUMP");
  int judged = 0, wrong = 0;
  for (auto& file : fs::directory_iterator(fs::path(argv[1]) / "expected"))
    if (fs::path dumped = fs::path(argv[2]) / file.path().filename(); fs::exists(dumped)) {
      ++judged;
      wrong += !right(argv[1], file.path().filename().string(), load(dumped));
    }
  if (!judged) throw std::runtime_error("the dump has no stage of the case");
  return wrong != 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
