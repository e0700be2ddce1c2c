"""The kernels around the sparse MLA backward on the emulator, with planted defects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tileproof
from tileproof.conformance.compare.compare import within_bound
from tileproof.conformance.drivers import emulator
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.mla_around import launches
from tileproof.reference.chain import outputs_of
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd import sink as contract
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

Array = npt.NDArray[Any]
Half = launches.Half
HALVES: tuple[Half, ...] = ("bfloat16", "float16")
GUARD = np.uint32(0xDEADBEEF).view(np.float32)


def run(launch: Any, schedule: str = "early") -> RunResult:
    """A run with races checked, certified for every schedule."""
    result = tileproof.run(launch, schedule=schedule)
    assert not result.findings and result.certified, result.findings
    return result


def inputs(heads: int, tokens: int = 3, seed: int = 0) -> Any:
    return SparseCase(
        576, tokens=(Indices(),) * tokens, values="normal", h_q=heads, seed=seed
    ).inputs()  # of 64 or 128 heads


def wide(count: int) -> Array:
    """f32 of every kind: any bits, values halfway between two bf16 or two f16, and beside those."""
    rng = np.random.default_rng(count)
    bits = rng.integers(0, 2**32, count, dtype=np.uint32)
    near = (bits & 0xFFFF0000) | rng.integers(0x7FFF, 0x8002, count, dtype=np.uint32)
    exponent = rng.integers(96, 146, count, dtype=np.uint32) << 23
    half = (bits & 0x807FE000) | exponent | 0x1000
    return np.choose(np.arange(count) % 3, [bits, near, half]).astype(np.uint32).view(np.float32)


def delta_is_wrong(ptx: str = "", heads: int = 64) -> bool:
    x = inputs(64 if heads <= 64 else 128)
    known = outputs_of(x, "delta", problem=SPARSE_MLA_BWD, tiling=Tiling(64, 1))
    o, dO = (np.ascontiguousarray(array[:, :heads]) for array in (x.o, x.dO))
    result = tileproof.run(launches.delta(o, dO, ptx))
    output = result.outputs["delta"]
    right = within_bound(output.values, known.value[:, :heads], known.error[:, :heads])
    return bool(result.findings) or not output.written.all() or not right.all()


def convert_is_wrong(to: Half, ptx: str = "", count: int = 1027, grid: int = 4) -> bool:
    given = wide(count)
    result = tileproof.run(launches.convert(given, to, ptx, grid))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = given.astype(ml_dtypes.bfloat16 if to == "bfloat16" else np.float16)
    output, number = result.outputs["narrow"], ~np.isnan(given)
    bits, right = (values.view(np.uint16) for values in (output.values, expected))
    same = (bits == right)[number].all() and np.isnan(output.values.astype(np.float32))[~number].all()
    return bool(result.findings) or not output.written.all() or not bool(same)


def clear_is_wrong(ptx: str = "", count: int = 1027, grid: int = 4) -> bool:
    before = np.full(count + 5, GUARD)
    result = tileproof.run(launches.clear(before, count, ptx, grid))
    found = result.outputs["values"].values.view(np.uint32)
    kept = (found[count:] == GUARD.view(np.uint32)).all()
    return bool(result.findings) or bool(found[:count].any()) or not kept


def sink_inputs(tokens: int, heads: int) -> tuple[Array, Array, Array]:
    """lse, delta and sink: finite, both infinities, and past the f32 range in base 2; tokens without keys."""
    rng = np.random.default_rng(tokens + heads)
    sink, delta = (rng.standard_normal(shape).astype(np.float32) for shape in (heads, (tokens, heads)))
    for number, value in enumerate([-np.inf, 30.0, -200.0, 3e38, np.inf]):
        sink[number + 1 : number + 2] = value
    keys = rng.standard_normal((tokens, heads)) * 4
    keys[::5] = -np.inf
    with np.errstate(over="ignore"):
        return contract.fold_lse(keys, sink).astype(np.float32), delta, sink


def d_sink_is_wrong(ptx: str = "", tokens: int = 37, heads: int = 40) -> bool:
    lse, delta, sink = sink_inputs(tokens, heads)
    result = tileproof.run(launches.d_sink(lse, delta, sink, ptx))
    output = result.outputs["d_sink"]
    known, bound = contract.d_sink(lse, delta, sink), contract.bound_d_sink(lse, delta, sink)
    right = within_bound(output.values, known, bound).all()
    return bool(result.findings) or not output.written.all() or not bool(right)


@pytest.mark.parametrize("heads", [1, 8, 9, 128])
@pytest.mark.parametrize("tokens", [1, 128, 129, 300])
def test_d_sink_is_within_its_bound(tokens: int, heads: int) -> None:
    assert not d_sink_is_wrong(tokens=tokens, heads=heads)


@pytest.mark.parametrize("name", ["lse", "delta", "sink"])
def test_a_nan_is_not_hidden_by_d_sink(name: str) -> None:
    given = dict(zip(("lse", "delta", "sink"), sink_inputs(9, 8), strict=True))
    given[name][..., 0] = np.nan
    assert (
        np.isnan(
            run(launches.d_sink(given["lse"], given["delta"], given["sink"])).outputs["d_sink"].values
        ).tolist()
        == [True] + [False] * 7
    )


@pytest.mark.parametrize("heads", [1, 7, 64, 128])
def test_delta_is_within_the_bound_of_the_stage(heads: int) -> None:
    assert not delta_is_wrong(heads=heads)


@pytest.mark.parametrize("name", ["head64", "head128-columns"])
def test_delta_and_the_backwards_own(name: str) -> None:
    """head64 adds in the same order: the same bits. A CTA of head128-columns has half of the columns."""
    own = kernel(name)
    x = inputs(own.variants[0]["h_q"])
    launch = own.launch(x, own.build(own.variant_of(x)))
    whole = emulator.run(launch, own.plan(own.variant_of(x)), schedule=Schedule("early"), taps=False)
    apart = run(launches.delta(x.o, x.dO)).outputs["delta"].values != whole.outputs["delta"].values
    assert not apart.any() if name == "head64" else apart.any()


@pytest.mark.parametrize("to", HALVES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 1023, 4100])
def test_convert_rounds_to_the_nearest(to: Half, count: int) -> None:
    assert not convert_is_wrong(to, count=count)
    assert not convert_is_wrong(to, count=count, grid=1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 1023, 4100, 20000])
def test_clear_writes_its_elements_and_no_others(count: int) -> None:
    assert not clear_is_wrong(count=count) and not clear_is_wrong(count=count, grid=1)


def test_the_bits_are_those_of_every_schedule() -> None:
    x = inputs(64)
    made = {
        "delta": launches.delta(x.o, x.dO),
        "narrow": launches.convert(wide(4099), "bfloat16"),
        "values": launches.clear(np.full(4099, GUARD), 4099),
        "d_sink": launches.d_sink(*sink_inputs(37, 40)),
    }
    for name, launch in made.items():
        first = run(launch).outputs[name].values
        for schedule in ("late", "random:seed=1"):
            again = run(launch, schedule).outputs[name].values
            assert np.array_equal(first.view(np.uint8), again.view(np.uint8))


# What is wrong, the check that must see it, and the edit of the entry's PTX.
PLANTED: dict[str, tuple[str, Callable[[str], bool], str, str]] = {
    "bf16 truncated": ("bf16", lambda ptx: convert_is_wrong("bfloat16", ptx), r"cvt\.rn\.bf", "cvt.rz.bf"),
    "f16 truncated": ("f16", lambda ptx: convert_is_wrong("float16", ptx), r"cvt\.rn\.f16", "cvt.rz.f16"),
    "a pair exchanged": (
        "bf16", lambda ptx: convert_is_wrong("bfloat16", ptx), r"(bf16x2\.f32 %\w+), (%f\d+), (%f\d+)",
        r"\1, \3, \2"),
    "the last elements not converted": (
        "bf16", lambda ptx: convert_is_wrong("bfloat16", ptx), r"st\.global\.u16", "// "),
    "the last elements not cleared": ("clear", clear_is_wrong, r"st\.global\.u32", "// "),
    "an element too many cleared": (
        "clear", clear_is_wrong, r"setp\.ge\.s64( +\t?%p7)|setp\.ge\.s64(\s+%p7)", r"setp.gt.s64\1\2"),
    "a step of the sum over lanes left out": ("delta", delta_is_wrong, r"(mov\.u32\s+%r\d+), 8;", r"\1, 4;"),
    "every second group of heads": ("delta", delta_is_wrong, r"(add\.s32\s+%r\d+, %r\d+), 4;", r"\1, 8;"),
    "the partial sums are not waited for": ("d_sink", d_sink_is_wrong, r"bar\.sync\s+0;", ""),
    "no log2(e)": ("d_sink", d_sink_is_wrong, r"0f3FB8AA3B", "0f3F800000"),
    "the sign": ("d_sink", d_sink_is_wrong, r"neg\.f32", "mov.f32"),
    "a sink past the range is none": ("d_sink", d_sink_is_wrong, r"0f7F800000", "0f7F7FFFFF"),
    "tokens left out": ("d_sink", d_sink_is_wrong, r"(setp\.ge\.s32\s+%p\d+, %r\d+), %r\d+;", r"\1, 9;"),
}  # fmt: skip


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_found(defect: str) -> None:
    entry, wrong, find, replacement = PLANTED[defect]
    before, name, rest = launches.built().ptx.partition(f".entry tileproof_mla_{entry}(")
    body, end, others = rest.partition(".entry")
    edited, count = re.subn(find, replacement, body)
    assert count
    assert wrong(before + name + edited + end + others)
