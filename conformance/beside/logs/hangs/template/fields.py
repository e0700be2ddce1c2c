"""The fields and events of a line template, with their spellings."""

from __future__ import annotations

import difflib

from tileproof.conformance.beside.logs.hangs.words import FIELDS as SPELLINGS
from tileproof.spec.machine.errors import TileproofError

NAMES = {"role": "the role", "barrier": "the barrier"}  # fields with text; the others hold a number
NUMBERS = {
    "cta": "the CTA of the line's thread: its rank in the cluster, or its block",
    "group": "the cluster",
    "warp": "the warp",
    "wg": "the warpgroup",
    "thread": "the thread",
    "stage": "the stage of the barrier",
    "phase": "the parity of a wait",
    "k": "the round of the role's loop",
    "tile": "the round of the loop around it, where k begins again in each tile",
    "owner": "the CTA whose barrier it is",
    "mask": "a mask of the CTAs that an arrival reaches",
    "bytes": "bytes announced by an arrival, or bytes of a copy",
    "ctas": "init: in how many CTAs of the cluster the roles that arrive on the barrier run",
    "count": "threads that arrive; with init: arrivals of a phase",
    "id": "the number or address of a barrier (explained by a name or init line)",
    "stages": "init, name: stages of the barrier, numbered from its id on",
    "last": "name: the last warp or thread of a role that has several",
    "lost": "tail: how many lines are missing",
    "roleid": "the number of a role (explained by a name line)",
    "completed": "state: completed phases of the barrier",
    "pending": "state: arrivals that the current phase lacks",
    "txleft": "state: bytes that the current phase lacks",
    "announced": "state: bytes announced by a role up to now, or for a barrier's current phase",
    "landed": "state: bytes copied, likewise",
    "passed": "state: completed waits of the role on the barrier",
    "arrived": "state: arrivals of the role on the barrier; without a role, of the current phase",
}
TEXTS = {
    "event": "a word for the event (--event wait=WORD)",
    "parts": "parts: several records, each read by the templates",
    **NAMES,
}
FIELDS = {**TEXTS, **NUMBERS}
EVENTS = {
    "wait": "a wait begins",
    "done": "a wait ended",
    "arrive": "an arrival or a commit",
    "expect": "an arrival that announces bytes",
    "copy": "a copy whose bytes complete on the barrier",
    "end": "the role is done",
    "init": "a barrier, the arrivals of a phase, and the roles that make them",
    "name": "a number of a barrier (id) or of a role (roleid, warp, thread), and its name",
    "actor": "the role, warp or CTA of the lines that follow",
    "on": "the barrier of the lines that follow",
    "tail": "the first lines of the log, or of the line's role, are missing",
    "feeds": "a role that arrives on a barrier, where arrivals are not printed",
    "columns": "a header whose columns name the roles of a table",
    "state": "counts at the end of the run, of a barrier or of a role on a barrier",
    "parts": "a line that holds several records in {parts}",
    "newest": "from here on, the newest record of each role stands first",
    "skip": "a line without an event",
}
_ALSO = {
    "parity": "phase",
    "bit": "phase",
    "rank": "cta",
    "block": "cta",
    "cluster": "group",
    "iteration": "k",
    "loop": "k",
    "round": "k",
    "slot": "stage",
    "tx": "bytes",
    "name": "barrier",
    "bar": "barrier",
    "mbar": "barrier",
    "mbarrier": "barrier",
    "target": "owner",
    "to": "owner",
    "threads": "count",
    "arrivals": "count",
    "n": "count",
    "id": "id",
    "address": "id",
    "addr": "id",
    "missing": "pending",
    "flips": "completed",
    "phases": "completed",
}


def field(name: str, template: str) -> str:
    """The field that `name` spells; TileproofError with the nearest spellings if there is none."""
    low = name.lower().replace("_", "").replace("-", "")
    if low in FIELDS:
        return low
    found = _ALSO.get(low) or SPELLINGS.get(low, "")
    found = _ALSO.get(found, found)
    if found in FIELDS:
        return found
    known = {*FIELDS, *_ALSO, *SPELLINGS}
    near = [item for item in difflib.get_close_matches(low, sorted(known), 8, 0.72) if item.isascii()]
    near = list(dict.fromkeys(_ALSO.get(SPELLINGS.get(item, item), item) for item in near))
    near = [item for item in near if item in FIELDS][:3]
    raise TileproofError(
        f"unknown field {{{name}}} in a line template",
        where=template,
        expected=", ".join(FIELDS),
        found=name,
        do=f"did you mean {' or '.join('{' + item + '}' for item in near)}?" if near else "use one of these",
    )
