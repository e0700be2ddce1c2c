// The example's own host code up to its launches: which kernels it launches on a problem, with which grids
// and parameter blocks. Built by the host compiler alone; no device and no CUDA library is needed.
#include "host/device_functions.h"

// CuTe makes tensor maps only where it sees the CUDA compiler's version, with which wmma.h needs that
// compiler.
#include "cutlass/arch/wmma.h"
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL 1

#include "kernel.cuh"

#include <cstdint>
#include <cstring>
#include <string>

namespace tileproof {
namespace {

struct Sizes {
  // `group` query heads share one of `heads` key heads.
  int queries, keys, columns, values, group, heads, batches;
  int all_queries, all_keys;  // of packed sequences, whose longest the first two are
  float scale;
};

// Element strides of a row, of a query head in its group, of a key head, and of a batch.
struct Strides {
  int row, group, head, batch;
};

struct Pointers {
  void *q, *k, *v, *o, *lse, *dO, *dQ, *dK, *dV, *sum, *scaled, *accumulator, *cu_q, *cu_k;
};

std::string& events() {
  static std::string text;
  return text;
}

int& maps() {
  static int count = 0;
  return count;
}

std::string list(std::initializer_list<std::uint64_t> values) {
  std::string text = "[";
  for (auto value : values) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "]";
}

template <class T>
std::string list(const T* values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

void event(const std::string& fields) { events() += (events().empty() ? "{" : ",{") + fields + "}"; }

// A parameter block's fields: what the host wrote, and none of the bytes between.
class Fields {
 public:
  explicit Fields(const void* block) : block_(static_cast<const char*>(block)) {}

  template <class T>
  void add(const std::string& name, T const& value) {
    if constexpr (cute::is_tuple<T>::value) {
      cute::for_each(cute::make_int_sequence<cute::tuple_size_v<T>>{},
                     [&](auto i) { add(name + "." + std::to_string(int(i)), cute::get<int(i)>(value)); });
    } else if constexpr (std::is_pointer_v<T>) {
      field(name, &value, "address", std::to_string(reinterpret_cast<std::uint64_t>(value)));
    } else if constexpr (std::is_same_v<T, cutlass::fmha::collective::VariableLength>) {
      add(name + ".max_length", value.max_length);
      add(name + ".cumulative_length", value.cumulative_length);
      add(name + ".total_length", value.total_length);
    } else if constexpr (std::is_same_v<T, int>) {
      field(name, &value, "s32", std::to_string(value));
    } else if constexpr (std::is_same_v<T, float>) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      field(name, &value, "f32", std::to_string(bits));
    } else {
      static_assert(std::is_empty_v<T>, "a field of another type than these");
    }
  }

  template <class Copy>
  void add_map(const std::string& name, Copy const& copy) {
    const void* map = copy.get_tma_descriptor();
    std::uint64_t number;
    std::memcpy(&number, static_cast<const char*>(map), sizeof(number));
    field(name, map, "map", std::to_string(number));
  }

  std::string text;

 private:
  void field(const std::string& name, const void* at, const char* type, const std::string& value) {
    text += (text.empty() ? "" : ",") + ("{\"name\":\"" + name + "\"") +
            ",\"at\":" + std::to_string(static_cast<const char*>(at) - block_) + ",\"type\":\"" + type +
            "\",\"value\":" + value + "}";
  }

  const char* block_;
};

// The sequences' length, or of packed ones that of the longest, where each starts, and the sum.
template <class Length>
Length length(int longest, [[maybe_unused]] void* starts, [[maybe_unused]] int all) {
  if constexpr (std::is_same_v<Length, int>) {
    return longest;
  } else {
    return Length{longest, static_cast<int*>(starts), all};
  }
}

#define FIELD(member) fields.add(#member, params.member)
#define MAP(member) fields.add_map(#member, params.member)

const char* name_of(SumOdO*) { return "sum_odo"; }
void add_fields(Fields& fields, SumOdO::Params const& params) {
  FIELD(problem_shape);
  FIELD(ptr_O), FIELD(stride_O), FIELD(ptr_dO), FIELD(stride_dO);
  FIELD(ptr_sum_OdO), FIELD(stride_sum_OdO), FIELD(ptr_lse), FIELD(stride_lse);
  FIELD(ptr_scaled_lse), FIELD(stride_scaled_lse), FIELD(sum_odo_scale), FIELD(lse_scale);
}

const char* name_of(Main*) { return "main"; }
void add_fields(Fields& fields, Main::Params const& params) {
  FIELD(problem_shape);
  FIELD(mainloop.ptr_q), FIELD(mainloop.stride_q), FIELD(mainloop.ptr_k), FIELD(mainloop.stride_k);
  FIELD(mainloop.ptr_v), FIELD(mainloop.stride_v), FIELD(mainloop.ptr_do), FIELD(mainloop.stride_do);
  FIELD(mainloop.ptr_lse), FIELD(mainloop.stride_lse);
  FIELD(mainloop.ptr_sum_odo), FIELD(mainloop.stride_sum_odo);
  FIELD(mainloop.ptr_dq_acc), FIELD(mainloop.stride_dq_acc), FIELD(mainloop.softmax_scale);
  MAP(mainloop_params.tma_load_k), MAP(mainloop_params.tma_load_v), MAP(mainloop_params.tma_load_q);
  MAP(mainloop_params.tma_load_do), MAP(mainloop_params.tma_red_dq);
  FIELD(epilogue.ptr_dk), FIELD(epilogue.stride_dk), FIELD(epilogue.ptr_dv), FIELD(epilogue.stride_dv);
  FIELD(hw_info.device_id), FIELD(hw_info.sm_count);
}

const char* name_of(Convert*) { return "convert"; }
void add_fields(Fields& fields, Convert::Params const& params) {
  FIELD(problem_shape);
  FIELD(ptr_src_dQ), FIELD(stride_src_dQ), FIELD(ptr_src_dK), FIELD(stride_src_dK);
  FIELD(ptr_src_dV), FIELD(stride_src_dV), FIELD(ptr_dest_dQ), FIELD(stride_dest_dQ);
  FIELD(ptr_dest_dK), FIELD(stride_dest_dK), FIELD(ptr_dest_dV), FIELD(stride_dest_dV), FIELD(scale);
}

}  // namespace
}  // namespace tileproof

