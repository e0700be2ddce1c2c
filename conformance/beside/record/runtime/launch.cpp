#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.hpp"

namespace tileproof::record {
namespace {

std::string three(const unsigned* v) {
  return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
}

struct Extras {
  unsigned cluster[3] = {1, 1, 1}, preferred[3] = {0, 0, 0};
  bool programmatic = false, cooperative = false;
};

int read_attributes(std::string_view call, const Launch& how, Extras& out) {
  for (unsigned i = 0; i < how.count; ++i) {
    const auto& one = how.attributes[i];
    switch (one.id) {
      case abi::kIgnore:
      case abi::kAccessPolicy:
      case abi::kSynchronization:
      case abi::kClusterScheduling:
      case abi::kPriority:
      case abi::kDomainMap:
      case abi::kDomain:
      case abi::kCarveout:
        break;  // of time alone
      case abi::kClusterDimension:
        std::memcpy(out.cluster, one.value.dimension, sizeof out.cluster);
        break;
      case abi::kPreferredCluster:
        std::memcpy(out.preferred, one.value.dimension, sizeof out.preferred);
        break;
      case abi::kCooperative:
        out.cooperative = one.value.number != 0;
        break;
      case abi::kProgrammatic:
        out.programmatic = one.value.number != 0;
        break;
      default:
        refuse(call, "launch attribute " + std::to_string(one.id) + " is not recorded");
    }
  }
  return 0;
}

Work later(std::string_view call, Kernel* kernel, Launch how, std::string block) {
  std::vector<abi::Attribute> attributes(how.attributes, how.attributes + how.count);
  return [=, call = std::string(call)](int stream) mutable {
    how.number = stream;
    how.attributes = attributes.data();
    return launch(call, kernel, how, nullptr, block.data(), block.size());
  };
}

}  // namespace

Work launch_work(std::string_view call, Kernel* kernel, const Launch& how, void** arguments, int* code) {
  *code = 0;
  if (!kernel || !device().describe(call, kernel)) {
    *code = fail(call, abi::kInvalidFunction, "the program has no kernel of this handle");
    return {};
  }
  if (!arguments && !kernel->sizes.empty()) refuse(call, "a kernel node with its arguments in one block");
  std::string block;
  for (std::size_t i = 0; i < kernel->sizes.size(); ++i) {
    block.resize(kernel->offsets[i]);
    block.append(static_cast<const char*>(arguments[i]), kernel->sizes[i]);
  }
  return later(call, kernel, how, std::move(block));
}

int launch(std::string_view call, Kernel* kernel, const Launch& how, void** arguments, const void* packed,
           std::size_t packed_bytes) {
  if (!kernel) return fail(call, abi::kInvalidFunction, "the program has no kernel of this handle");
  auto& d = device();
  if (!d.describe(call, kernel))
    return fail(call, abi::kInvalidFunction, "the program's PTX has no entry " + kernel->name);
  Extras extras;
  for (int i = 0; i < 3; ++i) {
    const int asked = kernel->attributes[abi::kClusterWidth + i];
    extras.cluster[i] = static_cast<unsigned>(kernel->cluster[i] ? kernel->cluster[i] : asked ? asked : 1);
  }
  read_attributes(call, how, extras);
  const auto product = [](const unsigned* v) { return std::uint64_t{v[0]} * v[1] * v[2]; };
  const auto threads = product(how.block), ctas = product(extras.cluster);
  if (!product(how.grid) || !threads)
    return fail(call, abi::kInvalidConfiguration, "the grid or the block is empty");
  if (threads > static_cast<std::uint64_t>(kernel->max_threads) || how.block[2] > 64)
    return fail(call, abi::kInvalidConfiguration,
                "a block of " + three(how.block) + " threads, where " + std::to_string(kernel->max_threads) +
                    " are allowed");
  if (!ctas || ctas > 16 || (ctas > 8 && !kernel->attributes[abi::kNonPortableCluster]))
    return fail(call, abi::kInvalidClusterSize, "a cluster of " + three(extras.cluster) + " CTAs");
  for (int i = 0; i < 3; ++i)
    if (how.grid[i] % extras.cluster[i])
      return fail(call, abi::kInvalidClusterSize,
                  "the grid " + three(how.grid) + " is no multiple of the cluster " + three(extras.cluster));
  if (how.shared > static_cast<std::size_t>(kernel->attributes[abi::kMaxDynamicShared]))
    return fail(call, abi::kInvalidValue,
                std::to_string(how.shared) + " bytes of dynamic shared memory, where the program allowed " +
                    std::to_string(kernel->attributes[abi::kMaxDynamicShared]) +
                    " (cudaFuncAttributeMaxDynamicSharedMemorySize)");
  std::vector<Bytes> parameters;
  for (std::size_t i = 0; i < kernel->sizes.size(); ++i) {
    const void* from = arguments ? arguments[i] : static_cast<const char*>(packed) + kernel->offsets[i];
    if (!arguments && kernel->offsets[i] + kernel->sizes[i] > packed_bytes)
      return fail(call, abi::kInvalidValue, "the block of parameters is too short");
    parameters.push_back(bytes_of(from, kernel->sizes[i]));
  }
  const int stream = how.number >= 0 ? how.number : stream_number(how.stream);
  if (capturing(stream)) {
    std::string block;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      block.resize(kernel->offsets[i]);
      block.append(parameters[i].data(), parameters[i].size());
    }
    captured(stream, later(call, kernel, how, std::move(block)));
    return 0;
  }
  d.exchange(true);
  Event event("launch");
  event.number("module", kernel->module->number).text("entry", kernel->name);
  event.list("grid", how.grid, 3).list("block", how.block, 3).list("cluster", extras.cluster, 3);
  event.list("preferred", extras.preferred, 3);
  event.number("shared", static_cast<std::int64_t>(how.shared)).number("stream", stream);
  event.number("overlaps", extras.programmatic).number("cooperative", extras.cooperative || how.cooperative);
  event.list("parameters", kernel->sizes.data(), kernel->sizes.size());
  static const bool runs = std::getenv("TILEPROOF_RECORD_RUN") != nullptr;
  if (!runs) {
    tell(event, parameters);
    return 0;
  }
  std::string block;
  for (const auto& one : parameters) block.append(one.data(), one.size());
  const auto reply = ask(event, {bytes_of(block.data(), block.size())});
  // What the kernel printed, then a zero, then why it failed. It goes the way of the program's own lines.
  const auto end = reply.bytes.find('\0');
  if (end != reply.bytes.npos) std::fwrite(reply.bytes.data(), 1, end, stdout);
  if (reply.code) return fail(call, reply.code, reply.bytes.substr(end + 1));
  d.exchange(false);
  return 0;
}

