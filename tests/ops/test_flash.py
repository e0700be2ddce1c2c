"""FlashMLA's forward in place of the reference's: a module of its interface stands for the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from tileproof.ops import backends, flash, reference, sparse_mla
from tileproof.spec.machine.errors import TileproofError
from torch import Tensor


def stand_in(base: str, factor: float = 1.0) -> ModuleType:
    """`flash_mla_sparse_fwd` as its docstring has it: the sink is in o only, invalid indices are -1."""

    def flash_mla_sparse_fwd(
        q: Tensor, kv: Tensor, indices: Tensor, sm_scale: float, d_v: int, attn_sink: Any, topk_length: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        assert q.shape[1] % 64 == 0 and indices.shape[2] % 128 == 0 and d_v == 512
        assert indices.dtype == torch.int32 and kv.shape[1] == indices.shape[1] == 1
        assert int(indices.max()) < len(kv) and int(indices.min()) >= -1
        assert all(each.is_contiguous() for each in (q, kv, indices))
        given = q, kv[:, 0], indices[:, 0], topk_length
        o, _ = reference.forward(*given, attn_sink, sm_scale, d_v, "e")
        _, lse = reference.forward(*given, None, sm_scale, d_v, base)
        return o * factor, torch.zeros_like(lse), lse

    module = ModuleType("flash_mla")
    module.__spec__ = __spec__
    module.flash_mla_sparse_fwd = flash_mla_sparse_fwd  # type: ignore[attr-defined]
    return module


@pytest.fixture(params=["e", "2"])
def base(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The package is installed, and the backend `cuda` takes CPU tensors."""
    monkeypatch.setitem(sys.modules, "flash_mla", stand_in(request.param))
    monkeypatch.setattr(backends, "check_backend", lambda *_: None)
    flash.installed.cache_clear()
    yield request.param
    flash.installed.cache_clear()


@pytest.mark.parametrize("lse_base", ["e", "2"])
@pytest.mark.parametrize("with_sink", [False, True])
def test_o_and_lse_are_those_of_the_reference(base: str, with_sink: bool, lse_base: str) -> None:
    torch.manual_seed(0)
    q, kv = torch.randn(3, 70, 576).bfloat16(), torch.randn(50, 576).bfloat16()
    indices = torch.randint(-3, 55, (3, 40)) + torch.tensor([[0], [0], [2**40]])  # no key of the last token
    length, sink = torch.tensor([40, 7, 40]), torch.randn(70) * 3 if with_sink else None
    options = {"topk_length": length, "sink": sink, "lse_base": lse_base}
    o, lse = sparse_mla(q, kv, indices, **options, backend="cuda")  # type: ignore[arg-type]
    right, known = sparse_mla(q, kv, indices, **options, backend="reference")  # type: ignore[arg-type]
    assert torch.equal(o, right) and torch.allclose(lse, known, rtol=1e-5, atol=1e-5)
    assert bool(lse[2].isposinf().all()) != with_sink


def test_another_forward_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = stand_in("e", 1.5).flash_mla_sparse_fwd
    with pytest.raises(TileproofError, match="another forward") as error:
        flash._base(wrong, torch.device("cpu"))
    assert "flash_mla" in error.value.where


def test_what_it_does_not_compute_is_the_references(base: str) -> None:
    q = torch.zeros(1, 64, 576, dtype=torch.bfloat16)
    assert flash.runs("cuda", q, 512)
    assert not flash.runs("reference", q, 512) and not flash.runs("cuda", q.half(), 512)
    assert not flash.runs("cuda", q[..., :544], 512) and not flash.runs("cuda", q[:0], 512)
    assert not flash.runs("cuda", q, 256)
