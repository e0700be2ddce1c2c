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


def _stage(said: Said) -> str:
    return f"[{said.stage}]" if said.stage is not None else ""


def _bracketed(said: Said, roles: Roles) -> list[str]:
    head = f"[WG{_group(said.who[0], roles)} CTA{said.who[1]}] " + (
        f"k={said.k} " if said.k is not None else ""
    )
    name = f"bar_{said.barrier}{_stage(said)}"
    return [
        head
        + {
            "wait": f"step 4-pre: wait {name} phase={said.phase}",
            "done": f"step 4: {name} done",
            "arrive": f"arrive {name} tx posted" if said.tx else f"step 7: {name} arrive",
            "note": said.note,
        }[said.kind]
    ]


def _keys(said: Said, roles: Roles) -> list[str]:
    verb = {"wait": "WAIT_BEGIN", "done": "WAIT_DONE", "arrive": "ARRIVE_EXPECT_TX" if said.tx else "ARRIVE"}
    text = f"12:00:01.250 [DEBUG] CTA={said.who[1]} ROLE={said.who[0].upper()}"
    text += f" KB={said.k}" if said.k is not None else ""
    if said.kind == "note":
        return [f"{text} MSG={said.note}"]
    text += f" EVENT={verb[said.kind]} MBAR={said.barrier.upper()}"
    text += f" STAGE={said.stage}" if said.stage is not None else ""
    return [text + (f" PARITY={said.phase}" if said.phase is not None else "")]


def _prose(said: Said, roles: Roles) -> list[str]:
    text = f"[3/17] warpgroup {_group(said.who[0], roles)} of CTA {said.who[1]}"
    when = f" in k-block {said.k}" if said.k is not None else ""
    if said.kind == "note":
        return [f"{text} says: {said.note}{when}"]
    stage = f" stage {said.stage}" if said.stage is not None else ""
    verb = {"wait": "is waiting for", "done": "has passed", "arrive": "signalled"}[said.kind]
    phase = f" (phase {said.phase})" if said.phase is not None else ""
    tx = f" with {said.bytes} bytes expected" if said.tx else ""
    return [f"{text} {verb} the barrier {said.barrier}{stage}{phase}{when}{tx}"]


def _piped(said: Said, roles: Roles) -> list[str]:
    name = "".join(part.capitalize() for part in said.barrier.split("_"))
    verb = {
        "wait": "wait",
        "done": "wait done",
        "arrive": "expect_tx" if said.tx else "arrive",
        "note": said.note,
    }
    cells = [f"blk:{said.who[1]}", said.who[0]] + ([f"iter {said.k}"] if said.k is not None else [])
    cells += [] if said.kind == "note" else [f"{name}Bar{_stage(said)}"]
    cells += [verb[said.kind]] + ([f"parity:{said.phase}"] if said.phase is not None else [])
    return [" | ".join(cells)]


def _coloured(said: Said, roles: Roles) -> list[str]:
    name = f"mbar_{said.barrier}{_stage(said)}"
    verb = {"wait": f"before wait on {name}", "done": f"after wait on {name}", "note": said.note}
    verb["arrive"] = f"arrived on {name}" + (", bytes expected" if said.tx else "")
    text = f"\x1b[32m(T+0.013ms) warp {4 * _group(said.who[0], roles)} cta {said.who[1]} > {verb[said.kind]}"
    text += f", i={said.k}" if said.k is not None else ""
    return [text + (f", phase {said.phase}" if said.phase is not None else "") + "\x1b[0m"]


def _stacked(said: Said, roles: Roles) -> list[str]:
    """Several lines per event."""
    if said.kind == "note":
        return [f"[CTA {said.who[1]}][{said.who[0]}] {said.note}"]
    lines = [f"[CTA {said.who[1]}][{said.who[0]}]" + (f" k_block={said.k}" if said.k is not None else "")]
    verb = {
        "wait": "waiting",
        "done": "wait complete",
        "arrive": "arrived, tx posted" if said.tx else "arrived",
    }
    lines += [f"    state: {verb[said.kind]}", f"    barrier: {said.barrier}_bar"]
    lines += [f"    stage: {said.stage}"] if said.stage is not None else []
    return lines + ([f"    parity: {said.phase}"] if said.phase is not None else [])


