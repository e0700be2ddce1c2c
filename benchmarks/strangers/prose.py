"""Wordings of free text, as templates: a line is a head and what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.strangers.machine import Event, Op, Who
from benchmarks.strangers.wordings import WARPS, Wording, mask, peer, remote, step

FREE = ("cluster_arrive", "dealloc")  # do not block


@dataclass(frozen=True)
class Prose:
    """Templates of the head (`cta role ROLE warp line second`), of the parts `bar` (`b B s`), `whose` (`o`:
    the CTA of a peer's barrier), `reach` (`m` mask, `l` list of the CTAs that an arrival reaches) and `tx`
    (`n` bytes), and of what happens, where the parts, `k` and `p` (parity) stand too.

    `waits` and `blocks`: before and after. `call`: an operation that is no mbarrier's; `blocks` or `free` has
    it. `k`: of the iteration, where an event has it. `roles`: other names of roles.
    """

    head: str
    k: str
    waits: tuple[str, str]
    whose: str
    arrives: str
    reach: str
    tx: str
    copies: str
    blocks: tuple[str, str]
    call: Callable[[Op], str]
    free: str = "{call}"
    note: str = "{text}"
    bar: str = "{b}[{s}]"
    between: str = ","  # the CTAs of `l`
    roles: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, e: Event) -> str:
        op, (role, cta) = e.op, e.who
        who, warp = self.named(e.who), WARPS[role]
        known: dict[str, object] = {
            "cta": cta,
            "role": who,
            "ROLE": who.upper(),
            "warp": warp,
            "line": 100 + warp,
        }
        known |= {"second": (op.k or 0) % 60, "k": step(op, self.k), "p": op.parity, "n": op.size}
        known |= {"b": op.bar, "B": op.bar.upper(), "s": op.stage, "o": op.owner, "text": op.text}
        known |= {"m": mask(op), "l": self.between.join(map(str, op.to))}
        for part, shown in (
            ("bar", True),
            ("whose", peer(e)),
            ("reach", op.kind == "arrive" and remote(e)),
            ("tx", op.size),
        ):
            known[part] = getattr(self, part).format(**known) if shown else ""
        if op.kind not in ("wait", "arrive", "copy", "note"):
            known["call"] = self.call(op)
        return (self.head + self._event(e)).format(**known)

    def _event(self, e: Event) -> str:
        kinds = {"arrive": self.arrives, "copy": self.copies, "note": self.note, "wait": self.waits[e.end]}
        return kinds.get(e.op.kind, self.free if e.op.kind in FREE else self.blocks[e.end])

    def named(self, who: Who) -> str:
        """The name of a role."""
        return self.roles[who[0]] if self.roles else who[0]

    def wording(self) -> Wording:
        """The wording whose roles have these names."""
        return Wording(self, self.named)
