#include "mma_operands.hpp"
#include "half.hpp"
#include "poison_memory.hpp"

#include "small_float.hpp"

namespace tileproof {

Element element_of(Format f, int code) {
  switch (f) {
    case Format::F16:
      return code ? Element::Bf16 : Element::F16;
    case Format::Tf32:
      return Element::Tf32;
    case Format::I8:
      return code ? Element::S8 : Element::U8;
    case Format::F8F6F4:
    case Format::Mxf8f6f4:
      return code == 0   ? Element::E4m3
             : code == 1 ? Element::E5m2
             : code == 3 ? Element::E2m3
             : code == 4 ? Element::E3m2
                         : Element::E2m1;
    default:
      return Element::E2m1Dense;
  }
}

int32_t emin_of(Element e) {
  switch (e) {
    case Element::F16:
      return kF16.emin();
    case Element::E4m3:
      return kE4m3.emin();
    case Element::E5m2:
      return kE5m2.emin();
    case Element::E2m3:
      return kE2m3.emin();
    case Element::E3m2:
      return kE3m2.emin();
    case Element::E2m1:
    case Element::E2m1Dense:
      return kE2m1.emin();
    default:
      return kF32.emin();
  }
}

namespace {

constexpr int per_chunk(Element e) {
  switch (e) {
    case Element::Tf32:
      return 4;
    case Element::F16:
    case Element::Bf16:
      return 8;
    case Element::E2m1Dense:
      return 32;
    default:
      return 16;
  }
}

struct Table {
  float value[256];
};
template <const SmallFloat& F>
const Table& table() {
  static const Table made = [] {
    Table t{};
    for (uint32_t v = 0; v < 1u << F.bits(); ++v) t.value[v] = static_cast<float>(small_value(F, v));
    return t;
  }();
  return made;
}

template <class T>
T at(const uint8_t* p, int index) {
  T v;
  std::memcpy(&v, p + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return v;
}

template <Element E>
inline float element(const uint8_t* p, int j) {
  if constexpr (E == Element::Bf16) {
    const uint32_t u = static_cast<uint32_t>(at<uint16_t>(p, j)) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  } else if constexpr (E == Element::F16) {
    return half::from_f16(at<uint16_t>(p, j));
  } else if constexpr (E == Element::Tf32) {  // the low 13 bits do not count
    const uint32_t u = at<uint32_t>(p, j) & ~0x1fffu;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  } else if constexpr (E == Element::S8) {
    return static_cast<int8_t>(p[j]);
  } else if constexpr (E == Element::U8) {
    return p[j];
  } else if constexpr (E == Element::E4m3) {
    return table<kE4m3>().value[p[j]];
  } else if constexpr (E == Element::E5m2) {
    return table<kE5m2>().value[p[j]];
  } else if constexpr (E == Element::E2m3 || E == Element::E3m2) {
    const int bit = 6 * j;
    const uint32_t v = (p[bit / 8] | static_cast<uint32_t>(p[bit / 8 + 1]) << 8) >> bit % 8 & 63;
    return E == Element::E2m3 ? table<kE2m3>().value[v] : table<kE3m2>().value[v];
  } else {
    return table<kE2m1>().value[p[j / 2] >> 4 * (j % 2) & 15];
  }
}

// An element of A in tensor memory, in its container of 8 bits (PTX ISA 9.7.16.10.4.3).
template <Element E>
inline float contained(const uint8_t* p, int j) {
  if constexpr (E == Element::E2m3) return table<kE2m3>().value[p[j] & 63];
  if constexpr (E == Element::E3m2) return table<kE3m2>().value[p[j] & 63];
  if constexpr (E == Element::E2m1) return table<kE2m1>().value[p[j] >> 2 & 15];
  return element<E>(p, j);
}

// Of 16 bytes those that hold elements; the padding behind them is not read.
constexpr uint32_t bytes_read(Element e) {
  return e == Element::E2m3 || e == Element::E3m2 ? 12 : e == Element::E2m1 ? 8 : 16;
}

// The 16 bytes at a shared offset; bytes that may not be read are poison in `scratch`, and reported, but for
// those that nobody wrote: the reads go to `poison`.
template <uint32_t Bytes>
inline const uint8_t* fetch_chunk(Engine& e, Cta& cta, uint32_t offset, const Origin& at, const char* who,
                                  uint8_t* scratch, PoisonId& poison) {
  if (offset >= kReservedSharedBytes && offset + 16 <= cta.shared.data.size() &&
      all_valid(&cta.shared.state[offset], Bytes)) {
    e.tell(&Listener::async_shared, cta, offset, Bytes, false);
    return &cta.shared.data[offset];
  }
  std::memset(scratch, kPoisonByte, 16);
  follow_shared(e, cta, offset, Bytes, scratch, at, who, poison);
  return scratch;
}

// What an element is when its bytes may not be read: 0xff is a NaN in some formats only.
template <Element E>
constexpr bool kPoisons =
    E == Element::F16 || E == Element::Bf16 || E == Element::Tf32 || E == Element::E4m3 || E == Element::E5m2;

// ---- 16-bit elements, 8 chunks of 8 at a time

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(16), may_alias));

// Elements 4 h to 4 h + 3 of a chunk, each times `sign`.
template <Element E>
inline Four four(const uint8_t* p, int h, float sign) {
  typedef uint16_t Shorts __attribute__((vector_size(8), may_alias));
  Shorts raw;
  std::memcpy(&raw, p + 8 * h, 8);
  const Words u = __builtin_convertvector(raw, Words);
  if constexpr (E == Element::Bf16) {
    return reinterpret_cast<Four>(u << 16) * sign;
  } else {
    // The exponent moves by 112: in a number by a product, which is exact, in what is not finite by addition.
    const Words size = (u & 0x7fff) << 13;
    const Words finite = reinterpret_cast<Words>(reinterpret_cast<Four>(size) * 0x1p112f);
    const Words beyond = size >= 0x0f800000u;
    const Words magnitude = (beyond & (size + 0x70000000u)) | (~beyond & finite);
    return reinterpret_cast<Four>(magnitude | (u & 0x8000) << 16) * sign;
  }
}

// Element j of `chunks[i]` goes to out[i * apart + j * along], for 8 chunks; one of the strides is 1.
template <Element E>
inline void spread(const uint8_t* const* chunks, float sign, float* out, int apart, int along) {
  if (along == 1) {
    for (int i = 0; i < 8; ++i)
      for (int h = 0; h < 2; ++h)
        *reinterpret_cast<Four*>(out + i * apart + 4 * h) = four<E>(chunks[i], h, sign);
    return;
  }
  for (int i = 0; i < 8; i += 4)
    for (int h = 0; h < 2; ++h) {
      Four x[4];
      for (int k = 0; k < 4; ++k) x[k] = four<E>(chunks[i + k], h, sign);
      const Four a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7),
                 c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5),
                 d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
      float* to = out + 4 * h * along + i;
      *reinterpret_cast<Four*>(to) = __builtin_shufflevector(a, c, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(to + along) = __builtin_shufflevector(a, c, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(to + 2 * along) = __builtin_shufflevector(b, d, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(to + 3 * along) = __builtin_shufflevector(b, d, 2, 3, 6, 7);
    }
}

// Eight chunks of a group, from the first byte that they may lie at.
struct Eight {
  uint32_t at[8], least = ~0u, most = 0;
  void set(int i, uint32_t offset) {
    at[i] = offset;
    least = offset < least ? offset : least;
    most = offset > most ? offset : most;
  }
};

// The chunks at these offsets, moved by `by`; false where a chunk may not be read as it is. `all`: all may.
inline bool find_eight(const SharedMemory& m, const Eight& eight, uint32_t by, const uint8_t** chunks,
                       bool all = false) {
  typedef uint64_t Pair __attribute__((vector_size(16), may_alias));
  if (all) {
    for (int i = 0; i < 8; ++i) chunks[i] = m.data.data() + by + eight.at[i];
    return true;
  }
  if (eight.least + by < kReservedSharedBytes || size_t{eight.most + by} + 16 > m.data.size()) return false;
  const uint8_t *state = m.state.data() + by, *data = m.data.data() + by;
  Pair other{};
  for (int i = 0; i < 8; ++i) {
    Pair x;
    std::memcpy(&x, state + eight.at[i], 16);
    other |= x ^ 0x0101010101010101ull;
    chunks[i] = data + eight.at[i];
  }
  return !(other[0] | other[1]);
}

// Tells of the chunks of an operand at once, if all may be read as they are: eight from each of `place(n)`
// on, a group and how far it is moved, in the order of their reads.
template <class F>
bool tell_chunks(Engine& e, Cta& cta, int count, F&& place) {
  static thread_local std::vector<uint32_t> offsets;
  offsets.clear();
  const uint8_t* chunks[8];
  for (int n = 0; n < count; ++n) {
    const std::pair<const Eight*, uint32_t> found = place(n);
    if (!find_eight(cta.shared, *found.first, found.second, chunks)) return false;
    for (const uint32_t offset : found.first->at) offsets.push_back(offset + found.second);
  }
  e.tell(&Listener::async_chunks, cta, std::span<const uint32_t>(offsets));
  return true;
}

// As fetch_typed, where rows, the first of them and k are multiples of 8 and a stride is 1.
template <Element E>
void fetch_halves(Engine& e, Cta& cta, const MatrixDescriptor& d, bool mn_major, int first_row, int rows,
                  int k_count, float sign, const Origin& at, const char* who, float* out, int stride_row,
                  int stride_k, PoisonId* poison) {
  uint8_t scratch[8][16];
  const uint8_t* chunks[8];
  auto eight = [&](auto&& offset, auto&& found, float* to, int apart, int along) {
    for (int i = 0; i < 8; ++i) {
      PoisonId id = 0;
      chunks[i] = fetch_chunk<16>(e, cta, offset(i), at, who, scratch[i], id);
      if (id) found(i, id);
    }
    spread<E>(chunks, sign, to, apart, along);
  };
  // A pattern of 8 lines repeats each 1,024 bytes: its offsets hold for all where they are so far
  // apart.
  constexpr uint32_t kPattern = 1024;
  const bool plain = d.swizzle >= 0 && d.swizzle < kAtoms32;
  const uint32_t apart = !mn_major || !d.swizzle ? d.sbo : d.lbo;
  const bool told = e.heard();  // of chunks that all may be read, where the operand repeats
  bool repeats = plain && (!d.swizzle || apart % kPattern == 0);
  auto both = [&](int row, PoisonId id) { poison[row] = e.poisons.both(poison[row], id); };
  const int period = mn_major && d.swizzle ? 1 << d.swizzle : 1, across = k_count / 8, down = rows / 8;
  Eight groups[8];
  auto k_group = [&](int c) {
    Eight group;
    for (int i = 0; i < 8; ++i) group.set(i, k_chunk(d, first_row + i, c));
    return group;
  };
  auto mn_groups = [&](int k) {
    for (int g = 0; g < period; ++g) {
      groups[g] = {};
      for (int i = 0; i < 8; ++i) groups[g].set(i, mn_chunk(d, g, k + i));
    }
  };
  auto mn_place = [&](int g) {
    g += first_row / 8;
    return std::pair<const Eight*, uint32_t>(&groups[g % period], static_cast<uint32_t>(g / period) * apart);
  };
  if (repeats && told) {
    if (!mn_major && across <= 8) {
      for (int c = 0; c < across; ++c) groups[c] = k_group(c);
      repeats = tell_chunks(e, cta, down * across, [&](int n) {
        return std::pair<const Eight*, uint32_t>(&groups[n % across],
                                                 static_cast<uint32_t>(n / across) * d.sbo);
      });
    } else {
      repeats = mn_major && tell_chunks(e, cta, down * across, [&](int n) {
                  if (n % down == 0) mn_groups(n / down * 8);
                  return mn_place(n % down);
                });
    }
  }
  if (!mn_major && repeats) {
    for (int c = 0; c < k_count / 8; ++c) {
      const Eight group = k_group(c);
      for (int mn = 0; mn < rows; mn += 8) {
        float* to = out + mn * stride_row + 8 * c * stride_k;
        if (find_eight(cta.shared, group, static_cast<uint32_t>(mn / 8) * d.sbo, chunks, told)) [[likely]]
          spread<E>(chunks, sign, to, stride_row, stride_k);
        else
          eight([&](int i) { return k_chunk(d, first_row + mn + i, c); },
                [&](int i, PoisonId id) { both(mn + i, id); }, to, stride_row, stride_k);
      }
    }
  } else if (!mn_major) {
    for (int mn = 0; mn < rows; mn += 8)
      for (int c = 0; c < k_count / 8; ++c)
        eight([&](int i) { return k_chunk(d, first_row + mn + i, c); },
              [&](int i, PoisonId id) { both(mn + i, id); }, out + mn * stride_row + 8 * c * stride_k,
              stride_row, stride_k);
  } else {
    for (int k = 0; k < k_count; k += 8) {
      if (repeats) mn_groups(k);
      for (int g = 0; g < down; ++g) {
        if (const auto [group, by] = mn_place(g); repeats && find_eight(cta.shared, *group, by, chunks, told))
            [[likely]] {
          spread<E>(chunks, sign, out + 8 * g * stride_row + k * stride_k, stride_k, stride_row);
          continue;
        }
        eight([&](int i) { return mn_chunk(d, first_row / 8 + g, k + i); },
              [&](int, PoisonId id) {
                for (int row = 8 * g; row < 8 * g + 8; ++row) both(row, id);
              },
              out + 8 * g * stride_row + k * stride_k, stride_k, stride_row);
      }
    }
  }
}

template <Element E>
void fetch_typed(Engine& e, Cta& cta, const MatrixDescriptor& d, bool mn_major, int first_row, int rows,
                 int k_count, float sign, const Origin& at, const char* who, float* out, int stride_row,
                 int stride_k, PoisonId* poison) {
  constexpr int kCount = per_chunk(E);
  constexpr bool integer = E == Element::S8 || E == Element::U8;
  if constexpr (E == Element::F16 || E == Element::Bf16)
    if (first_row % 8 == 0 && rows % 8 == 0 && (stride_row == 1 || stride_k == 1)) {
      fetch_halves<E>(e, cta, d, mn_major, first_row, rows, k_count, sign, at, who, out, stride_row, stride_k,
                      poison);
      return;
    }
  uint8_t scratch[16];
  auto unpack = [&](uint32_t offset, float* to, int stride, PoisonId* first, int count) {
    PoisonId found = 0;
    const uint8_t* p = fetch_chunk<bytes_read(E)>(e, cta, offset, at, who, scratch, found);
    for (int row = 0; row < count && found; ++row) first[row] = e.poisons.both(first[row], found);
    if (!kPoisons<E> && !integer && p == scratch) {
      for (int j = 0; j < kCount; ++j) to[j * stride] = NAN;
      return;
    }
    for (int j = 0; j < kCount; ++j) to[j * stride] = sign * element<E>(p, j);
  };
  if (!mn_major) {
    for (int mn = 0; mn < rows; ++mn)
      for (int c = 0; c < k_count / kCount; ++c)
        unpack(k_chunk(d, first_row + mn, c), out + mn * stride_row + c * kCount * stride_k, stride_k,
               poison + mn, 1);
  } else {
    for (int k = 0; k < k_count; ++k)
      for (int g = 0; g * kCount < rows; ++g)
        unpack(mn_chunk(d, first_row / kCount + g, k), out + g * kCount * stride_row + k * stride_k,
               stride_row, poison + g * kCount, kCount);
  }
}

// Calls f with the element type as a constant.
template <class F>
decltype(auto) with_element(Element e, F&& f) {
  switch (e) {
    case Element::F16:
      return f.template operator()<Element::F16>();
    case Element::Bf16:
      return f.template operator()<Element::Bf16>();
    case Element::Tf32:
      return f.template operator()<Element::Tf32>();
    case Element::S8:
      return f.template operator()<Element::S8>();
    case Element::U8:
      return f.template operator()<Element::U8>();
    case Element::E4m3:
      return f.template operator()<Element::E4m3>();
    case Element::E5m2:
      return f.template operator()<Element::E5m2>();
    case Element::E2m3:
      return f.template operator()<Element::E2m3>();
    case Element::E3m2:
      return f.template operator()<Element::E3m2>();
    case Element::E2m1:
      return f.template operator()<Element::E2m1>();
    default:
      return f.template operator()<Element::E2m1Dense>();
  }
}

int k_of(Format f) { return mma_rules().formats[static_cast<size_t>(f)].k; }

// A cell that the instruction reads; one that may not be read is poison, and told, but for a cell that nobody
// wrote where `poison` takes the read. What a later operation of the same pipeline will write is not pending
// for this one.
uint32_t read_cell(Engine& e, Cta& cta, const MmaRequest& r, int lane, int column, const char* what,
                   LaterWrites& later, bool& valid, PoisonId* poison = nullptr) {
  const uint8_t state = *cta.tmem.state_at(lane, column);
  if (state != kValid) {
    const bool pending = later.pending(state, cta, lane, column);
    if (pending || !(state & kValid)) {
      const std::string message = std::string("tcgen05.mma reads ") + what + " from TMEM lane " +
                                  std::to_string(lane) + " column " + std::to_string(column) +
                                  (pending ? ", whose write has not completed" : ", which was never written");
      if (!pending && poison) {
        *poison = e.poisons.both(*poison, poison_in_cell(e, cta, lane, column, message, r.origin, false));
        valid = false;
        return kPoisonWord;
      }
      e.error(pending ? "tmem-pending" : "tmem-uninitialised", message, r.origin,
              static_cast<uint64_t>(lane) << 16 | static_cast<uint64_t>(column));
      valid = pending && e.finish_stores_to(cta, lane, column);
      if (!valid) return kPoisonWord;
    }
  }
  return *cta.tmem.at(lane, column);
}

}  // namespace

void fetch_rows(Engine& e, Cta& cta, const MatrixDescriptor& d, Element element, bool mn_major, int first_row,
                int rows, int k, float sign, const Origin& at, const char* who, float* out, int stride_row,
                int stride_k, PoisonId* poison) {
  with_element(element, [&]<Element E>() {
    fetch_typed<E>(e, cta, d, mn_major, first_row, rows, k, sign, at, who, out, stride_row, stride_k, poison);
  });
}

void unpack(Element element_, const uint8_t* p, int count, float sign, float* out) {
  with_element(element_, [&]<Element E>() {
    for (int j = 0; j < count; ++j) out[j] = sign * element<E>(p, j);
  });
}

void fetch_operand(Engine& e, Cta& cta, uint64_t desc, const MmaRequest& r, bool is_b, int rows, float* out,
                   int stride_row, int stride_k, PoisonId* poison) {
  const InstructionDescriptor i = r.descriptor();
  const MatrixDescriptor d = decode_smem_desc(desc);
  const float sign = (is_b ? i.negate_b : i.negate_a) ? -1.0f : 1.0f;
  const bool mn_major = is_b ? i.b_mn_major : i.a_mn_major;
  const int k = k_of(r.format);
  fetch_rows(e, cta, d, element_of(r.format, is_b ? i.b_type : i.a_type), mn_major, 0, rows, k, sign,
             r.origin, "tcgen05.mma", out, stride_row, stride_k, poison);
  for (int pad = k; pad < kBlockK; ++pad)
    for (int row = 0; row < rows; ++row) out[row * stride_row + pad * stride_k] = 0;
}

bool operands_allocated(Engine& e, const MmaRequest& r, Cta& cta, const std::vector<Segment>& segments) {
  auto allocated = [&](uint64_t address, int columns, const char* what) {
    if (may_access(cta, r.origin.rank, static_cast<int>(address & 0xffff), columns, e.config.strict))
      return true;
    e.fault("tmem-not-allocated",
            std::string("tcgen05.mma reads ") + what + " from TMEM columns that are not allocated", r.origin,
            address);
    return false;
  };
  if (r.a_in_tmem && !allocated(r.a, 8, "A")) return false;
  if (r.format < Format::Mxf8f6f4) return true;
  const auto [a_columns, b_columns] = scale_columns(segments);
  return allocated(r.scale_a, a_columns, "the scale factors of A") &&
         allocated(r.scale_b, b_columns, "the scale factors of B");
}

void fetch_tmem_row(Engine& e, Cta& cta, const MmaRequest& r, const InstructionDescriptor& d, int lane,
                    LaterWrites& later, float* out, PoisonId& poison) {
  const int column = static_cast<int>(r.a & 0xffff);
  uint32_t cells[8];
  bool valid[8];
  for (int j = 0; j < 8; ++j) {
    valid[j] = true;
    cells[j] = read_cell(e, cta, r, lane, column + j, "A", later, valid[j], &poison);
  }
  const int k = k_of(r.format);
  const float sign = d.negate_a ? -1.0f : 1.0f;
  with_element(element_of(r.format, d.a_type), [&]<Element E>() {
    const uint8_t* p = reinterpret_cast<const uint8_t*>(cells);
    for (int j = 0; j < k; ++j) {
      const bool read = kPoisons<E> || E == Element::S8 || E == Element::U8 || valid[j * 8 / k];
      out[j] = read ? sign * contained<E>(p, j) : NAN;
    }
  });
  for (int pad = k; pad < kBlockK; ++pad) out[pad] = 0;
}

std::pair<int, int> scale_columns(const std::vector<Segment>& segments) {
  int rows = 0, columns = 0;
  for (const Segment& s : segments) {
    rows = std::max(rows, s.row + 1);
    columns = std::max(columns, s.columns);
  }
  return {(rows + 31) / 32, (columns + 31) / 32};
}

// A row's factors lie in one word: row m in lane m % 32 of column m / 32, the same in each quarter of the
// lanes, of which each data path reads its own; a column of B likewise, counted inside the half of N that the
// lanes compute (tmem_sf_frg in CUTLASS's mma_traits_sm100.hpp).
void fetch_scales(Engine& e, Cta& cta, const MmaRequest& r, const InstructionDescriptor& d,
                  LaterWrites& later, Workspace& w) {
  const int scales = mma_rules().formats[static_cast<size_t>(r.format)].scales;
  const int a_column = static_cast<int>(r.scale_a & 0xffff), b_column = static_cast<int>(r.scale_b & 0xffff);
  auto read = [&](int quarter, int column, int index, int id, const char* what, auto&& put) {
    bool valid = true;
    const uint32_t word =
        read_cell(e, cta, r, 32 * quarter + index % 32, column + index / 32, what, later, valid);
    for (int j = 0; j < scales; ++j) {
      const uint32_t v = word >> 8 * (id + j) & 255;
      float scale = d.ue8m0 ? (v == 255 ? NAN : std::ldexp(1.0f, static_cast<int>(v) - 127))
                            : static_cast<float>(small_value(kE4m3, v & 127));
      put(j, valid ? scale : NAN);
    }
  };
  int quarters = 0;
  for (const Segment& s : w.segments) {
    const int quarter = s.lane / 32;
    read(quarter, a_column, s.row, d.a_scale_id, "the scale factors of A",
         [&](int j, float v) { w.scale_a[s.lane][j] = v; });
    if (quarters >> quarter & 1) continue;
    quarters |= 1 << quarter;
    for (int n = 0; n < s.columns; ++n)
      read(quarter, b_column, n, d.b_scale_id, "the scale factors of B",
           [&](int j, float v) { w.scale_b[quarter][j][n] = v; });
  }
}

}  // namespace tileproof
