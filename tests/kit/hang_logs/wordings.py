# ruff: noqa: E501 - log lines are kept whole
"""The same events in the words of many people: each wording takes what was said and the roles' order."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kit.pipelines import Said

Roles = tuple[str, ...]


@dataclass(frozen=True)
class Wording:
    """How someone prints. `label` is what a role is called; `open`: nothing tells roles apart, so that only
    "unclear" is an answer; `words`: the text of a --words file that the log needs.
    """

    line: Callable[[Said, Roles], list[str]]
    label: Callable[[str, Roles], str] = lambda role, roles: role
    open: bool = False
    words: str = ""
    copies: bool = False
    bytes: bool = True  # whether an arrival that announces bytes is told from one that does not


def _group(role: str, roles: Roles) -> int:
    return roles.index(role)


def _stage(one: Said) -> str:
    return f"[{one.stage}]" if one.stage is not None else ""


def _bracketed(one: Said, roles: Roles) -> list[str]:
    head = f"[WG{_group(one.who[0], roles)} CTA{one.who[1]}] " + (f"k={one.k} " if one.k is not None else "")
    name = f"bar_{one.barrier}{_stage(one)}"
    return [
        head
        + {
            "wait": f"step 4-pre: wait {name} phase={one.phase}",
            "done": f"step 4: {name} done",
            "arrive": f"arrive {name} tx posted" if one.tx else f"step 7: {name} arrive",
            "note": one.note,
        }[one.kind]
    ]


def _keys(one: Said, roles: Roles) -> list[str]:
    verb = {"wait": "WAIT_BEGIN", "done": "WAIT_DONE", "arrive": "ARRIVE_EXPECT_TX" if one.tx else "ARRIVE"}
    text = f"12:00:01.250 [DEBUG] CTA={one.who[1]} ROLE={one.who[0].upper()}"
    text += f" KB={one.k}" if one.k is not None else ""
    if one.kind == "note":
        return [f"{text} MSG={one.note}"]
    text += f" EVENT={verb[one.kind]} MBAR={one.barrier.upper()}"
    text += f" STAGE={one.stage}" if one.stage is not None else ""
    return [text + (f" PARITY={one.phase}" if one.phase is not None else "")]


def _prose(one: Said, roles: Roles) -> list[str]:
    text = f"[3/17] warpgroup {_group(one.who[0], roles)} of CTA {one.who[1]}"
    when = f" in k-block {one.k}" if one.k is not None else ""
    if one.kind == "note":
        return [f"{text} says: {one.note}{when}"]
    stage = f" stage {one.stage}" if one.stage is not None else ""
    verb = {"wait": "is waiting for", "done": "has passed", "arrive": "signalled"}[one.kind]
    phase = f" (phase {one.phase})" if one.phase is not None else ""
    tx = f" with {one.bytes} bytes expected" if one.tx else ""
    return [f"{text} {verb} the barrier {one.barrier}{stage}{phase}{when}{tx}"]


def _piped(one: Said, roles: Roles) -> list[str]:
    name = "".join(part.capitalize() for part in one.barrier.split("_"))
    verb = {
        "wait": "wait",
        "done": "wait done",
        "arrive": "expect_tx" if one.tx else "arrive",
        "note": one.note,
    }
    cells = [f"blk:{one.who[1]}", one.who[0]] + ([f"iter {one.k}"] if one.k is not None else [])
    cells += [] if one.kind == "note" else [f"{name}Bar{_stage(one)}"]
    cells += [verb[one.kind]] + ([f"parity:{one.phase}"] if one.phase is not None else [])
    return [" | ".join(cells)]


def _coloured(one: Said, roles: Roles) -> list[str]:
    name = f"mbar_{one.barrier}{_stage(one)}"
    verb = {"wait": f"before wait on {name}", "done": f"after wait on {name}", "note": one.note}
    verb["arrive"] = f"arrived on {name}" + (", bytes expected" if one.tx else "")
    text = f"\x1b[32m(T+0.013ms) warp {4 * _group(one.who[0], roles)} cta {one.who[1]} > {verb[one.kind]}"
    text += f", i={one.k}" if one.k is not None else ""
    return [text + (f", phase {one.phase}" if one.phase is not None else "") + "\x1b[0m"]


def _stacked(one: Said, roles: Roles) -> list[str]:
    """Several lines per event."""
    if one.kind == "note":
        return [f"[CTA {one.who[1]}][{one.who[0]}] {one.note}"]
    lines = [f"[CTA {one.who[1]}][{one.who[0]}]" + (f" k_block={one.k}" if one.k is not None else "")]
    verb = {
        "wait": "waiting",
        "done": "wait complete",
        "arrive": "arrived, tx posted" if one.tx else "arrived",
    }
    lines += [f"    state: {verb[one.kind]}", f"    barrier: {one.barrier}_bar"]
    lines += [f"    stage: {one.stage}"] if one.stage is not None else []
    return lines + ([f"    parity: {one.phase}"] if one.phase is not None else [])


def _terse(one: Said, roles: Roles) -> list[str]:
    text = f"CTA{one.who[1]}/{one.who[0].upper()}" + (f" k{one.k}" if one.k is not None else "")
    if one.kind == "note":
        return [f"{text} {one.note}"]
    verb = {"wait": "wait", "done": "wait ok", "arrive": "arrive tx" if one.tx else "arrive"}[one.kind]
    return [
        f"{text} {one.barrier}{_stage(one)}.{verb}" + (f" ph{one.phase}" if one.phase is not None else "")
    ]


def _pipeline(barrier: str) -> tuple[str, bool]:
    """The CUTLASS pipeline that a barrier belongs to, and whether it is its full one."""
    ends = ("full", "ready", "done")
    base, _, end = barrier.rpartition("_")
    return base, end in ends


def _cutlass(one: Said, roles: Roles) -> list[str]:
    """What prints around the calls of a PipelineState's pipeline look like."""
    head = f"[{one.who[0]} cta={one.who[1]}] "
    if one.kind == "note":
        return [head + one.note]
    base, full = _pipeline(one.barrier)
    call = {
        ("wait", False): "producer_acquire: acquiring", ("done", False): "producer_acquire: acquired",
        ("wait", True): "consumer_wait: waiting", ("done", True): "consumer_wait: done",
        ("arrive", True): "producer_commit", ("arrive", False): "consumer_release",
    }[one.kind, full]  # fmt: skip
    name = f"{base}_pipeline." if base else "pipeline."
    state = f" index={one.stage if one.stage is not None else 0}"
    state += f" phase={one.phase}" if one.phase is not None else ""
    return [head + name + call + state + (f" count={one.k}" if one.k is not None else "")]


