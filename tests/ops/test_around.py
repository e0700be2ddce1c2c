"""The kernels around the backward as operators: values, compiled functions, empty and bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tileproof.conformance.drivers import emulator
from tileproof.ops import around, reference
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LN_2, LOG2_E
from torch import Tensor
from torch._library.custom_ops import CustomOpDef
from torch._subclasses.fake_tensor import FakeTensorMode

TOKENS, TOPK, ROWS, D_QK = 3, 8, 20, 64
BF16, F32, INT = torch.bfloat16, torch.float32, torch.int32


def drawn() -> dict[str, Any]:
    """Arguments of all operators by name."""
    torch.manual_seed(0)
    lse, sink = torch.randn(5, 16), torch.randn(16)
    return {
        "kv": torch.randn(ROWS, D_QK).to(BF16),
        "indices": torch.randint(-1, ROWS + 1, (TOKENS, TOPK), dtype=INT),
        "topk_length": torch.tensor([8, 3, 0], dtype=INT),
        "slots": torch.zeros(TOKENS, TOPK, dtype=INT),
        "wide": torch.randn(TOKENS * TOPK, D_QK),
        "values": torch.randn(7, 5),
        "lse": torch.maximum(lse, sink * LOG2_E),
        "delta": torch.randn(5, 16),
        "sink": sink,
        "s_kv": ROWS,
        "dtype": BF16,
    }


ARGUMENTS: dict[str, tuple[CustomOpDef, tuple[str, ...]]] = {
    "clear_": (around.clear_, ("values",)),
    "convert": (around.convert, ("wide", "dtype")),
    "d_sink": (around.d_sink, ("lse", "delta", "sink")),
    "expand": (around.expand, ("kv", "indices", "topk_length")),
    "collect": (around.collect, ("wide", "indices", "slots", "s_kv")),
}


def called(name: str, given: dict[str, Any]) -> Any:
    call, names = ARGUMENTS[name]
    return call(*(given[each] for each in names))


def deterministic(kv: Tensor, indices: Tensor, topk_length: Tensor, factor: Tensor) -> Tensor:
    """A sum over slots between operations of torch."""
    slots, rows = around.expand(kv * 2, indices, topk_length)
    wide = factor.expand(rows.shape) + 1
    around.clear_(wide)
    sums = around.collect(wide + rows.float() * factor, indices, slots, kv.shape[0])
    return around.convert(sums + 1, torch.float16) * 2


def test_each_operator_computes_what_torch_computes() -> None:
    given = drawn()
    kv, indices, wide = given["kv"], given["indices"], given["wide"]
    slots, rows = called("expand", given)
    keys = (indices >= 0) & (indices < ROWS) & (torch.arange(TOPK) < given["topk_length"][:, None])
    assert torch.equal(slots, torch.where(keys, torch.arange(TOKENS * TOPK).view_as(slots), -1))
    assert torch.equal(rows.view(*keys.shape, D_QK)[keys], kv[indices[keys].long()])
    assert not rows.view(*keys.shape, D_QK)[~keys].any()
    sums = torch.zeros(ROWS, D_QK)
    for slot in slots[keys].tolist():
        sums[indices.flatten()[slot]] += wide[slot]
    assert torch.equal(around.collect(wide, indices, slots, ROWS), sums)
    for dtype in (BF16, torch.float16):
        assert torch.equal(around.convert(wide.T, dtype), wide.T.to(dtype))
    exact = reference._d_sink(given["lse"].double() * LN_2, given["delta"].double(), given["sink"])
    assert torch.allclose(called("d_sink", given).double(), exact, rtol=1e-5, atol=1e-6)
    called("clear_", given)
    assert not given["values"].any()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_torch_takes_the_operator(name: str) -> None:
    call, names = ARGUMENTS[name]
    given = drawn()
    torch.library.opcheck(call, tuple(given[each] for each in names))


def test_a_compiled_function_has_no_break_and_the_same_bits() -> None:
    given = drawn()
    arguments = given["kv"], given["indices"], given["topk_length"], torch.tensor(0.5)
    made = torch.compile(deterministic, fullgraph=True, backend="aot_eager")(*arguments)
    assert torch.equal(made, deterministic(*arguments))


EMPTY: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "no elements": ("clear_", {"values": (0, 5)}),
    "nothing to convert": ("convert", {"wide": (3, 0)}),
    "no tokens": ("d_sink", {"lse": (0, 16), "delta": (0, 16)}),
    "no heads": ("d_sink", {"lse": (5, 0), "delta": (5, 0), "sink": (0,)}),
    "no slots": ("expand", {"indices": (TOKENS, 0)}),
    "no rows of kv": ("expand", {"kv": (0, D_QK)}),
    "no slots to collect": ("collect", {"indices": (TOKENS, 0), "slots": (TOKENS, 0), "wide": (0, D_QK)}),
}


@pytest.mark.parametrize("case", EMPTY)
def test_empty_inputs_give_zeros_or_no_keys(case: str) -> None:
    name, shapes = EMPTY[case]
    given = drawn()
    for each, shape in shapes.items():
        given[each] = given[each].new_full(shape, 1)
    made = called(name, given)
    if name == "expand":
        assert bool((made[0] == -1).all()) and not made[1].any()
    elif made is not None:
        assert not made.any()


def reshaped(*shape: int) -> Callable[[Tensor], object]:
    return lambda x: x.new_zeros(shape)


def repeated(*shape: int) -> Callable[[Tensor], object]:
    """A tensor of one element's memory."""
    return lambda x: x.new_zeros(1).expand(shape)


