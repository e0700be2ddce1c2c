// tcgen05.cp: shared memory to tensor memory (PTX ISA 9.7.16.9.2).
#include "mma.hpp"
#include "enumerations/tcgen05.hpp"
#include "queues.hpp"
#include "poison_memory.hpp"
#include "slots/tcgen05.hpp"

namespace tileproof {
namespace {

// Lanes that a source row goes to, counted from the address's lane.
std::vector<int> lanes_of(TmemCopies copies, int row) {
  switch (copies) {
    case TmemCopies::Warpx20213:
      return {row, row + 64};
    case TmemCopies::Warpx20123:
      return row < 32 ? std::vector<int>{row, row + 32} : std::vector<int>{row + 32, row + 64};
    case TmemCopies::Warpx4:
      return {row, row + 32, row + 64, row + 96};
    case TmemCopies::Quarters:  // .4x256b
      return {32 * row};
    default:
      return {row};
  }
}

// 16 packed elements become 16 bytes: 6 bits lie in bits 0 to 5, 4 bits in bits 2 to 5, the others are 0
// (9.7.16.9.1, and 9.7.16.10.4.3 for the container that tcgen05.mma reads).
void decompress(const uint8_t* packed, int bits, uint8_t* out) {
  for (int k = 0; k < 16; ++k) {
    const int at = bits * k;
    uint32_t v = packed[at / 8];
    if (at % 8 + bits > 8) v |= static_cast<uint32_t>(packed[at / 8 + 1]) << 8;
    v = v >> at % 8 & ((1u << bits) - 1);
    out[k] = static_cast<uint8_t>(bits == 4 ? v << 2 : v);
  }
}

Step cp(Exec& x, const Instr& i) {
  namespace s = slot::tcgen05_cp;
  const int rows = i.m[s::rows], wide = i.m[s::chunks], bits = i.m[s::packed_bits];
  const TmemCopies copies = static_cast<TmemCopies>(i.m[s::copies]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const Origin at = x.origin(l);
    const uint32_t taddr = x.src<uint32_t>(i.o[s::address])[l];
    const uint64_t desc = x.src<uint64_t>(i.o[s::descriptor])[l];
    const int column = static_cast<int>(taddr & 0xffff), columns = 4 * wide;
    const int lane0 = static_cast<int>(taddr >> 16);
    const std::string wrong =
        lane0 > (copies == TmemCopies::Quarters ? 31 : 0)
            ? "the address names TMEM lane " + std::to_string(lane0) + "; " +
                  (copies == TmemCopies::Quarters ? "one of the first 32 lanes" : "lane 0") + " is needed"
            : check_matrix_descriptor(desc, "the source");
    if (!wrong.empty()) {
      x.e.fault("mma-operands", "tcgen05.cp: " + wrong, at, taddr);
      return Step::Stop;
    }
    std::vector<Cta*> ctas;
    for (int r = 0; r < i.m[s::cta_group]; ++r) {
      Cta* c = x.cta.cluster->cta(i.m[s::cta_group] == 2 ? (x.cta.rank & ~1) | r : x.cta.rank);
      if (!c) {
        x.e.fault("cta-pair", "tcgen05.cp cta_group::2 in a cluster without CTA pairs", at);
        return Step::Stop;
      }
      if (!may_access(*c, x.cta.rank, column, columns, x.e.config.strict)) {
        x.e.fault("tmem-not-allocated", "tcgen05.cp writes TMEM columns that are not allocated", at, taddr);
        return Step::Stop;
      }
      ctas.push_back(c);
    }
    std::vector<TmemWrite> writes;
    if (!x.e.early())
      for (Cta* c : ctas) {
        TmemWrite w{c, {}, column, columns};
        for (int row = 0; row < rows; ++row)
          for (int lane : lanes_of(copies, row)) {
            add_pending(c->tmem.change_state(lane0 + lane, column), static_cast<size_t>(columns));
            w.add_lane(lane0 + lane);
          }
        writes.push_back(w);
      }
    Engine* e = &x.e;
    auto effect = [=] {
      const MatrixDescriptor d = decode_smem_desc(desc);
      for (Cta* c : ctas)
        for (int row = 0; row < rows; ++row) {
          const std::vector<int> lanes = lanes_of(copies, row);
          for (int k = 0; k < wide; ++k) {
            const int first = column + 4 * k;
            if (e->heard()) [[unlikely]]
              for (int lane : lanes)
                e->tell(&Listener::tmem, *c, (lane0 + lane) / 16,
                        static_cast<uint16_t>(1u << (lane0 + lane) % 16), first, 4, true, nullptr);
            uint8_t source[16], unpacked[16];
            PoisonId poison = 0;
            std::memset(source, kPoisonByte, 16);
            // The padding behind packed elements is not read.
            follow_shared(*e, *c, k_chunk(d, row, k), bits ? 2u * static_cast<uint32_t>(bits) : 16u, source,
                          at, "tcgen05.cp", poison);
            if (bits) decompress(source, bits, unpacked);
            for (int lane : lanes) {
              std::memcpy(c->tmem.at(lane0 + lane, first), bits ? unpacked : source, 16);
              complete_pending(c->tmem.change_state(lane0 + lane, first), 4);
              for (int cell = 0; cell < 4 && poison; ++cell)
                store_poison(*c, lane0 + lane, first + cell, poison);
            }
          }
        }
    };
    e->issue("tcgen05.cp", tensor_queue(x, l, i.m[s::cta_group]), at, effect, std::move(writes));
  }
  return x.e.stopped ? Step::Stop : Step::Next;
}

const Registrar tcgen05_cp({{"tcgen05.cp", cp}});

}  // namespace
}  // namespace tileproof