int set_attribute(std::string_view call, Kernel* kernel, int attribute, int value) {
  if (!kernel) return fail(call, abi::kInvalidFunction, "the program has no kernel of this handle");
  if (attribute < abi::kMaxDynamicShared || attribute > abi::kClusterPolicy)
    return fail(call, abi::kInvalidValue,
                "function attribute " + std::to_string(attribute) + " cannot be set");
  if (attribute == abi::kMaxDynamicShared && (value < 0 || value > kMaxSharedBytes))
    return fail(call, abi::kInvalidValue,
                std::to_string(value) + " bytes of shared memory are more than a CTA has, " +
                    std::to_string(kMaxSharedBytes));
  kernel->attributes[attribute] = value;
  return 0;
}

namespace {

int static_shared(std::string_view call, Kernel* kernel) {
  if (kernel->static_shared < 0) {
    const auto reply =
        ask(Event("shared").number("module", kernel->module->number).text("name", kernel->name));
    if (reply.code) refuse(call, reply.bytes);
    kernel->static_shared = std::atoi(reply.bytes.c_str());
  }
  return kernel->static_shared;
}

}  // namespace

int get_attribute(std::string_view call, Kernel* kernel, int attribute, int* value) {
  if (!kernel || !device().describe(call, kernel))
    return fail(call, abi::kInvalidFunction, "the program has no kernel of this handle");
  switch (attribute) {
    case abi::kMaxThreads:
      *value = kernel->max_threads;
      return 0;
    case abi::kSharedBytes:
      *value = static_shared(call, kernel);
      return 0;
    case abi::kRegisters: {
      // Only ptxas knows: as many as a block of the largest size leaves each thread.
      const int most = kRegisters / kernel->max_threads;
      *value = most > 255 ? 255 : most;
      tell(Event("assumed")
               .text("call", call)
               .text("what", "registers a thread of " + kernel->name + ": " + std::to_string(*value) +
                                 ", as its block leaves it"));
      return 0;
    }
    case abi::kConstantBytes:
    case abi::kLocalBytes:
    case abi::kCacheMode:
      *value = 0;
      return 0;
    case abi::kPtxVersion: {  // the virtual architecture that it was compiled for: 90 of compute_90
      const auto reply = ask(Event("target").number("module", kernel->module->number));
      if (reply.code) refuse(call, reply.bytes);
      *value = std::atoi(reply.bytes.c_str());
      return 0;
    }
    case abi::kBinaryVersion:
      *value = 100;
      return 0;
    case abi::kClusterMustBeSet:
      *value = kernel->attributes[attribute];
      return 0;
    case abi::kClusterWidth:
    case abi::kClusterHeight:
    case abi::kClusterDepth: {
      const int stated = kernel->cluster[attribute - abi::kClusterWidth];
      *value = stated ? stated : kernel->attributes[attribute];
      return 0;
    }
    case abi::kMaxDynamicShared:
    case abi::kSharedCarveout:
    case abi::kNonPortableCluster:
    case abi::kClusterPolicy:
      *value = kernel->attributes[attribute];
      return 0;
    default:
      return fail(call, abi::kInvalidValue, "function attribute " + std::to_string(attribute) + " is none");
  }
}