def _terse(said: Said, roles: Roles) -> list[str]:
    text = f"CTA{said.who[1]}/{said.who[0].upper()}" + (f" k{said.k}" if said.k is not None else "")
    if said.kind == "note":
        return [f"{text} {said.note}"]
    verb = {"wait": "wait", "done": "wait ok", "arrive": "arrive tx" if said.tx else "arrive"}[said.kind]
    return [
        f"{text} {said.barrier}{_stage(said)}.{verb}" + (f" ph{said.phase}" if said.phase is not None else "")
    ]


def _pipeline(barrier: str) -> tuple[str, bool]:
    """The CUTLASS pipeline that a barrier belongs to, and whether it is its full one."""
    ends = ("full", "ready", "done")
    base, _, end = barrier.rpartition("_")
    return base, end in ends


def _cutlass(said: Said, roles: Roles) -> list[str]:
    """What prints around the calls of a PipelineState's pipeline look like."""
    head = f"[{said.who[0]} cta={said.who[1]}] "
    if said.kind == "note":
        return [head + said.note]
    base, full = _pipeline(said.barrier)
    call = {
        ("wait", False): "producer_acquire: acquiring", ("done", False): "producer_acquire: acquired",
        ("wait", True): "consumer_wait: waiting", ("done", True): "consumer_wait: done",
        ("arrive", True): "producer_commit", ("arrive", False): "consumer_release",
    }[said.kind, full]  # fmt: skip
    name = f"{base}_pipeline." if base else "pipeline."
    state = f" index={said.stage if said.stage is not None else 0}"
    state += f" phase={said.phase}" if said.phase is not None else ""
    return [head + name + call + state + (f" count={said.k}" if said.k is not None else "")]


def _tuples(said: Said, roles: Roles) -> list[str]:
    """Block and thread as CUTLASS's `block/thread` prints show them."""
    text = f"({said.who[1]},0,0)/({128 * _group(said.who[0], roles)},0,0) "
    if said.kind == "note":
        return [text + said.note]
    verb = {"wait": "wait", "done": "done", "arrive": "arrive"}[said.kind]
    text += f"{verb} {said.barrier}{_stage(said)}"
    text += f" k={said.k}" if said.k is not None else ""
    return [text + (f" ph={said.phase}" if said.phase is not None else "")]


def _threads(said: Said, roles: Roles) -> list[str]:
    text = f"block={said.who[1]} thread={128 * _group(said.who[0], roles)}"
    if said.kind == "note":
        return [f"{text} {said.note}"]
    verb = {"wait": "waiting on", "done": "passed", "arrive": "arrived on"}[said.kind]
    text += f" iter={said.k}" if said.k is not None else ""
    return [
        f"{text} {verb} {said.barrier}{_stage(said)}"
        + (f" parity={said.phase}" if said.phase is not None else "")
    ]


def _json(said: Said, roles: Roles) -> list[str]:
    row: dict[str, Any] = {"ts": 17.25, "cta": said.who[1], "role": said.who[0], "k": said.k}
    if said.kind == "note":
        return [json.dumps({**row, "event": "note", "text": said.note})]
    event = {"wait": "wait_begin", "done": "wait_done", "arrive": "arrive", "copy": "copy"}[said.kind]
    row |= {"event": event, "barrier": said.barrier, "stage": said.stage, "phase": said.phase}
    if said.bytes:
        row["expect_bytes" if said.kind == "arrive" else "bytes"] = said.bytes
    return [json.dumps({key: value for key, value in row.items() if value is not None})]


