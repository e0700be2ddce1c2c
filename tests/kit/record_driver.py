"""Records a program of the CUDA driver API with the installed package, and checks the launch file; no nvcc.

`python record_driver.py FOLDER`. The program is Python with ctypes, which loads libcuda.so.1 by its name.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = r"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
PTX = b'''.version 8.6
.target sm_100a
.address_size 64
.visible .entry twice(.param .u64 data)
{
 .reg .b64 a; .reg .b32 i, v; .reg .b64 o;
 ld.param.u64 a, [data];
 mov.u32 i, %tid.x;
 mul.wide.u32 o, i, 4;
 add.u64 a, a, o;
 ld.global.u32 v, [a];
 add.u32 v, v, v;
 st.global.u32 [a], v;
 ret;
}
'''
u64, p = ctypes.c_uint64, ctypes.c_void_p
module, function, at = p(), p(), u64()
data = (ctypes.c_uint32 * 32)(*range(32))
calls = [
    cuda.cuInit(0), cuda.cuModuleLoadData(ctypes.byref(module), PTX),
    cuda.cuModuleGetFunction(ctypes.byref(function), module, b"twice"),
    cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(128)),
    cuda.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(128)),
    cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, (p * 1)(ctypes.addressof(at)), None),
    cuda.cuMemcpyDtoH_v2(data, at, ctypes.c_size_t(128)),
]
assert not any(calls), calls
assert list(data) == [2 * i for i in range(32)], list(data)
"""


def main() -> int:
    """0 when the launch file says what the program did."""
    folder = Path(sys.argv[1])
    words = ["record", "--run", "--json", "-o", str(folder), "--", sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        [sys.executable, "-m", "tileproof", *words], capture_output=True, text=True, timeout=120, check=False
    )
    print(done.stdout, done.stderr)
    if done.returncode:
        return 1
    found = json.loads(done.stdout)
    launch = json.loads((folder / "launch.json").read_text())
    assert found["launches"] == ["twice"]
    (step,) = (load for load in launch["steps"] if load["kind"] == "launch")
    assert (step["entry"], step["block"], step["arguments"][0]["kind"]) == ("twice", [32, 1, 1], "pointer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