def _tuples(one: Said, roles: Roles) -> list[str]:
    """Block and thread as CUTLASS's `block/thread` prints show them."""
    text = f"({one.who[1]},0,0)/({128 * _group(one.who[0], roles)},0,0) "
    if one.kind == "note":
        return [text + one.note]
    verb = {"wait": "wait", "done": "done", "arrive": "arrive"}[one.kind]
    text += f"{verb} {one.barrier}{_stage(one)}"
    text += f" k={one.k}" if one.k is not None else ""
    return [text + (f" ph={one.phase}" if one.phase is not None else "")]


def _threads(one: Said, roles: Roles) -> list[str]:
    text = f"block={one.who[1]} thread={128 * _group(one.who[0], roles)}"
    if one.kind == "note":
        return [f"{text} {one.note}"]
    verb = {"wait": "waiting on", "done": "passed", "arrive": "arrived on"}[one.kind]
    text += f" iter={one.k}" if one.k is not None else ""
    return [
        f"{text} {verb} {one.barrier}{_stage(one)}"
        + (f" parity={one.phase}" if one.phase is not None else "")
    ]


def _json(one: Said, roles: Roles) -> list[str]:
    row: dict[str, Any] = {"ts": 17.25, "cta": one.who[1], "role": one.who[0], "k": one.k}
    if one.kind == "note":
        return [json.dumps({**row, "event": "note", "text": one.note})]
    event = {"wait": "wait_begin", "done": "wait_done", "arrive": "arrive", "copy": "copy"}[one.kind]
    row |= {"event": event, "barrier": one.barrier, "stage": one.stage, "phase": one.phase}
    if one.bytes:
        row["expect_bytes" if one.kind == "arrive" else "bytes"] = one.bytes
    return [json.dumps({key: value for key, value in row.items() if value is not None})]


def _json_message(one: Said, roles: Roles) -> list[str]:
    name = f"bar_{one.barrier}{_stage(one)}"
    verb = {"wait": f"wait {name} phase={one.phase}", "done": f"{name} wait done", "arrive": f"{name} arrive"}
    text = f"[WG {_group(one.who[0], roles)} CTA {one.who[1]}] " + (
        f"k={one.k} " if one.k is not None else ""
    )
    message = text + (one.note if one.kind == "note" else verb[one.kind])
    return [
        json.dumps(
            {"time": "2026-01-05T10:00:00Z", "level": "info", "stream": "stdout", "log": message + "\n"}
        )
    ]


def _german(one: Said, roles: Roles) -> list[str]:
    text = f"[WG{_group(one.who[0], roles)} CTA{one.who[1]}] " + (f"k={one.k} " if one.k is not None else "")
    if one.kind == "note":
        return [text + "rechnet"]
    verb = {"wait": "wartet auf", "done": "weiter nach", "arrive": "meldet"}[one.kind]
    return [
        f"{text}{verb} bar_{one.barrier}{_stage(one)}"
        + (f" Phase={one.phase}" if one.phase is not None else "")
    ]


