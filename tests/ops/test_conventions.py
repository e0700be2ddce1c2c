"""Calls with the names and axes of FlashMLA, cudnn-frontend and TileLang: the same bits as this project's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tileproof.ops import backward_by_convention
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LN_2
from tileproof.spec.problems.sparse_mla_bwd.tensors import CONVENTIONS

from tests.kit.ops_calls import small, sparse_mla_backward

# Written out here, not read from the table: (inputs of the call from this project's, results by their names).
CALLS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "tileproof": (
        lambda x: {**x, "lse": x["lse"] / LN_2},
        lambda x: (x["dq"], x["dkv"], x["d_sink"]),
        {},
    ),
    "flashmla": (
        lambda x: {
            "q": x["q"],
            "kv": x["kv"][:, None],
            "out": x["o"],
            "d_out": x["dO"],
            "lse": x["lse"],
            "indices": x["indices"][:, None],
            "topk_length": x["topk_length"],
            "sink": x["sink"],
        },
        lambda x: (x["d_q"], x["d_kv"][:, 0], x["d_sink"]),
        {"lse_base": "e"},
    ),
    "cudnn-frontend": (
        lambda x: {
            "q": x["q"],
            "kv": x["kv"],
            "out": x["o"],
            "dout": x["dO"],
            "lse": x["lse"],
            "topk_idxs": x["indices"],
            "topk_length": x["topk_length"],
            "sink": x["sink"],
        },
        lambda x: (x["dq"], x["dkv"], x["d_sink"]),
        {},
    ),
    "tilelang": (
        lambda x: {
            "q": x["q"][None],
            "kv": x["kv"][None, :, None],
            "o": x["o"][None],
            "do": x["dO"][None],
            "lse": x["lse"][None] / LN_2,
            "indices": x["indices"][None, :, None],
            "topk_length": x["topk_length"][None],
            "sink": x["sink"],
        },
        lambda x: (x["dq"][0], x["dkv"][0, :, 0], x["d_sink"]),
        {},
    ),
}
NAMES = ("q", "kv", "o", "dO", "lse", "indices", "topk_length", "sink")


def tensors() -> dict[str, torch.Tensor]:
    """lse is natural."""
    given = small().tensors()
    return {name: given[name] for name in NAMES}


def test_every_convention_of_the_table_is_called() -> None:
    assert set(CALLS) == {rules.name for rules in CONVENTIONS}


@pytest.mark.parametrize("backend", ["reference", "emulator"])
@pytest.mark.parametrize("name", CALLS)
def test_a_convention_is_the_same_call(name: str, backend: str) -> None:
    given, (to, back, options) = tensors(), CALLS[name]
    theirs = to(given)
    base = "2" if name in ("tileproof", "tilelang") else "e"
    own = {**given, "lse": theirs["lse"].reshape(given["lse"].shape)}
    right = sparse_mla_backward(**own, lse_base=base, backend=backend)
    made = backward_by_convention(name, theirs, backend=backend, **options)
    assert len(made) == 3
    assert all(torch.equal(a, b) for a, b in zip(right, back(made), strict=True))


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("flashmla", lambda x: x, "lse_base"),  # its base has changed: it is asked for
        ("flash-mla", lambda x: x, "convention"),
        ("cudnn-frontend", lambda x: {**x, "indices": x.pop("topk_idxs")}, "indices"),
        ("cudnn-frontend", lambda x: {k: v for k, v in x.items() if k != "dout"}, "dout"),
        ("tilelang", lambda x: {**x, "kv": x["kv"].expand(1, 40, 2, 576)}, "kv"),
        ("tilelang", lambda x: {**x, "indices": x["indices"][0, 0, 0]}, "indices"),
    ],
)
def test_what_a_convention_does_not_have_is_named(name: str, change: Any, where: str) -> None:
    to = CALLS.get(name, CALLS["flashmla"])[0]
    with pytest.raises(TileproofError) as caught:
        backward_by_convention(name, change(to(tensors())))
    assert caught.value.where == where and caught.value.expected and caught.value.found
