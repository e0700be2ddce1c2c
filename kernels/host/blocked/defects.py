"""Planted defects of the blocked implementation: at least one per stage."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect

MODULE = "tileproof.kernels.host.blocked.kernel"


def _planted(
    id_: str,
    title: str,
    text: str,
    instead: str,
    stage: str,
    place: str = "every tile",
    target: str = "blocked",
) -> PlantedDefect:
    edit = Edit(Place(text, MODULE), instead)
    return PlantedDefect(f"blocked-{id_}", title, "", target, (edit,), InStage(stage, place))


DEFECTS: tuple[PlantedDefect, ...] = (
    _planted("delta", "delta is the sum of o * o", "(o * dO).sum(dim=-1)", "(o * o).sum(dim=-1)", "delta"),
    _planted("p-block", "keys of the block before", "q[i] @ k[j].T", "q[i] @ k.roll(1, 0)[j].T", "P"),
    _planted("s-lse", "lse is not subtracted", "(lse[i] * LOG2_E)[:, None]", "0.0", "S"),
    _planted(
        "s-base", "lse is taken as base 2", "(lse[i] * LOG2_E)[:, None]", "lse[i][:, None]", "S"
    ),
    _planted("s-mask", "the mask is skipped", "seen[i, j], torch", "seen[i, j] | True, torch", "S"),
    _planted(
        "s-diagonal", "the causal limit is one key too far", "torch.tensor(seen), pairs",
        "torch.tensor(seen) | torch.tensor(seen).roll(1, 1) & (torch.arange(sequence.n) > 0), pairs", "S",
    ),
    _planted("s-scale", "sm_scale is skipped", "P * (scale * LOG2_E)", "P * LOG2_E", "S"),
    _planted("s-natural", "2^x is e^(x ln 2)", "torch.exp2(exponent)",
        "torch.exp(exponent * 0.6931471805599453)", "S", "keys whose exponent is -lse"),
    _planted("s-bias", "bias counts in base 2", "bias[i, j] * LOG2_E", "bias[i, j]", "S"),
    _planted("d-kept", "nothing is dropped", "torch.where(kept[i, j], S * rescale, 0.0)", "S * rescale", "D"),
    _planted("d-rescale", "what is kept is not scaled", "kept[i, j], S * rescale", "kept[i, j], S", "D"),
    _planted("d-narrow", "D is cut off, not rounded", "narrow(D), narrow(dS)",
        "(D.view(torch.int32) & -65536).view(torch.float32), narrow(dS)", "D"),
    _planted("dd-half", "half of the columns is lost", "dO[i] @ v[j].T", "dO[i, ::2] @ v[j, ::2].T", "dD"),
    _planted("dp-kept", "dropout is skipped", "kept[i, j], dD * rescale", "kept[i, j] | True, dD", "dP"),
    _planted("ds-delta", "delta is not subtracted", "S * (dP - delta[i][:, None])", "S * dP", "dS"),
    _planted("ds-scale", "sm_scale is skipped", "gradient * scale", "gradient", "dS"),
    _planted("db-scale", "the bias gradient is scaled", "dB[i, j] = gradient", "dB[i, j] = dS", "dB"),
    _planted("dq-last", "only the last key block counts", "parts[split, i] +=", "parts[split, i] =", "dQ"),
    _planted("dk-heads", "only the last block counts", "dK[j] +=", "dK[j] =", "dK"),
    _planted("dv-s", "S instead of D", "dV[j] += D_operand.T", "dV[j] += narrow(S).T", "dV"),
    _planted("keys-4096", "keys beyond 4,096 are skipped", "for query_block, key_block in pairs:",
        "for query_block, key_block in [x for x in pairs if x[1] * size[1] < 4096]:", "P", "keys beyond"),
    _planted("queries-8192", "queries beyond 8,192 are skipped", "for query_block, key_block in pairs:",
        "for query_block, key_block in [x for x in pairs if x[0] * size[0] < 8192]:", "P", "queries beyond"),
    _planted("dv-last", "only the last block counts", "dV[j] +=", "dV[j] =", "dV"),
)  # fmt: skip


def _of_splits(id_: str, title: str, text: str, instead: str, stage: str, place: str) -> PlantedDefect:
    return _planted(f"split-{id_}", title, text, instead, stage, place, "blocked-split")


OF_SPLITS: tuple[PlantedDefect, ...] = (
    _of_splits("lost", "the last split's part is lost", "parts[1 : p.splits]:", "parts[1 : p.splits - 1]:",
        "dQ", "where the last split has a part"),
    _of_splits("twice", "a part is added twice", "dQ = dQ + part", "dQ = dQ + part + part", "dQ",
        "where a split behind the first has a part"),
    _of_splits("overlap", "runs overlap by one key block",
        "range(split * run, (split + 1) * run)", "range(split * run - 1, (split + 1) * run)", "dQ_2",
        "every tile of a split behind the first"),
    _of_splits("gap", "each run's last key block is in none",
        "range(split * run, (split + 1) * run)", "range(split * run, (split + 1) * run - 1)", "dQ_1",
        "every tile of a split with that block"),
)  # fmt: skip
