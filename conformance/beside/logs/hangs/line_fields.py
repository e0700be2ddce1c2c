"""The fields of a line, and its clauses: the verbs beside a barrier."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clause:
    """A part of a line with one barrier at most."""

    barrier: str = ""
    strong: bool = False
    stage: int | None = None
    verbs: list[str] = field(default_factory=list)
    last_verb_at: int = -9
    barrier_end: int = -9
    adjacent_done: bool = False

    def copy(self) -> Clause:
        """An independent copy."""
        return Clause(
            self.barrier,
            self.strong,
            self.stage,
            list(self.verbs),
            self.last_verb_at,
            self.barrier_end,
            self.adjacent_done,
        )


@dataclass
class Line:
    """The fields of a line or record; `said`: the number of words that belong to no field."""

    number: int
    fields: dict[str, int] = field(default_factory=dict)
    role: str = ""
    clauses: list[Clause] = field(default_factory=list)
    spaced: list[tuple[str, str]] = field(default_factory=list)
    bytes: bool = False
    said: int = 0
    indented: bool = False

    @property
    def has_actor(self) -> bool:
        return bool(self.role or self.fields.keys() & {"wg", "warp", "thread"})

    @property
    def has_cta(self) -> bool:
        return bool(self.fields.keys() & {"cta", "block"})

    @property
    def complete(self) -> bool:
        return any(clause.barrier and clause.verbs for clause in self.clauses)
