# ruff: noqa: E501 - case tables are kept whole
"""The instruction table against ptxas: what one takes the other takes, for generated spellings, both ways.

Every spelling is assembled live (without code generation a process takes thousands of lines in well under a
second). EMULATOR_SPELLINGS sets how many of each row (default 60).
"""

from __future__ import annotations

import os
import random
import re

import pytest
from tileproof.emulator import Module, PtxError, UnsupportedInstruction, isa, registry
from tileproof.emulator.spelling import SPACE, TYPE, Target

from tests.kit.ptx import HEADER
from tests.kit.ptxas import refusals
from tests.kit.spelling_operands import BEFORE, declarations, operands

assert isa
COUNT = int(os.environ.get("EMULATOR_SPELLINGS", "60"))
SM100A, SM90A = Target.of("sm_100a", "9.0"), Target.of("sm_90a", "9.0")
ROWS = [row for row in registry.ROWS if not row.spellings.any]
TARGETS = [
    Target.of(name, version)
    for name, version in (
        ("sm_80", "9.0"), ("sm_90", "9.0"), ("sm_90a", "9.0"), ("sm_100", "9.0"), ("sm_100a", "9.0"), ("sm_100f", "9.0"), ("sm_103", "9.0"), ("sm_103a", "9.0"), ("sm_120a", "9.0"),
        ("sm_80", "7.0"), ("sm_80", "7.4"), ("sm_90", "7.8"), ("sm_90a", "8.0"), ("sm_90a", "8.3"), ("sm_100a", "8.6"), ("sm_100a", "8.7"), ("sm_100a", "8.8"), ("sm_100f", "8.8"),
    )
]  # fmt: skip


def line(opcode: str) -> str:
    given = operands(opcode)
    assert given is not None, f"spelling_operands.py has no operands for {opcode}"
    return f"{opcode} {given};"


def sample(row: registry.Row, count: int = COUNT) -> list[str]:
    return [row.base + spelling for spelling, _ in row.spellings.sample(count, seed=len(row.base))]


def taken(opcode: str, target: Target) -> bool:
    """Whether the table has this spelling for this target, executed or not."""
    spelled = registry.spell(opcode, target)
    return spelled is not None and not spelled.requires


def disagreements(opcodes: list[str], target: Target) -> list[str]:
    """What the table and ptxas do not judge alike."""
    lines = {opcode: line(opcode) for opcode in opcodes}
    why = refusals(list(lines.values()), target)
    out = []
    for opcode, text in lines.items():
        if taken(opcode, target) == (text in why):
            out.append(
                f"{opcode}: " + (f"ptxas refuses it ({why[text]})" if text in why else "ptxas takes it")
            )
    return out


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_row_under_every_target(target: Target) -> None:
    """A form with its requirement is taken exactly where ptxas takes it."""
    opcodes = [opcode for row in ROWS for opcode in sample(row)]
    assert len(opcodes) > 500
    found = disagreements(opcodes, target)
    # The ISA has .shared::cta from 7.8; ptxas asks for that of every instruction but cp.async.
    found = [text for text in found if not (text.startswith("cp.async.c") and target.version < (7, 8))]
    assert not found, f"{len(found)} spellings\n" + "\n".join(found[:60])


@pytest.mark.parametrize(
    "opcode", [
        "vote.all.sync.pred", "vote.ballot.sync.b32", "shfl.idx.sync.b32", "shfl.b32.down.sync", "redux.add.sync.s32", "redux.max.NaN.sync.f32",
        "match.sync.any.b64", "match.b32.all.sync", "add.s32.cc", "sub.u64.cc", "mad.hi.s32.cc", "ldmatrix.m8n8.x4.sync.aligned.b16",
        "ldmatrix.aligned.sync.x2.trans.m8n8.shared.b16", "stmatrix.m8n8.aligned.x2.b16.sync", "movmatrix.m8n8.trans.b16.aligned.sync",
        "mma.m16n8k16.row.col.f32.f16.f16.f32.sync.aligned", "mma.aligned.m8n8k4.row.sync.col.f64.f64.f64.f64",
    ]
)  # fmt: skip
def test_words_that_the_isa_prints_elsewhere(opcode: str) -> None:
    """ptxas takes them in this order, and the row that executes the ISA's order executes it too."""
    assert not disagreements([opcode], SM100A)
    spelled = registry.spell(opcode, SM100A)
    assert spelled is not None and spelled.row.decode is not None
    words = spelled.opcode.split(".")
    assert sorted(words) == sorted(opcode.split(".")) and words[1:] != opcode.split(".")[1:]


def mutations(row: registry.Row, rng: random.Random, words: list[str], count: int) -> list[str]:
    """Spellings of the row with words permuted, dropped, doubled, replaced or moved."""
    out = []
    spellings = sample(row)
    head = row.base.count(".") + 1
    for _ in range(count):
        spelled = rng.choice(spellings).split(".")
        base, rest = spelled[:head], spelled[head:]
        action = rng.randrange(5)
        if action == 0:
            rng.shuffle(rest)
        elif action == 1 and rest:
            del rest[rng.randrange(len(rest))]
        elif action == 2 and rest:
            rest.insert(rng.randrange(len(rest) + 1), rng.choice(rest))
        elif action == 3 and rest:
            rest[rng.randrange(len(rest))] = rng.choice(words)
        else:
            rest.insert(rng.randrange(len(rest) + 1), rng.choice(words))
        out.append(".".join(base + rest))
    return list(dict.fromkeys(out))