template <class Kernel>
void tileproof_launched(typename Kernel::Params const& params) {
  using namespace tileproof;
  dim3 grid = Kernel::get_grid_shape(params), block = Kernel::get_block_shape();
  Fields fields(&params);
  add_fields(fields, params);
  event(std::string("\"event\":\"launch\",\"kernel\":\"") + name_of(static_cast<Kernel*>(nullptr)) +
        "\",\"grid\":" + list({grid.x, grid.y, grid.z}) + ",\"block\":" + list({block.x, block.y, block.z}) +
        ",\"shared\":" + std::to_string(Kernel::SharedStorageSize) +
        ",\"bytes\":" + std::to_string(sizeof(params)) + ",\"fields\":[" + fields.text + "]");
}

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* shape, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill fill) {
  const std::uint64_t number = tileproof::maps()++;
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &number, sizeof(number));
  tileproof::event(
      "\"event\":\"map\",\"number\":" + std::to_string(number) + ",\"type\":" + std::to_string(type) +
      ",\"address\":" + std::to_string(reinterpret_cast<std::uint64_t>(address)) +
      ",\"shape\":" + tileproof::list(shape, rank) + ",\"strides\":" + tileproof::list(strides, rank - 1) +
      ",\"box\":" + tileproof::list(box, rank) + ",\"element_strides\":" +
      tileproof::list(element_strides, rank) + ",\"interleave\":" + std::to_string(interleave) +
      ",\"swizzle\":" + std::to_string(swizzle) + ",\"fill\":" + std::to_string(fill));
  return CUDA_SUCCESS;
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t) {
  tileproof::event(
      "\"event\":\"fill\",\"address\":" + std::to_string(reinterpret_cast<std::uint64_t>(address)) +
      ",\"value\":" + std::to_string(value) + ",\"bytes\":" + std::to_string(bytes));
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return ""; }

// What the example does on a problem, as JSON; null when it says that it cannot. Strides: of q, of o and dO,
// of k, of v, of the log-sum-exp, of the gradients.
const char* tileproof_backward(const tileproof::Sizes* sizes, const tileproof::Pointers* at,
                               const tileproof::Strides* q, const tileproof::Strides* o,
                               const tileproof::Strides* k, const tileproof::Strides* v,
                               const tileproof::Strides* lse, const tileproof::Strides* dq,
                               const tileproof::Strides* dk, const tileproof::Strides* dv) {
  using namespace cute;
  using tileproof::Backward;
  using tileproof::Element;
  using tileproof::Length;
  tileproof::events().clear();
  tileproof::maps() = 0;

  auto strided = [](const tileproof::Strides& by) {
    return make_stride(by.row, _1{}, make_stride(make_stride(by.group, by.head), by.batch));
  };
  auto shared = [](const tileproof::Strides& by) {  // by the query heads of a group
    return make_stride(by.row, _1{}, make_stride(make_stride(_0{}, by.head), by.batch));
  };
  auto of_lse = make_stride(_1{}, make_stride(make_stride(lse->group, lse->head), lse->batch));
  auto element = [](void* pointer) { return static_cast<Element*>(pointer); };
  auto f32 = [](void* pointer) { return static_cast<float*>(pointer); };
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = 148;  // of a B200

  Backward::Arguments arguments{{tileproof::length<Length>(sizes->queries, at->cu_q, sizes->all_queries),
                                 tileproof::length<Length>(sizes->keys, at->cu_k, sizes->all_keys),
                                 sizes->columns,
                                 sizes->values,
                                 {{sizes->group, sizes->heads}, sizes->batches}},
                                element(at->q),
                                strided(*q),
                                element(at->k),
                                shared(*k),
                                element(at->v),
                                shared(*v),
                                element(at->o),
                                strided(*o),
                                f32(at->lse),
                                of_lse,
                                element(at->dO),
                                strided(*o),
                                element(at->dQ),
                                strided(*dq),
                                element(at->dK),
                                shared(*dk),
                                element(at->dV),
                                shared(*dv),
                                sizes->scale,
                                hardware};
  if (Backward::can_implement(arguments) != cutlass::Status::kSuccess) return nullptr;
  Backward backward;
  if (backward.initialize_split(arguments, at->accumulator, at->sum, at->scaled) !=
          cutlass::Status::kSuccess ||
      backward.run() != cutlass::Status::kSuccess)
    return nullptr;
  tileproof::events() = "[" + tileproof::events() + "]";
  return tileproof::events().c_str();
}

}  // extern "C"