def _chinese(one: Said, roles: Roles) -> list[str]:
    text = f"[WG{_group(one.who[0], roles)} CTA{one.who[1]}] " + (f"k={one.k} " if one.k is not None else "")
    if one.kind == "note":
        return [text + "开始"]
    verb = {"wait": "等待", "done": "通过", "arrive": "到达"}[one.kind]
    return [
        f"{text}{verb} bar_{one.barrier}{_stage(one)}"
        + (f" phase={one.phase}" if one.phase is not None else "")
    ]


def _bytes(one: Said, roles: Roles) -> list[str]:
    """Numbers of bytes, and the copies, are printed."""
    text = f"cta {one.who[1]} {one.who[0]}" + (f" k={one.k}" if one.k is not None else "") + ": "
    if one.kind == "note":
        return [text + one.note]
    name = f"{one.barrier}{_stage(one)}"
    verb = {
        "wait": f"wait {name} phase={one.phase}", "done": f"wait done {name} phase={one.phase}",
        "arrive": f"arrive_expect_tx {name} bytes={one.bytes}" if one.tx else f"arrive {name}",
        "copy": f"tma issued {name} bytes={one.bytes}",
    }  # fmt: skip
    return [text + verb[one.kind]]


def _about(one: Said, roles: Roles) -> list[str]:
    text = f"#{one.who[0]}@{one.who[1]}: cta_rank={one.who[1]}" + (
        f" it={one.k}" if one.k is not None else ""
    )
    if one.kind == "note":
        return [f"{text} {one.note}"]
    phase = f", phase {one.phase}" if one.phase is not None else ""
    verb = {"wait": "about to wait for", "done": "got", "arrive": "notify"}[one.kind]
    return [f"{text} {verb} {one.barrier}{_stage(one)}{phase}"]


def _opaque(one: Said, roles: Roles) -> list[str]:
    """Codes that nobody but their author can read."""
    code = {"wait": "W", "done": "D", "arrive": "A", "note": "N"}[one.kind]
    return [
        f"<<{17 * one.who[1] + _group(one.who[0], roles):02x}>> {code} {one.barrier[:2]} {one.stage or 0} {one.k}"
    ]


def _numbers(one: Said, roles: Roles) -> list[str]:
    """The event is clear and who it is of is not."""
    if one.kind == "note":
        return [one.note]
    verb = {"wait": "wait", "done": "done", "arrive": "arrive"}[one.kind]
    return [f"{one.who[1]} {_group(one.who[0], roles)} {verb} {one.barrier}{_stage(one)}"]


def _wg(role: str, roles: Roles) -> str:
    return f"WG{_group(role, roles)}"


def _warp(role: str, roles: Roles) -> str:
    return f"warp {4 * _group(role, roles)}"


GERMAN = "wait: wartet\ndone: weiter\narrive: meldet\nphase: Phase\n"
CHINESE = "wait: 等待\ndone: 通过\narrive: 到达\n"
WORDINGS: dict[str, Wording] = {
    "bracketed": Wording(_bracketed, _wg),
    "keys": Wording(_keys),
    "prose": Wording(_prose, _wg),
    "piped": Wording(_piped),
    "coloured": Wording(_coloured, _warp),
    "stacked": Wording(_stacked),
    "terse": Wording(_terse),
    "cutlass": Wording(_cutlass, bytes=False),
    "tuples": Wording(_tuples, _warp, bytes=False),
    "threads": Wording(_threads, _warp, bytes=False),
    "json": Wording(_json, copies=True),
    "json-message": Wording(_json_message, _wg, bytes=False),
    "german": Wording(_german, _wg, words=GERMAN, bytes=False),
    "chinese": Wording(_chinese, _wg, words=CHINESE, bytes=False),
    "bytes": Wording(_bytes, copies=True),
    "about": Wording(_about, bytes=False),
    "opaque": Wording(_opaque, open=True),
    "numbers": Wording(_numbers, open=True),
}


def lines(said: tuple[Said, ...], wording: Wording, roles: Roles) -> list[list[str]]:
    """The lines of each event."""
    return [wording.line(one, roles) for one in said if one.kind != "copy" or wording.copies]


# ---- of the small kernels of tests/kit/pipelines.py: a warpgroup is at its number

ROLES: Roles = ("softmax", "load", "", "mma")
SEVEN = ("bracketed", "keys", "prose", "piped", "coloured", "stacked", "terse")
RANKED = {"coloured": "[rank0]: "}  # what a launcher puts before each line
HOST = ("ninja: Entering directory `build'", "CUDA Capability: (10, 0)", "=" * 40, "", "Launching kernel...")


def label(wording: str, role: str) -> str:
    """What a wording calls a role of theirs."""
    return WORDINGS[wording].label(role, ROLES)


def log(said: list[Said], wording: str) -> str:
    """The whole log of one, with the host's lines around it."""
    made = (line for one in said for line in WORDINGS[wording].line(one, ROLES))
    return "\n".join([*HOST, *(RANKED.get(wording, "") + line for line in made)]) + "\n"
