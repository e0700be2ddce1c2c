"""Records of a log: a line, or several lines that continue each other."""

from __future__ import annotations

from typing import Literal

from tileproof.conformance.beside.logs.hangs.forms import CLUSTER, NAMED, SYNCTHREADS, TMEM
from tileproof.conformance.beside.logs.hangs.line_fields import Clause, Line
from tileproof.conformance.beside.logs.hangs.log import GRID, PEER, Actor, Scope


def block_of(line: Line) -> int | None:
    for name in ("k", "iteration", "tile"):
        if name in line.fields:
            return line.fields[name]
    return None


def actor_of(line: Line, cluster: int) -> Actor:
    fields = line.fields
    if "wg" in fields:
        role = f"WG{fields['wg']}" + (f" warp {fields['warp']}" if "warp" in fields else "")
    elif "warp" in fields:
        role = f"{line.role} warp {fields['warp']}" if line.role else f"warp {fields['warp']}"
    elif line.role:
        role = line.role
    else:
        role = f"warp {fields['thread'] // 32}" if "thread" in fields else ""
    group, cta = fields.get("group", 0), fields.get("cta", fields.get("block", fields.get("rank", -1)))
    if cluster and "block" in fields:
        group, cta = fields["block"] // cluster, fields.get("cta", fields["block"] % cluster)
    elif cluster and cta >= cluster:
        group, cta = cta // cluster, cta % cluster
    return Actor(group, role, cta)


def told_by(verbs: list[str]) -> Literal["wait", "done", "arrive", "copy", "touch"] | None:
    """The meaning of a clause's verbs together."""
    has = set(verbs)
    if "copy" in has:
        return "copy" if has <= {"copy", "done", "arrive", "begin"} else None
    if "waited" in has:
        return "wait" if "not" in has else "done"
    if verbs and verbs[0] == "arrive" and {"after", "wait"} <= has:
        return "arrive"
    if "wait" in has:
        ended = ("done" in has and "begin" not in has) or "after" in has
        return "done" if ended and "not" not in has else "wait"
    if "arrive" in has:
        return None if "not" in has else "arrive"
    if "done" in has:
        return "wait" if "not" in has else "touch"
    if "after" in has:
        return "touch"
    if "begin" in has:
        return "wait"
    return None


def targets_of(line: Line) -> list[int]:
    """The CTAs to which an operation goes, other than by a mask."""
    return [line.fields[name] for name in ("target", "target2", "target3", "target4") if name in line.fields]


def mask_of(line: Line) -> int:
    """The CTAs that an arrival reaches as a mask; 0: not printed, PEER: the other CTA of a pair."""
    if line.fields.get("mask", 0) > 0:
        return line.fields["mask"]
    mask = 0
    for cta in targets_of(line):
        mask |= 1 << min(cta, GRID - 1) if cta >= 0 else 0  # -1: none
    return mask or (PEER if "peer" in line.fields else 0)


def scope_of(name: str) -> Scope:
    """What kind of barrier a name in the grammar is of."""
    if name == SYNCTHREADS or name.startswith(NAMED):
        return "cta"
    return "cluster" if name == CLUSTER else "tmem" if name == TMEM else "mbarrier"


def continues(record: Line, line: Line) -> bool:
    """Whether `line` continues `record`: it adds fields, repeats none, and has few other words."""
    if record.complete and (line.complete or not line.fields):
        return False
    if not (record.has_actor or record.has_cta):
        return False
    if (line.has_actor and record.has_actor) or (line.has_cta and record.has_cta):
        return False
    if record.fields.keys() & line.fields.keys():
        return False
    adds = bool(line.fields or line.role) or any(clause.barrier or clause.verbs for clause in line.clauses)
    return adds and (line.said == 0 or (line.indented and line.said <= 3))


def merge(record: Line, line: Line) -> None:
    record.fields |= line.fields
    record.role = record.role or line.role
    record.bytes |= line.bytes
    verbs = [verb for clause in record.clauses + line.clauses for verb in clause.verbs]
    named = [clause for clause in record.clauses + line.clauses if clause.barrier]
    if len(named) <= 1:
        whole = named[0] if named else Clause()
        whole.verbs = verbs
        whole.adjacent_done = True
        record.clauses = [whole]
    else:
        record.clauses += line.clauses
    if line.complete or not record.complete:
        record.number = line.number if named else record.number
