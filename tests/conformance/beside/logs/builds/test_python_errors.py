"""Layout errors of Triton, Gluon, TileLang and CuTe DSL get a short reading of what their text carries.

The texts of the first three are what Triton 3.9 and TileLang 0.1.15 print for kernels with that mistake,
without their tracebacks. Those of CuTe DSL have the form of NVIDIA/cutlass issues 2392, 3290, 3078 and 3470.
"""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.cli.explain import explanation

TRACE = 'Traceback (most recent call last):\n  File "kernel.py", line 30, in <module>\n    compile()\n'
DOTS = """triton.compiler.errors.CompilationError: at 4:39:
def dots(a, b, c, K: tl.constexpr):
    i=tl.arange(0,64); k=tl.arange(0,K)
    x=tl.load(a+i[:,None]*64+k[None,:])
    tl.store(c+i[:,None]*32+j[None,:], tl.dot(x,y))
                                       ^
input and other must have equal reduction dimensions
"""
BLOCKED = "BlockedLayout(size_per_thread=[1, 1], threads_per_warp=[{}], warps_per_cta=[4, 1], order=[1, 0])"
BROADCAST = f"""triton.compiler.errors.CompilationError: at 7:39:
def lay(a, c):
    gl.store(c+i[:,None]*64+j[None,:], x+y)
                                       ^
Layout mismatch in broadcast: {BLOCKED.format("1, 32")} vs {BLOCKED.format("32, 1")}
nanobind: leaked 326 functions!
"""
EXPAND = """triton.compiler.errors.CompilationError: at 4:15:
def exp(a, c):
    gl.store(c+i[None,:], gl.load(a+i[None,:]))
               ^
expected expand_dims input layout to be sliced in axis 0 but got 1
"""
F = "Fragment((128, 128) -> (128,), replicate: 1, thread: 128, forward_thread: {}, forward_index: ({},))"
LOOP = f"""tvm.error.InternalError: Layout infer conflict between a and b in T.Parallel loop:
    loop {F.format("_j", "_i")}
    fragment {F.format("_i", "_j")}

"""
TWICE = f"""tvm.error.InternalError: Get different layout for c
 current layout: {F.format("_i % 64", "_j // 8").replace("))", "), thread_range: I.Range(0, 128))")}
 previous layout: {F.format("_i", "_j")}
  --> kernel.py:5:1
    |
 5 |         c=T.alloc_fragment((128,128),"float32")
    |         ^
"""
GEMM = "AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 64\n"
COPY = """cutlass._mlir._mlir_libs._site_initialize.<locals>.MLIRError: Verification failed:
error: "my_kernel"("/home/u/copy.py":21:0): 'cute.copy' op src expects global based memref, but got generic
 note: "my_kernel"("/home/u/copy.py":21:0): see current operation: "cute.copy"(%8, %6) : \
(!cute.memref<f32, generic, "(8,2):(65536,32)">, !cute.memref<f32, smem, "(8,2):(512,32)">) -> ()
"""
OPERANDS = "error: unknown: 'cute.gemm' op invalid layout of A/B/D. A: (1,1):(0,0), B: (1,1):(0,0), "
OPERANDS += "D:((2,2),1):((1,2),0)\n"
DESCRIPTOR = """error: "k"("g.py":7:0): failed to legalize operation \
'cute_nvgpu.make_gmma_smem_desc' that was explicitly marked illegal
"""
COMPOSED = """error: unknown: unable to compute the following composition: \
'!cute.layout<"(4096,8192):(1,4096)">' o '!cute.layout<"(32,?):(1,8)">'
"""


@pytest.mark.parametrize(
    ("log", "code", "words", "fits"),
    [
        (DOTS, "extent-k", ("tl.dot differ in K", "line 4 of dots", "tl.dot(x,y)"), "[K, N]"),
        (BROADCAST, "layout", ("threads_per_warp=[1, 32]", "threads_per_warp=[32, 1]"), "convert_layout"),
        (EXPAND, "layout", ("slice of axis 1", "along axis 0"), "SliceLayout(0"),
        (LOOP, "layout", ("a and b", "loop: thread _j, register (_i,)", "fragment: thread _i"), "same"),
        (TWICE, "layout", ("fragment c", "current: thread _i % 64", "previous: thread _i, "), "annotation"),
        (GEMM, "extent-k", ("K of A is 32, K of B is 64",), "transpose_B"),
        (COPY, "space", ("global memory", "generic", "(8,2):(65536,32)", "smem (8,2)"), "global"),
        (OPERANDS, "layout", ("'cute.gemm'", "D:((2,2),1)"), "make_fragment_A"),
        (DESCRIPTOR, "canonical", ("matrix descriptor",), "swizzle"),
        (COMPOSED, "divide", ("(4096,8192):(1,4096)", "(32,?):(1,8)"), "divide each other"),
    ],
)  # fmt: skip
def test_what_the_text_carries(log: str, code: str, words: tuple[str, ...], fits: str) -> None:
    for text in (log, TRACE + log, TRACE + log + TRACE):
        result = report.explain(report.parse(text))
        (row,) = result["findings"]
        assert row["code"] == code and result["outcome"] == "explained"
        assert all(word in row["what"] for word in words), row["what"]
        assert fits in row["fits"]


def test_places(tmp_path: object) -> None:
    for log, place in ((TWICE, ("kernel.py", 5)), (COPY, ("/home/u/copy.py", 21))):
        (row,) = report.explain(report.parse(log))["findings"]
        assert (row["at"]["file"], row["at"]["line"]) == place


def test_a_message_that_no_rule_knows_is_said_with_its_layouts() -> None:
    text = "'cute.frob' op does not frob !cute.memref<f16, smem, \"(8,2):(2,1)\">"
    for head in ("error: unknown: ", "cutlass.base_dsl.common.DSLRuntimeError: ", "OpError: "):
        result = report.explain(report.parse(head + text + "\n"))
        (row,) = result["findings"]
        assert result["outcome"] == "not understood" and row["code"] == "unknown"
        assert "layouts: f16, smem (8,2):(2,1)" in row["what"]


def test_other_python_errors_are_no_layout_errors(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "log.txt"
    path.write_text(
        "ninja: no work to do.\n" + TRACE + "ValueError: not a layout of mine\nAssertionError: x\n"
    )
    assert explanation(path)["outcome"] == "no errors"
