"""What one record of a log says: a line, or several that go on with each other."""

from __future__ import annotations

from typing import Literal

from tileproof.conformance.logs.hangs.line import Clause, Line
from tileproof.conformance.logs.hangs.log import Actor


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
        role = f"warp {fields['warp']}"
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
    """What a clause's verbs say together."""
    has = set(verbs)
    if "copy" in has:
        return "copy" if has <= {"copy", "done", "arrive"} else None
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
    if "begin" in has:
        return "wait"
    return None


def continues(record: Line, line: Line) -> bool:
    """Whether `line` goes on with `record`: it adds fields, repeats none, and says little else."""
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