BAD: dict[str, tuple[str, str, Callable[[Any], object]]] = {
    "values: dtype": ("clear_", "values", Tensor.double),
    "values: strides": ("clear_", "values", lambda x: x.T),
    "values: alignment": ("clear_", "values", lambda x: x.flatten()[1:]),
    "values: layout": ("clear_", "values", Tensor.to_sparse),
    "wide: dtype": ("convert", "wide", Tensor.double),
    "wide: too many": ("convert", "wide", repeated(2**31, 2**11)),
    "dtype": ("convert", "dtype", lambda _: torch.float32),
    "lse: axes": ("d_sink", "lse", Tensor.flatten),
    "lse: tokens": ("d_sink", "delta", reshaped(4, 16)),
    "delta: dtype": ("d_sink", "delta", Tensor.half),
    "sink: heads": ("d_sink", "sink", reshaped(15)),
    "sink: device": ("d_sink", "sink", lambda x: x.to("meta")),
    "kv: dtype": ("expand", "kv", Tensor.float),
    "kv: columns": ("expand", "kv", reshaped(ROWS, 60)),
    "kv: axes": ("expand", "kv", reshaped(1, ROWS, D_QK)),
    "kv: rows": ("expand", "kv", repeated(2**31, D_QK)),
    "indices: dtype": ("expand", "indices", Tensor.long),
    "indices: too many": ("expand", "indices", repeated(2**16, 2**15)),
    "topk_length: tokens": ("expand", "topk_length", reshaped(4)),
    "topk_length: dtype": ("expand", "topk_length", Tensor.long),
    "indices: too many to collect": ("collect", "indices", repeated(2**16, 2**15)),
    "wide: slots": ("collect", "wide", reshaped(TOKENS * TOPK - 1, D_QK)),
    "wide: columns": ("collect", "wide", reshaped(TOKENS * TOPK, 1000)),
    "slots: shape": ("collect", "slots", reshaped(TOKENS, 7)),
    "s_kv: negative": ("collect", "s_kv", lambda _: -1),
    "s_kv: too many": ("collect", "s_kv", lambda _: 2**31),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_nothing_is_launched(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, argument, change = BAD[case]
    given = drawn()
    given[argument] = change(given[argument])
    monkeypatch.setattr(emulator, "launch_on", lambda *_, **__: pytest.fail("launched"))
    with pytest.raises(TileproofError) as error:
        called(name, given)
    assert error.value.where == argument and error.value.expected and error.value.found
    with FakeTensorMode():  # as torch.compile traces
        fake = {
            key: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            if isinstance(x, Tensor) and x.layout == torch.strided
            else x
            for key, x in given.items()
        }
        if case not in ("values: alignment", "values: layout"):
            with pytest.raises(TileproofError):
                called(name, fake)
