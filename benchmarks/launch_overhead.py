"""Host time of a call of the C launcher, with a driver whose functions return at once.

    python benchmarks/launch_overhead.py

Prints microseconds per call of `tileproof_mla_backward` (four launches), with tensor maps from the cache, and
with an address that is new in each call.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tileproof.kernels import manifest, toolchain
from tileproof.kernels.registry import kernel

CALLS = 200_000
PROGRAM = r"""
#include "tileproof_launch.h"
#include <time.h>
static long launches, encoded;
CUresult cuGetErrorName(CUresult code, const char** name) { (void)code; *name = "?"; return CUDA_SUCCESS; }
CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* a, void** b, unsigned c,
                               CUlibraryOption* d, void** e, unsigned f) {
  (void)path, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
  *out = (CUlibrary)out;
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) { (void)library; return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  (void)library, (void)name;
  *out = (CUkernel)out;
  return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  *out = (CUfunction)kernel;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  (void)function, (void)which, (void)value;
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType a, cuuint32_t b, void* c,
                                const cuuint64_t* d, const cuuint64_t* e, const cuuint32_t* f,
                                const cuuint32_t* g, CUtensorMapInterleave h, CUtensorMapSwizzle i,
                                CUtensorMapL2promotion j, CUtensorMapFloatOOBfill k) {
  (void)map, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i;
  (void)j, (void)k;
  ++encoded;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  (void)config, (void)function, (void)parameters, (void)extra;
  ++launches;
  return CUDA_SUCCESS;
}
int main(int count, char** words) {
  static tileproof_library library;
  const long calls = CALLS, moves = count > 1 ? atol(words[1]) : 0;
  enum { PIECE = 1 << 26 };
  tileproof_mla_call call = {.q = 1L << 40, .kv = PIECE, .o = 2 * PIECE, .dO = 3 * PIECE, .lse = 4 * PIECE,
                             .indices = 5 * PIECE, .sink = 6 * PIECE, .delta = 7 * PIECE, .dq = 8 * PIECE,
                             .dkv_f32 = 9 * PIECE, .dkv = 10 * PIECE, .d_sink = 11 * PIECE, .s_q = 64,
                             .s_kv = 4096, .h_q = 64, .d_qk = 576, .topk = 2048, .sm_scale = 0.04f};
  struct timespec begin, end;
  tileproof_open(&library, ".");
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  for (long i = 0; i < calls; ++i) {
    call.q += 16 * moves;
    if (tileproof_mla_backward(&library, &call, 0)) return 1;
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  printf("%.3f %ld %ld\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / 1e3 / calls,
         launches, encoded);
  return 0;
}
"""


def measured(moves: int, folder: Path) -> tuple[float, int, int]:
    """Microseconds of a call, launches, and maps that were encoded."""
    done = subprocess.run([str(folder / "overhead"), str(moves)], capture_output=True, text=True, check=True)
    time, launches, encoded = done.stdout.split()
    return float(time), int(launches), int(encoded)


def build(folder: Path) -> None:
    """The program, of head64 with d_qk 576."""
    head64 = kernel("head64")
    manifest.write(manifest.packaged(head64, head64.variant(d_qk=576), folder), folder)
    (folder / "overhead.c").write_text("#include <stdlib.h>\n" + PROGRAM)
    cuda = toolchain.find().nvcc.parents[1] / "include"
    command = ["gcc", "-std=gnu99", "-O2", f"-DCALLS={CALLS}", f"-I{folder}", f"-I{cuda}"]
    subprocess.run([*command, str(folder / "overhead.c"), "-o", str(folder / "overhead")], check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for what, moves in (("cached maps", 0), ("q at a new address", 1)):
            time, launches, encoded = measured(moves, folder)
            print(f"{what}: {time:.2f} us of processor per call, {launches} launches, {encoded} maps encoded")


if __name__ == "__main__":
    main()
