"""Calls with the names and axes of other projects: FlashMLA, cudnn-frontend, TileLang.

The table is `CONVENTIONS` of `spec/problems/sparse_mla_bwd/tensors.py`, which `tileproof tensors` reads too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileproof.ops.api import sparse_mla_backward
from tileproof.ops.checks import check_choice
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.spec.problems.sparse_mla_bwd.tensors import CONVENTIONS, FORMS
from torch import Tensor

_INPUTS = tuple(form.name for form in FORMS if form.role == "input")


def backward_by_convention(
    convention: str, tensors: Mapping[str, Tensor], *, lse_base: str = "", **options: Json
) -> dict[str, Tensor]:
    """Return dq, dkv and, with a sink, d_sink, by the convention's names and with its axes.

    `tensors`: the inputs by the convention's names, and `sink`; dtypes as of `sparse_mla_backward`, shapes
    with the axes of the convention ([names](operator.md#names-and-axes-of-other-projects)). `lse_base`: over
    the convention's; needed where it has none. `options`: other keywords of `sparse_mla_backward`.
    TileproofError names what is missing, unknown or has another axis.
    """
    known = {rules.name: rules for rules in CONVENTIONS}
    check_choice("convention", convention, tuple(known))
    rules = known[convention]
    check_choice("lse_base", lse_base or rules.lse_base, ("e", "2"))
    names = {rules.names[name]: name for name in _INPUTS} | {"sink": "sink"}
    given: UncheckedObject = {}
    for theirs, tensor in tensors.items():
        if theirs not in names:
            raise TileproofError(
                f"the convention {convention} has no such tensor", where=theirs, expected=", ".join(names),
                found=theirs, do=did_you_mean(theirs, names),
            )  # fmt: skip
        given[names[theirs]] = _without_unit_axis(theirs, tensor, rules.unit_axes.get(names[theirs]))
    missing = [theirs for theirs, name in names.items() if name not in (*given, "topk_length", "sink")]
    if missing:
        raise TileproofError(
            "a tensor is missing", where=missing[0], expected=", ".join(names), found=", ".join(tensors)
        )
    dq, dkv, d_sink = sparse_mla_backward(**given, lse_base=lse_base or rules.lse_base, **options)
    at = rules.unit_axes.get("dkv")
    if at is not None:
        dkv = dkv.unsqueeze(at)
    made = {rules.names["dq"]: dq, rules.names["dkv"]: dkv}
    return made if d_sink is None else made | {"d_sink": d_sink}


def _without_unit_axis(name: str, tensor: Tensor, at: int | None) -> Tensor:
    if at is None:
        return tensor
    if not isinstance(tensor, Tensor) or tensor.dim() < 2 or tensor.shape[at] != 1:
        raise TileproofError(
            f"{name} has the wrong shape", where=name, expected=f"length 1 of axis {at} (one head of kv)",
            found=str(list(getattr(tensor, "shape", []))),
        )  # fmt: skip
    return tensor.squeeze(at)
