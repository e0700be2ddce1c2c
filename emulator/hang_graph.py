"""The wait-for graph of a hung cluster: nodes, edges and the root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tileproof.emulator import hang_others as others
from tileproof.emulator.engine_types import RawMbarrier
from tileproof.emulator.hang import Group, Hang, Names, WaitDiagnosis, count_text, join, lanes_text
from tileproof.emulator.hang_mbarrier import ARRIVE, MbarrierDiagnosis
from tileproof.spec.machine.finding import Edge, Graph, Node, Root

MAX_ROOTS = 4


class _Builder:
    def __init__(self, hang: Hang, names: Names) -> None:
        self.hang, self.names, self.view = hang, names, hang.view
        self.nodes: dict[str, Node] = {}
        self.diagnoses: dict[str, WaitDiagnosis] = {}
        self.edges: list[Edge] = []

    def run(self) -> Graph:
        for g in self.hang.groups:
            self.nodes[g.id] = Node(
                g.id, "warp", self._group(g), g.rank, g.warp, g.lanes,
                ptx_line=self.view.line(g.pc), source=self.view.source(g.pc),
            )  # fmt: skip
        for g in self.hang.groups:
            self._edges_of(g)
        return Graph(tuple(self.nodes.values()), tuple(self.edges), tuple(self._roots()))

    def _group(self, g: Group) -> str:
        lanes = lanes_text(g.lanes)
        return (
            (lanes + " of " if lanes else "") + self.names.warp(g.rank, g.warp) + f" at {self.view.at(g.pc)}"
        )

    def _edges_of(self, g: Group) -> None:
        here = self.view.at(g.pc)
        match g.wait:
            case "mbarrier" if (g.rank, g.offset) in self.hang.barriers:
                b = self.hang.barriers[g.rank, g.offset]
                diagnose = MbarrierDiagnosis(self.hang, self.names, g.rank, g.offset).diagnose
                node = Node(
                    f"mbarrier {g.rank}.{g.offset:#x}", "mbarrier", "", g.rank,
                    offset=g.offset, phase=b["phase"],
                )  # fmt: skip
                self._waits(g, node, f"parity {g.parity}", diagnose)
                self._waiter_hints(g, b)
            case "named":
                named = partial(others.named_barrier, self.hang, self.names, g.rank, g.offset)
                node = Node(
                    f"named barrier {g.rank}.{g.offset}", "named barrier", "", g.rank, offset=g.offset
                )
                self._waits(g, node, "", named)
            case "cluster":
                node = Node("cluster barrier", "cluster barrier", "", 0)
                self._waits(g, node, "", partial(others.cluster_barrier, self.hang, self.names))
            case "alloc":
                node = Node(f"TMEM {g.rank}", "TMEM", "", g.rank)
                self._waits(g, node, "columns", partial(others.tensor_memory, self.hang, self.names, g))
            case "registers":
                node = Node(f"registers {g.rank}", "registers", "", g.rank)
                self._waits(g, node, "registers", partial(others.registers, self.hang, self.names, g))
            case "warpgroup":
                node = Node(f"warpgroup {g.rank}.{g.warp // 4}.{g.token}", "warpgroup", "", g.rank)
                group = partial(others.warpgroup, self.hang, self.names, g)
                self._waits(g, node, f"operation {g.token}", group)
            case "lanes" | "join":
                for other in others.other_lanes(self.hang, g):
                    self._edge(
                        g.id, other.id, f"waits for {lanes_text(other.lanes) or 'all lanes'} at {here}"
                    )

    def _waits(self, g: Group, node: Node, what: str, diagnose: Callable[[], WaitDiagnosis]) -> None:
        """A group that waits for `what` of a node, whose text is that of its diagnosis, made once."""
        self._edge(g.id, node.id, f"waits {what and f'for {what} '}at {self.view.at(g.pc)}")
        if node.id in self.nodes:
            return
        self.diagnoses[node.id] = diagnosis = diagnose()
        self.nodes[node.id] = replace(node, what=diagnosis.message)
        for needs, why in diagnosis.edges:
            self._edge(node.id, needs, why)

    def _edge(self, waiter: str, needs: str, why: str) -> None:
        if not any((e.waiter, e.needs) == (waiter, needs) for e in self.edges):
            self.edges.append(Edge(waiter, needs, why))

    def _waiter_hints(self, g: Group, b: RawMbarrier) -> None:
        """A waiter that a barrier has lapped, or whose parity names a phase it cannot have meant."""
        phase, diagnosis = b["phase"], self.diagnoses[f"mbarrier {g.rank}.{g.offset:#x}"]
        passed = b["passed"][g.warp][1] if g.warp < len(b["passed"]) else -2
        # A phase that no warp saw before the next was complete: PTX ISA 9.7.13.15.4 asks for a wait between.
        unseen = passed == -2 and phase >= 2 and all(pair[1] < 0 for pair in b["passed"])
        if (passed >= -1 and passed + 2 < phase) or unseen:
            meant = g.parity if unseen else passed + 1
            if unseen:
                last = "no warp has waited for any phase of it yet"
            elif passed == -1:
                last = "this warp has passed it only as free from the start"
            else:
                last = f"the last phase that this warp waited for is {passed}"
            self.diagnoses[g.id] = WaitDiagnosis(
                True,
                f"{self._group(g)} waits for phase {meant} of {self.names.mbarrier(g.rank, g.offset)}, which "
                f"has completed: before the wait saw it the barrier went on to phase {phase}, of the same "
                "parity",
                [f"{last}: it is lapped by {phase - meant}", *self._arrivals(b)],
                last=diagnosis.last,
            )
        elif passed == -2 and phase > 0:
            hint = (
                f"{self.names.warp(g.rank, g.warp)} has never waited for phase {phase - 1}, which is "
                f"complete: parity {(phase - 1) & 1} would let it pass, parity {g.parity} waits for phase "
                f"{phase}"
            )
            if hint not in diagnosis.evidence:
                diagnosis.evidence.append(hint)

    def _arrivals(self, b: RawMbarrier) -> list[str]:
        """Who has arrived at the barrier, of those whose arrivals went on after its waiter's phase."""
        came = [p for p in b["producers"] if p["deed"] == ARRIVE]
        who = join(
            (
                f"{lanes_text(p['last_lanes']) or 'all lanes'} of {self.names.warp(p['rank'], p['warp'])} at "
                f"{self.view.at(p['pc'])}"
                for p in sorted(came, key=lambda p: p["last"])
            ),
            limit=4,
        )
        return [f"a phase takes {count_text(b['expected'], 'arrival')}; they came from {who}"] if came else []

    # --- roots

    def _roots(self) -> list[Root]:
        after: dict[str, list[str]] = {id: [] for id in self.nodes}
        for edge in self.edges:
            # What a lapped wait looks at now says nothing: the phase that it meant has completed.
            if edge.waiter not in self.diagnoses or self.nodes[edge.waiter].kind != "warp":
                after[edge.waiter].append(edge.needs)
        reach = {id: _closure(id, after) for id in self.nodes}
        dead = [id for id, diagnosis in self.diagnoses.items() if diagnosis.dead]
        roots = [
            id
            for id in dead
            if all(id in reach[other] for other in dead if other in reach[id] and other != id)
        ]
        groups = {g.id for g in self.hang.groups}
        waiting = {id: sum(1 for g in groups if id in reach[g] or id == g) for id in self.nodes}
        roots = [id for id in roots if waiting[id]] or roots
        # Of barriers that nothing has ever touched, those to which someone may still come are followers.
        roots = [id for id in roots if not self.diagnoses[id].perhaps] or roots
        if roots:
            roots.sort(
                key=lambda id: (self.nodes[id].kind != "warp", -waiting[id], self.diagnoses[id].last, id)
            )
            return [self._unsatisfiable(id, waiting[id]) for id in roots[:MAX_ROOTS]]
        cycles = {frozenset(n for n in reach[id] if id in reach[n]) for id in self.nodes if id in reach[id]}
        final = [c for c in cycles if all(reach[id] <= c for id in c)]
        if final:
            return [
                self._cycle(c, max(waiting[id] for id in c))
                for c in sorted(final, key=lambda c: (-len(c), min(c)))
            ]
        running = [g for g in self.hang.groups if g.wait == "none"]
        message = "spins without causing anything that others wait for"
        spins = [
            Root("spin", self.nodes[g.id], f"{self._group(g)} {message}", (), waiting[g.id]) for g in running
        ]
        return spins[:MAX_ROOTS]

    def _unsatisfiable(self, id: str, followers: int) -> Root:
        diagnosis, node = self.diagnoses[id], self.nodes[id]
        kind = "lapped" if node.kind == "warp" else "unsatisfiable"
        tail = "" if kind == "lapped" else ", and no one can still bring it"
        return Root(kind, node, diagnosis.message + tail, tuple(diagnosis.evidence), followers)  # type: ignore[arg-type]

    def _cycle(self, members: frozenset[str], followers: int) -> Root:
        edges = [e for e in self.edges if e.waiter in members and e.needs in members]
        barriers = [self.nodes[id] for id in sorted(members) if self.nodes[id].kind != "warp"]
        first = barriers[0] if barriers else self.nodes[min(members)]
        evidence = []
        if not barriers:
            evidence.append(
                "a .sync or .aligned instruction waits until all the lanes that it names are at that very "
                "instruction; these have diverged"
            )
        for node in [self.nodes[id] for id in sorted(members) if self.nodes[id].kind == "warp"]:
            needs = join(self.nodes[e.needs].what for e in edges if e.waiter == node.id)
            evidence.append(f"{node.what} waits: {needs}")
        for node in barriers:
            held = join((self.nodes[e.needs].what for e in edges if e.waiter == node.id), limit=4)
            evidence.append(f"{node.what}; it depends on {held}")
            if node.kind != "mbarrier":
                evidence += self.diagnoses[node.id].evidence
            if node.kind == "mbarrier" and node.phase == 0 and not self._touched(node):
                evidence.append(
                    f"nothing has arrived at {self.names.mbarrier(node.rank, node.offset or 0)} yet: if its "
                    "first wait is for a buffer that is free from the start, that wait takes parity 1"
                )
        return Root("cycle", first, "a cycle of waits: each waits for what another brings only later",
                    tuple(evidence), followers)  # fmt: skip

    def _touched(self, node: Node) -> bool:
        return bool(self.hang.barriers[node.rank, node.offset or 0]["producers"])


def _closure(start: str, after: dict[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    stack = list(after[start])
    while stack:
        id = stack.pop()
        if id not in seen:
            seen.add(id)
            stack += after[id]
    return seen


def build(hang: Hang, names: Names) -> Graph:
    """The graph of `hang` in the words of `names`."""
    return _Builder(hang, names).run()