def mutants(seed: int, each: int) -> list[str]:
    rng = random.Random(seed)
    vocabulary = {
        w for row in ROWS for opcode in sample(row, 40) for w in opcode.split(".")[row.base.count(".") + 1 :]
    }
    everything = sorted(vocabulary)
    out = []
    for row in ROWS:
        own = sorted({w for opcode in sample(row) for w in opcode.split(".")[row.base.count(".") + 1 :]})
        out += mutations(row, rng, own + rng.sample(everything, 12), each)
    return [opcode for opcode in dict.fromkeys(out) if _has_operands(opcode)]


def _has_operands(opcode: str) -> bool:
    """Operands are known, and no row of whole refusal takes the spelling without looking."""
    rows = registry.rows_of(opcode)
    try:
        return operands(opcode) is not None and not any(row.spellings.any for row in rows)
    except (ValueError, AttributeError, IndexError):
        return False


# Words that ptxas passes over where they mean nothing.
_PASSED_OVER = (
    "all",
    "any",
    "row",
    "col",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "finite",
    "infinite",
    "number",
    "notanumber",
    "normal",
    "subnormal",
    # The fields of tensormap.replace.
    *("global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype"),
    *("interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"),
    "sync_restrict::shared::cta",
    "sync_restrict::shared::cluster",
)


def surplus(opcode: str) -> bool:
    """Whether a word is there once too often: ptxas passes over many of these, the table refuses them all."""
    words = opcode.split(".")
    return any(
        taken(".".join(words[:at] + words[at + 1 :]), SM100A)
        for at in range(1, len(words))
        if TYPE.match(words[at])
        or SPACE.match(words[at])
        or words[at] in _PASSED_OVER
        or words[at] in words[:at]
        or words[at] in words[at + 1 :]
    )


# What ptxas takes beyond the ISA: vectors of eight small elements (9.7.9.8 has them of 32 bits), a number of
# matrices that stmatrix does not have (9.7.14.5.16), a vector where wmma stores a fragment (9.7.14.4.4), f32
# accumulators of integers where wmma loads them (9.7.14.4.3), any rounding of fma.oob (9.7.4.4).
_BEYOND_THE_ISA = re.compile(
    r"(ld|st)\b.*\.v8\b.*\.[busf](8|16)$|(st|ld)matrix\b.*\.x(8|16|32|64|128)\b|wmma\..*\.v[248]\b|"
    r"wmma\.load\.c\b.*\.m8n8k(32|128)\.f32$|fma\.r[zmp]\.oob\b"
)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_spellings(seed: int) -> None:
    """A word moved, dropped, doubled or replaced: the table refuses what ptxas refuses and knows what it takes."""
    opcodes = mutants(seed, COUNT // 3)
    found = [
        text
        for text in disagreements(opcodes, SM100A)
        if "ptxas refuses" in text
        or not (surplus(spelled := text.split(": ptxas")[0]) or _BEYOND_THE_ISA.match(spelled))
    ]
    assert not found, f"{len(found)} of {len(opcodes)}\n" + "\n".join(found[:80])


def test_the_mutants_are_of_both_kinds() -> None:
    opcodes = mutants(7, 10)
    accepted = sum(taken(opcode, SM100A) for opcode in opcodes)
    assert accepted > 50 and len(opcodes) - accepted > 50


@pytest.mark.parametrize("target", [SM100A, SM90A], ids=str)
def test_the_decoders_take_what_their_forms_say(target: Target) -> None:
    """No executed row lists a spelling that its decoder refuses."""
    refused = []
    for row in ROWS:
        if row.decode is None or row.base in ("call", "brx"):
            continue
        for opcode in sample(row, 20):
            if not taken(opcode, target) or "[slot]" in line(opcode):  # a call's parameters come with calls
                continue
            header = HEADER.replace("8.8", "9.0").replace("sm_100a", f"sm_{target.number}a")
            body = f"{header}{BEFORE}.visible .entry k(.param .align 16 .b8 whole[64]) {{ {declarations(target)}\n{line(opcode)}\nEND: ret; }}"
            try:
                Module.from_ptx(body).decode("k")
            except (UnsupportedInstruction, PtxError) as error:
                refused.append(f"{opcode}: {error.what}")
    assert not refused, f"{len(refused)}\n" + "\n".join(refused[:40])


def test_what_hopper_has_and_blackwell_lacks_is_wgmma() -> None:
    """As far as forms go, whose targets are compared with ptxas above; all of them are executed."""
    rows = [row for row in ROWS if any(taken(o, SM90A) and not taken(o, SM100A) for o in sample(row))]
    assert {row.base for row in rows} == {row.base for row in ROWS if row.group == "wgmma"}
    assert len(rows) == 5 and all(row.decode for row in rows)


def test_a_wrong_form_is_noticed() -> None:
    """The comparison finds a form that ptxas does not have, and one that the table lacks."""
    row = registry.Row("ex2", "logic", ".exact.f32", "modelled", "9.7", "", lambda *_: None)
    rows = registry._BY_BASE["ex2"]
    try:
        registry._BY_BASE["ex2"] = [row]
        registry.spell.cache_clear()
        assert [
            text.split(":")[0] for text in disagreements(["ex2.exact.f32", "ex2.approx.f32"], SM100A)
        ] == ["ex2.exact.f32", "ex2.approx.f32"]
    finally:
        registry._BY_BASE["ex2"] = rows
        registry.spell.cache_clear()