def _json_message(said: Said, roles: Roles) -> list[str]:
    name = f"bar_{said.barrier}{_stage(said)}"
    verb = {
        "wait": f"wait {name} phase={said.phase}",
        "done": f"{name} wait done",
        "arrive": f"{name} arrive",
    }
    text = f"[WG {_group(said.who[0], roles)} CTA {said.who[1]}] " + (
        f"k={said.k} " if said.k is not None else ""
    )
    message = text + (said.note if said.kind == "note" else verb[said.kind])
    return [
        json.dumps(
            {"time": "2026-01-05T10:00:00Z", "level": "info", "stream": "stdout", "log": message + "\n"}
        )
    ]


def _german(said: Said, roles: Roles) -> list[str]:
    text = f"[WG{_group(said.who[0], roles)} CTA{said.who[1]}] " + (
        f"k={said.k} " if said.k is not None else ""
    )
    if said.kind == "note":
        return [text + "rechnet"]
    verb = {"wait": "wartet auf", "done": "weiter nach", "arrive": "meldet"}[said.kind]
    return [
        f"{text}{verb} bar_{said.barrier}{_stage(said)}"
        + (f" Phase={said.phase}" if said.phase is not None else "")
    ]


def _chinese(said: Said, roles: Roles) -> list[str]:
    text = f"[WG{_group(said.who[0], roles)} CTA{said.who[1]}] " + (
        f"k={said.k} " if said.k is not None else ""
    )
    if said.kind == "note":
        return [text + "开始"]
    verb = {"wait": "等待", "done": "通过", "arrive": "到达"}[said.kind]
    return [
        f"{text}{verb} bar_{said.barrier}{_stage(said)}"
        + (f" phase={said.phase}" if said.phase is not None else "")
    ]


def _bytes(said: Said, roles: Roles) -> list[str]:
    """Numbers of bytes, and the copies, are printed."""
    text = f"cta {said.who[1]} {said.who[0]}" + (f" k={said.k}" if said.k is not None else "") + ": "
    if said.kind == "note":
        return [text + said.note]
    name = f"{said.barrier}{_stage(said)}"
    verb = {
        "wait": f"wait {name} phase={said.phase}", "done": f"wait done {name} phase={said.phase}",
        "arrive": f"arrive_expect_tx {name} bytes={said.bytes}" if said.tx else f"arrive {name}",
        "copy": f"tma issued {name} bytes={said.bytes}",
    }  # fmt: skip
    return [text + verb[said.kind]]


def _about(said: Said, roles: Roles) -> list[str]:
    text = f"#{said.who[0]}@{said.who[1]}: cta_rank={said.who[1]}" + (
        f" it={said.k}" if said.k is not None else ""
    )
    if said.kind == "note":
        return [f"{text} {said.note}"]
    phase = f", phase {said.phase}" if said.phase is not None else ""
    verb = {"wait": "about to wait for", "done": "got", "arrive": "notify"}[said.kind]
    return [f"{text} {verb} {said.barrier}{_stage(said)}{phase}"]


def _opaque(said: Said, roles: Roles) -> list[str]:
    """Codes that nobody but their author can read."""
    code = {"wait": "W", "done": "D", "arrive": "A", "note": "N"}[said.kind]
    return [
        f"<<{17 * said.who[1] + _group(said.who[0], roles):02x}>> {code} {said.barrier[:2]} {said.stage or 0} {said.k}"
    ]


def _numbers(said: Said, roles: Roles) -> list[str]:
    """The event is clear and who it is of is not."""
    if said.kind == "note":
        return [said.note]
    verb = {"wait": "wait", "done": "done", "arrive": "arrive"}[said.kind]
    return [f"{said.who[1]} {_group(said.who[0], roles)} {verb} {said.barrier}{_stage(said)}"]


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
    return [wording.line(entry, roles) for entry in said if entry.kind != "copy" or wording.copies]


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
    made = (line for entry in said for line in WORDINGS[wording].line(entry, ROLES))
    return "\n".join([*HOST, *(RANKED.get(wording, "") + line for line in made)]) + "\n"
