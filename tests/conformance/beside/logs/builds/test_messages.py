"""Diagnostics of each tool, by their forms: what is read of them, and what they mean."""

from typing import Any

import pytest
from tileproof.conformance.beside.logs.builds import diagnostics, report
from tileproof.conformance.beside.logs.builds.findings import is_library
from tileproof.conformance.beside.logs.builds.frames import SourcePlace
from tileproof.conformance.beside.logs.builds.lines import clean
from tileproof.conformance.beside.logs.builds.messages import starts

PTXAS = "ptxas /tmp/k.ptx, line 9; error   : Instruction "


def rows(log: str) -> list[dict[str, Any]]:
    return report.explain(report.parse(log))["findings"]


@pytest.mark.parametrize(
    ("line", "tool", "place"),
    [
        ("/a/b.cuh(43): error: static assertion failed", "nvcc", SourcePlace("/a/b.cuh", 43)),
        ("[3/9] b.cu(7): error: x", "nvcc", SourcePlace("b.cu", 7)),
        ("b.cu(7): catastrophic error: x", "nvcc", SourcePlace("b.cu", 7)),
        ("b.cu(7): error #20: x", "nvcc", SourcePlace("b.cu", 7)),
        ('"/a/b.cuh", line 43: error: x', "nvcc", SourcePlace("/a/b.cuh", 43)),
        ("C:\\k\\b.cu(12): error: x", "nvcc", SourcePlace("C:\\k\\b.cu", 12)),
        ("/my files/b.cu(12): error: x", "nvcc", SourcePlace("/my files/b.cu", 12)),
        ("/a/b.cpp:10:5: error: x", "host", SourcePlace("/a/b.cpp", 10)),
        ("b.cpp:10: fatal error: x", "host", SourcePlace("b.cpp", 10)),
        ("ptxas /tmp/k.ptx, line 26; error   : x", "ptxas", SourcePlace("/tmp/k.ptx", 26)),
        ("ptxas fatal   : x", "ptxas", None),
        ("ptxas error   : x", "ptxas", None),
        ("nvcc fatal   : x", "driver", None),
        ("nvlink error   : x", "link", None),
        ("/usr/bin/ld: k.o: undefined reference to `f(int)'", "link", None),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "driver", None),
        ("g++: fatal error: Killed signal terminated program cc1plus", "driver", None),
    ],
)
def test_first_lines(line: str, tool: str, place: SourcePlace | None) -> None:
    (clean_line,) = clean(line)
    found = starts(clean_line)
    assert found is not None and (found.tool, found.place) == (tool, place)
    assert found.is_error


@pytest.mark.parametrize(
    "line",
    [
        "no errors here",
        "[4/7] Building CUDA object error.cu.o",
        "    throw std::runtime_error(error);",
        "static_assert(x, \"error\");",
        "0 errors, 3 warnings",
        "log(1): information",
    ],
)  # fmt: skip
def test_lines_that_are_no_diagnostics(line: str) -> None:
    assert starts(line) is None


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("/x/cutlass/include/cute/atom/mma_atom.hpp", True),
        ("cute/layout.hpp", True),
        ("/opt/env/lib/python3.11/site-packages/cutlass_library/source/include/cutlass/gemm/gemm.h", True),
        ("/usr/include/c++/12/tuple", True),
        ("/usr/local/cuda-13.0/targets/x86_64-linux/include/cuda_fp16.h", True),
        ("/e/site-packages/torch/include/ATen/core/Tensor.h", True),
        ("/home/me/cutlass/examples/my_kernel.cu", False),
        ("csrc/sm100/helpers.cuh", False),
        ("/src/cute_kernels/attention.hpp", False),
        ("kernel.cu", False),
    ],
)
def test_whose_file_it_is(file: str, library: bool) -> None:
    assert is_library(file) == library


def test_contexts_of_gcc() -> None:
    log = (
        "/x/include/cute/algorithm/gemm.hpp: In instantiation of \u2018void cute::gemm(A) "
        "[with A = cute::C<4>]\u2019:\n"
        "k.cpp:31:9:   required from \u2018void run(T) [with T = float; N = cute::C<8>]\u2019\n"
        "k.cpp:40:3:   required from here\n"
        "/x/include/cute/algorithm/gemm.hpp:281:17: error: static assertion failed: sizes differ\n"
        "  281 |   static_assert(a == b);\n"
        "      |                 ~~^~~~\n"
    )
    (found,) = diagnostics.read(clean(log)).diagnostics
    assert found.tool == "host" and found.echo[0] == "static_assert(a == b);"
    assert [frame.name for frame in found.frames][:2] == ["gemm", "run"]
    assert str(found.frames[1].args["N"]) == "cute::C<8>"
    (row,) = rows(log)
    assert (row["at"]["file"], row["at"]["line"]) == ("k.cpp", 31)
    assert [place["line"] for place in row["callers"][0]] == [40]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (PTXAS + "'wgmma.fence' not supported on .target 'sm_90'", "arch", "sm_90a"),
        (PTXAS + "'wgmma.fence' not supported on .target 'sm_100a'", "arch", "sm_90a"),
        (PTXAS + "'tcgen05.ld' not supported on .target 'sm_90a'", "arch", "sm_100a"),
        ("ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)",
         "shared-memory", "dynamic"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_100a'", "arch", "12.8"),
        ("/usr/bin/ld: k.o: in function `main': undefined reference to `launch(int)'", "link", "-rdc=true"),
        ("nvlink error   : Undefined reference to 'helper' in 'k.o'", "link", "-rdc=true"),
        ("k.o: multiple definition of `launch'; a.o: first defined here", "link", "inline"),
        ("/usr/bin/ld: cannot find -lcudart", "link", "-L"),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "compiler", "MAX_JOBS"),
        ("a.cu:3:10: fatal error: cute/tensor.hpp: No such file or directory", "missing-header", "CuTe"),
        ("a.cu:3:10: fatal error: torch/extension.h: No such file or directory", "missing-header", "PyTorch"),
        ("a.cpp:9:3: error: reference to \u2018Layout\u2019 is ambiguous", "ambiguous-name", "cute::Layout"),
        ('a.cu(3): error: identifier "make_tmem_copy" is undefined', "undefined", "copy_traits_sm100.hpp"),
        ('a.cu(3): error: identifier "my_own_name" is undefined', "undefined", "header or the namespace"),
        ("RuntimeError: CUDA error: cluster misconfiguration", "launch", "__cluster_dims__"),
        ("CUDA error: an illegal instruction was encountered", "launch", "compute-sanitizer"),
        ("CUDA error: no kernel image is available for execution on the device", "launch", "-gencode"),
    ],
)  # fmt: skip
def test_messages_that_say_all_of_it(line: str, code: str, words: str) -> None:
    (row,) = rows(line + "\n")
    assert row["code"] == code and row["understood"]
    assert words in row["fits"], row["fits"]


