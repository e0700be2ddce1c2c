#include "specials.hpp"

#include <algorithm>

#include "grids.hpp"

namespace tileproof {

void fill_specials(const Engine& e, const Cta& cta, Warp& w) {
  const Config& config = e.config;
  const Program& program = e.program;
  const uint32_t first = static_cast<uint32_t>(w.index) * 32;
  const Dim3 b = config.block, g = config.grid, c = config.cluster;
  for (const SpecialSlot& slot : program.specials) {
    uint32_t* v = reinterpret_cast<uint32_t*>(w.regs() + slot.offset);
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t t = first + l;
      uint32_t x = 0;
      switch (slot.kind) {
        case Special::TidX:
          x = t % b.x;
          break;
        case Special::TidY:
          x = t / b.x % b.y;
          break;
        case Special::TidZ:
          x = t / (b.x * b.y);
          break;
        case Special::NtidX:
          x = b.x;
          break;
        case Special::NtidY:
          x = b.y;
          break;
        case Special::NtidZ:
          x = b.z;
          break;
        case Special::CtaidX:
          x = cta.id.x;
          break;
        case Special::CtaidY:
          x = cta.id.y;
          break;
        case Special::CtaidZ:
          x = cta.id.z;
          break;
        case Special::NctaidX:
          x = g.x;
          break;
        case Special::NctaidY:
          x = g.y;
          break;
        case Special::NctaidZ:
          x = g.z;
          break;
        case Special::ClusterCtaidX:
          x = cta.id.x - cta.cluster->first.x;
          break;
        case Special::ClusterCtaidY:
          x = cta.id.y - cta.cluster->first.y;
          break;
        case Special::ClusterCtaidZ:
          x = cta.id.z - cta.cluster->first.z;
          break;
        case Special::ClusterNctaidX:
          x = c.x;
          break;
        case Special::ClusterNctaidY:
          x = c.y;
          break;
        case Special::ClusterNctaidZ:
          x = c.z;
          break;
        case Special::ClusterCtarank:
          x = static_cast<uint32_t>(cta.rank);
          break;
        case Special::ClusterNctarank:
          x = c.volume();
          break;
        case Special::ClusteridX:
          x = cta.cluster->first.x / c.x;
          break;
        case Special::ClusteridY:
          x = cta.cluster->first.y / c.y;
          break;
        case Special::ClusteridZ:
          x = cta.cluster->first.z / c.z;
          break;
        case Special::NclusteridX:
          x = g.x / c.x;
          break;
        case Special::NclusteridY:
          x = g.y / c.y;
          break;
        case Special::NclusteridZ:
          x = g.z / c.z;
          break;
        case Special::Laneid:
          x = l;
          break;
        case Special::Warpid:
          x = static_cast<uint32_t>(w.index);
          break;
        case Special::Nwarpid:
          x = 64;  // the most a processor holds, not this CTA's (PTX ISA 10.5; seen on silicon)
          break;
        case Special::LanemaskEq:
          x = 1u << l;
          break;
        case Special::LanemaskLt:
          x = (1u << l) - 1;
          break;
        case Special::LanemaskLe:
          x = (2u << l) - 1;
          break;
        case Special::LanemaskGt:
          x = ~((2u << l) - 1);
          break;
        case Special::LanemaskGe:
          x = ~((1u << l) - 1);
          break;
        case Special::DynamicSmemSize:
          x = config.dynamic_shared;
          break;
        case Special::TotalSmemSize:
          x = config.dynamic_shared + static_cast<uint32_t>(program.static_shared_bytes);
          break;
        case Special::Smid:  // each resident CTA has a processor to itself
          x = cta.cluster->slot * c.volume() + static_cast<uint32_t>(cta.rank);
          break;
        case Special::Nsmid:
          x = std::max<uint32_t>(kProcessors, config.resident * c.volume());
          break;
        case Special::Gridid:  // the number of the launch in its stream (PTX ISA 10.10)
          reinterpret_cast<uint64_t*>(v)[l] = config.grid_record ? config.grid_record->number : 1;
          continue;
        case Special::SharedBase32:
          x = static_cast<uint32_t>(cta.rank) << kRankShift;
          break;
        case Special::SharedBase64:
          reinterpret_cast<uint64_t*>(v)[l] = static_cast<uint64_t>(cta.rank) << kRankShift;
          continue;
      }
      v[l] = x;
    }
  }
}

}  // namespace tileproof