int resident_blocks(std::string_view call, Kernel* kernel, int threads, std::size_t dynamic, int* blocks) {
  if (!kernel || !device().describe(call, kernel))
    return fail(call, abi::kInvalidFunction, "the program has no kernel of this handle");
  if (threads < 1) return fail(call, abi::kInvalidValue, "a block has no threads");
  const int shared = static_shared(call, kernel) + static_cast<int>(dynamic) + kReservedSharedBytes;
  const int warps = (threads + 31) / 32;
  int most = threads > kernel->max_threads ? 0 : kProcessorThreads / (32 * warps);
  most = most < kProcessorCtas ? most : kProcessorCtas;
  *blocks = most < kProcessorSharedBytes / shared ? most : kProcessorSharedBytes / shared;
  tell(Event("assumed")
           .text("call", call)
           .text("what", std::to_string(*blocks) + " blocks of " + kernel->name +
                             " a processor, by threads and shared memory alone"));
  return 0;
}

bool device_attribute(int attribute, int* value) {
  if (attribute == 75 && device().hopper) {  // the compute capability's first number
    *value = 9;
    return true;
  }
  // cudaDeviceAttr and CUdevice_attribute, which agree: a B200's limits of sm_100; what only says how fast,
  // or where on a bus, is a plain number.
  static const std::unordered_map<int, int> known = {{1, kMaxThreads},
                                                     {2, 1024},
                                                     {3, 1024},
                                                     {4, 64},
                                                     {5, 0x7FFFFFFF},
                                                     {6, 65535},
                                                     {7, 65535},
                                                     {8, kDefaultSharedBytes},
                                                     {9, 65536},
                                                     {10, 32},
                                                     {11, 0x7FFFFFFF},
                                                     {12, kRegisters},
                                                     {13, 1965000},
                                                     {14, 512},
                                                     {15, 1},
                                                     {17, 0},
                                                     {18, 0},
                                                     {19, 1},
                                                     {20, 0},
                                                     {30, 512},
                                                     {31, 1},
                                                     {32, 1},
                                                     {33, 0},
                                                     {34, 0},
                                                     {35, 0},
                                                     {36, 3996000},
                                                     {37, 8192},
                                                     {38, 126 << 20},
                                                     {39, kProcessorThreads},
                                                     {40, 4},
                                                     {41, 1},
                                                     {50, 0},
                                                     {51, 32},
                                                     {75, 10},
                                                     {76, 0},
                                                     {78, 1},
                                                     {79, 1},
                                                     {80, 1},
                                                     {81, kProcessorSharedBytes},
                                                     {82, kRegisters},
                                                     {83, 1},
                                                     {84, 0},
                                                     {85, 0},
                                                     {86, 0},
                                                     {87, 2},
                                                     {88, 0},
                                                     {89, 1},
                                                     {90, 1},
                                                     {91, 1},
                                                     {95, 1},
                                                     {97, kMaxSharedBytes},
                                                     {98, 0},
                                                     {99, 1},
                                                     {100, 0},
                                                     {101, 0},
                                                     {106, kProcessorCtas},
                                                     {108, 0},
                                                     {109, 0},
                                                     {111, kReservedSharedBytes},
                                                     {112, 0},
                                                     {113, 0},
                                                     {114, 0},
                                                     {115, 1},
                                                     {116, 0},
                                                     {117, 0},
                                                     {118, 0},
                                                     {119, 0},
                                                     {120, 1},
                                                     {121, 0},
                                                     {125, 0},
                                                     {126, 4},
                                                     {130, 0},
                                                     {131, -1},
                                                     {133, 0},
                                                     {134, -1},
                                                     {142, 0},
                                                     {143, 0},
                                                     {144, 0}};
  if (attribute == 16) {
    *value = device().processors;
    return true;
  }
  const auto found = known.find(attribute);
  if (found == known.end()) return false;
  *value = found->second;
  return true;
}

}  // namespace tileproof::record