def test_the_error_that_says_most_is_the_cause_whichever_comes_first() -> None:
    trail = '          detected during instantiation of "void f()" at line 5 of k.cu\n\n'
    vague = 'cute/layout.hpp(1): error: no instance of function template "cute::append" matches the call\n'
    exact = 'cute/layout.hpp(2): error: static assertion failed with "Too many modes in tiler."\n'
    for log in (vague + trail + exact + trail, exact + trail + vague + trail):
        (row,) = rows(log)
        assert (row["code"], row["errors"], row["follow"]) == ("rank", 1, 1)


def test_two_mistakes_on_one_line_are_two_findings() -> None:
    log = 'k.cu(3): error: identifier "one" is undefined\n\nk.cu(3): error: identifier "two" is undefined\n\n'
    assert len(rows(log)) == 2
    again = rows(log + log)
    assert [row["errors"] for row in again] == [2, 2]


def test_spills_of_each_entry_and_none_without() -> None:
    info = "ptxas info    : Compiling entry function '{0}' for 'sm_100a'\n"
    info += "ptxas info    : Function properties for {0}\n"
    use = "    8 bytes stack frame, {0} bytes spill stores, {0} bytes spill loads\n"
    log = "".join(
        info.format(name) + use.format(size) for name, size in (("one", 16), ("two", 0), ("three", 4))
    )
    found = rows(log)
    assert [row["code"] for row in found] == ["registers", "registers"]
    assert "in one;" in found[0]["what"] and "in three;" in found[1]["what"]
    errors = rows(log + 'k.cu(3): error: identifier "one" is undefined\n')
    assert errors[0]["code"] == "undefined", "what fails the build comes before what slows the kernel"


def test_chains_begin_with_the_users_outermost_line_and_stay_apart() -> None:
    head = (
        '/opt/c/include/cute/layout.hpp(1): error: static assertion failed with "Too many modes in tiler."\n'
    )
    trail = "          detected during:\n"
    trail += '            instantiation of "void cute::f()" at line 7 of /home/u/k/csrc/tile.cuh\n'
    trail += '            instantiation of "void g()" at line {} of /home/u/k/csrc/sm100/{}.cu\n\n'
    log = head + trail.format(3, "one") + head + trail.format(9, "two")
    result = report.explain(report.parse(log))
    (row,) = result["findings"]
    assert [[place["file"] for place in chain] for chain in row["chains"]] == [
        [f"/home/u/k/csrc/sm100/{name}.cu", "/home/u/k/csrc/tile.cuh", "/opt/c/include/cute/layout.hpp"]
        for name in ("one", "two")
    ]
    lines = report.text(result).splitlines()
    assert lines[0] == "Files below /home/u/k/csrc/"
    start = next(number for number, line in enumerate(lines) if "chain:" in line)
    assert [line.strip() for line in lines[start : start + 6]] == [
        "chain:  sm100/one.cu:3", "tile.cuh:7", "cute/layout.hpp:1",
        "chain:  sm100/two.cu:9", "tile.cuh:7", "cute/layout.hpp:1",
    ]  # fmt: skip


HIDDEN = """kernel.cu(50): error: namespace "cute" has no member "make_tiled_nma"
      auto mma = cute::make_tiled_nma(stage<float>(p));
                       ^

kernel.cu(12): error: a value of type "const char *" cannot be used to initialize an entity of type "float"
    float scale = "half";
                  ^
          detected during instantiation of "void stage<T>(T *) [with T=float]" at line 50

kernel.cu(14): error: expression must have a constant value
    float rows[n];
               ^
          detected during instantiation of "void stage<T>(T *) [with T=float]" at line 50

kernel.cu(50): error: cannot deduce "auto" type
      auto mma = cute::make_tiled_nma(stage<float>(p));
           ^

4 errors detected in the compilation of "kernel.cu".
"""


def test_an_error_of_its_own_is_not_counted_as_one_that_follows() -> None:
    """The two in the instantiated function are findings; "cannot deduce" follows, and is printed."""
    result = report.explain(report.parse(HIDDEN))
    assert [row["at"]["line"] for row in result["findings"]] == [50, 12, 14]
    first = result["findings"][0]
    assert (first["errors"], first["follow"]) == (1, 1)
    assert [item["message"] for item in first["followers"]] == ['cannot deduce "auto" type']
    assert "follow: kernel.cu:50: cannot deduce" in report.text(result)
