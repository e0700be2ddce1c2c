"""The missing arrivals and bytes of an mbarrier's phase, their producers, and whether any can still
arrive."""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.emulator.engine_types import RawProducer
from tileproof.emulator.hang import Group, Hang, Names, WaitDiagnosis, count_text, join, lanes_text

ARRIVE, EXPECT, DELIVER = range(3)
_DEED = {ARRIVE: "arrive", EXPECT: "expect", DELIVER: "deliver"}
_WORD = {ARRIVE: "arrival", EXPECT: "expectation of bytes", DELIVER: "delivery"}


@dataclass(frozen=True)
class Candidate:
    """Lanes of a warp that should, or could, act on the barrier by one of the instructions `pcs`."""

    rank: int
    warp: int
    lanes: int
    amount: int
    pcs: tuple[int, ...]
    why: str
    record: RawProducer | None = None  # the producer's record in an earlier phase


class MbarrierDiagnosis:
    """Diagnoses an mbarrier of a hung cluster."""

    def __init__(self, hang: Hang, names: Names, rank: int, offset: int) -> None:
        self.hang, self.names, self.rank, self.offset = hang, names, rank, offset
        self.view = hang.view
        self.b = hang.barriers[rank, offset]
        self.phase = self.b["phase"]
        self.diagnosis = WaitDiagnosis(
            False, "", last=max((p["last"] for p in self.b["producers"]), default=0)
        )
        self._possible = 0

    def diagnose(self) -> WaitDiagnosis:
        """The diagnosis; PTX ISA 9.7.13.15: a phase ends when no arrival and no byte is outstanding."""
        pending, tx = self.b["pending"], self.b["tx"]
        lacks = []
        if pending:
            lacks.append(f"{pending} of {count_text(self.b['expected'], 'arrival')}")
            self._missing(ARRIVE, pending)
        if tx > 0:
            lacks.append(f"{tx} bytes")
            self._missing(DELIVER, tx)
            self._bytes()
        if tx < 0 and not pending:
            lacks.append(f"nothing, but {-tx} bytes more came than it expects")
            self._missing(EXPECT, -tx)
            self._bytes()
        elif tx < 0:
            self._say(f"{count_text(-tx, 'byte')} arrived before any thread expected them")
        phase, name = self.names.phase(self.offset, self.phase), self.names.mbarrier(self.rank, self.offset)
        self.diagnosis.message = f"{phase} of {name} lacks {' and '.join(lacks)}"
        return self.diagnosis

    # --- who should act

    def _missing(self, deed: int, needed: int) -> None:
        candidates = self._of_the_phase_before(deed)
        # More bytes may come from any copy: amounts are compared for arrivals only.
        enough = sum(c.amount for c in candidates) >= needed if deed == ARRIVE else bool(candidates)
        if not enough:
            known = {(c.rank, c.warp) for c in candidates}
            more = [c for c in self._older(deed) + self._by_address(deed) if (c.rank, c.warp) not in known]
            more = more or ([] if known else self._of_the_other_copies(deed) or self._of_the_ring(deed))
            candidates += more
        self._possible = sum(self._judge(candidate, deed) for candidate in candidates)
        short = self._possible < needed if deed == ARRIVE else not self._possible
        if short:
            self.diagnosis.dead = True
        if not candidates:
            self._nobody(deed)
        if deed == ARRIVE and short:
            self._arrived()

    def _records(self, deed: int) -> list[RawProducer]:
        return [p for p in self.b["producers"] if p["deed"] == deed]

    def _of_the_phase_before(self, deed: int) -> list[Candidate]:
        """Producers of phase n - 1 that have done less in phase n."""
        found = []
        for rank, warp in sorted({(p["rank"], p["warp"]) for p in self._records(deed)}):
            own = [p for p in self._records(deed) if (p["rank"], p["warp"]) == (rank, warp)]
            before, now = sum(p["amount_before"] for p in own), sum(p["amount"] for p in own)
            if before <= now:
                continue
            were = [p for p in own if p["amount_before"] > p["amount"]] or own
            lanes = done = 0
            for p in own:
                lanes |= p["lanes_before"]
                done |= p["lanes"]
            lanes = lanes & ~done or lanes
            pcs = tuple(p["pc"] for p in were)
            record = max(were, key=lambda p: p["last"])
            what = _WORD[deed] if deed != DELIVER else f"{before - now} bytes"
            why = (
                f"in phase {self.phase - 1} the missing {what} came from {self._who(rank, warp, lanes, pcs)}"
            )
            found.append(Candidate(rank, warp, lanes, before - now, pcs, why, record))
        return found

    def _older(self, deed: int) -> list[Candidate]:
        """Producers of a phase further back."""
        found = []
        for p in self._records(deed):
            if p["phase"] + 1 < self.phase:
                who = self._who(p["rank"], p["warp"], p["last_lanes"], (p["pc"],))
                why = f"in phase {p['phase']} it came from {who}"
                found.append(
                    Candidate(p["rank"], p["warp"], p["last_lanes"], p["last_amount"], (p["pc"],), why, p)
                )
        return found

    def _by_address(self, deed: int) -> list[Candidate]:
        """Live lanes that have not acted in this phase and can reach an instruction naming this barrier."""
        found = []
        for g in self.hang.groups:
            done = {p["pc"] for p in self._records(deed) if (p["rank"], p["warp"]) == (g.rank, g.warp)}
            acted = 0
            for p in self._records(deed):
                if (p["rank"], p["warp"]) == (g.rank, g.warp):
                    acted |= p["lanes"]
            lanes = g.lanes & ~acted if deed == ARRIVE else g.lanes
            lane = (lanes & -lanes).bit_length() - 1
            if lane < 0:
                continue
            pcs = []
            for pc in sorted(self.view.reach(g.pc)):
                if pc in done or _DEED[deed] not in self.view.deeds(pc):
                    continue
                named = self.view.barrier_named(pc, g.rank, lane, g.registers)
                if not named or named[1] != self.offset:
                    continue
                own = named[0] == self.rank and not self.view.several_ctas(pc)
                if own or self.view.reaches_cta(pc, self.rank, lane, g.registers):
                    pcs.append(pc)
            if pcs:
                why = f"{self._who(g.rank, g.warp, lanes, tuple(pcs))} may still come to it"
                found.append(Candidate(g.rank, g.warp, lanes, lanes.bit_count(), tuple(pcs), why))
        return found

    def _of_the_other_copies(self, deed: int) -> list[Candidate]:
        """What completed this phase of the same barrier in other CTAs of the cluster."""
        found = []
        for (rank, offset), copy in self.hang.barriers.items():
            if offset != self.offset or rank == self.rank or copy["phase"] <= self.phase:
                continue
            for p in copy["producers"]:
                if p["deed"] != deed or p["deeds"] == 0 or p["phase"] < self.phase:
                    continue
                lanes, pc = p["last_lanes"], p["pc"]
                remote = p["rank"] != rank or self.view.several_ctas(pc)
                who = p["rank"] if remote else self.rank
                way = "by an instruction that can reach several CTAs" if remote else "in that CTA itself"
                why = (
                    f"phase {self.phase} of the copy in CTA {rank} got its {_WORD[deed]} from "
                    f"{self._who(p['rank'], p['warp'], lanes, (pc,))}, {way}"
                )
                record: RawProducer | None = {**p, "deeds": 0} if remote else None
                found.append(Candidate(who, p["warp"], lanes, p["last_amount"], (pc,), why, record))
        return found

    def _of_the_ring(self, deed: int) -> list[Candidate]:
        """What served the barriers beside it for which the same instruction waits: stages of one ring."""
        here = (self.rank, self.offset, "mbarrier")
        waits = {g.pc for g in self.hang.groups if (g.rank, g.offset, g.wait) == here}
        found = []
        for step in (-8, 8):
            offset = self.offset + step
            while (self.rank, offset) in self.hang.barriers:
                near = self.hang.barriers[self.rank, offset]
                if near["expected"] != self.b["expected"] or not waits & {pc for pc, *_ in near["passed"]}:
                    break
                for p in near["producers"]:
                    if p["deed"] == deed:
                        who = self._who(p["rank"], p["warp"], p["last_lanes"], (p["pc"],))
                        why = f"{self.names.mbarrier(self.rank, offset)} beside it was served by {who}"
                        found.append(
                            Candidate(
                                p["rank"], p["warp"], p["last_lanes"], p["last_amount"], (p["pc"],), why
                            )
                        )
                offset += step
        return found

    # --- whether they still can

    def _judge(self, c: Candidate, deed: int) -> int:
        """The number that the candidate can still contribute; records why not, or adds the edge to its
        blocker."""
        skipped = self._passed_over(c)
        if skipped:
            self._say(f"{c.why}, and {skipped}")
            return 0
        able = 0
        for group in self.hang.live(c.rank, c.warp, c.lanes):
            if not any(pc in self.view.reach(group.pc) for pc in c.pcs):
                self._say(
                    f"{c.why}; it now is at {self.view.at(group.pc)} and can no longer come to "
                    f"{join(self.view.at(pc) for pc in c.pcs)}"
                )
                continue
            lanes = group.lanes & c.lanes
            able += c.amount * lanes.bit_count() // max(1, c.lanes.bit_count()) if deed == ARRIVE else 1
            self.diagnosis.edges.append((group.id, c.why))
            self._say(f"{c.why}; it now {self._doing(group)}")
        gone = c.lanes
        for group in self.hang.live(c.rank, c.warp, c.lanes):
            gone &= ~group.lanes
        if gone:
            at = self.hang.exit_of(c.rank, c.warp, gone)
            some = lanes_text(gone) if gone != c.lanes else ""
            has = f"{some or 'it'} exited at {self.view.at(at)}" if at is not None else "it no longer runs"
            self._say(f"{c.why}; {has}")
        return able

    def _passed_over(self, c: Candidate) -> str:
        """Evidence that the producer's instruction has run since for other barriers, so not for this
        barrier.
        """
        if c.record is None:
            return ""
        p = c.record
        stamps = [
            q["last"]
            for barrier in self.hang.barriers.values()
            for q in barrier["producers"]
            if q["pc"] in c.pcs and (q["rank"], q["warp"]) == (c.rank, c.warp)
        ]
        ran = max(stamps, default=0)
        for group in self.hang.live(c.rank, c.warp, c.lanes):
            # Waiting again where it last passed after this deed: a whole round has gone by without it.
            if group.wait != "none" and 0 < ran < self.hang.last_pass(group):
                here = self.view.at(group.pc)
                return f"it left this out: since then it passed its wait at {here} and came there again"
        for (rank, offset), other in self.hang.barriers.items():
            if (rank, offset) == (self.rank, self.offset):
                continue
            for q in other["producers"]:
                if (q["pc"], q["rank"], q["warp"], q["deed"]) != (p["pc"], p["rank"], p["warp"], p["deed"]):
                    continue
                if offset == self.offset and q["deeds"] > p["deeds"]:
                    since = "since then " if p["deeds"] else ""
                    return f"{since}this instruction reached CTA {rank} only"
                if rank == self.rank and q["deeds"] >= p["deeds"] + 2 and p["deeds"]:
                    other_name = self.names.mbarrier(rank, offset)
                    return f"since then it has served {other_name} twice: it passed this barrier over"
        return ""

    # --- words

    def _doing(self, group: Group) -> str:
        if group.wait == "mbarrier":
            return f"waits for {self.names.mbarrier(group.rank, group.offset)} at {self.view.at(group.pc)}"
        return f"{'is' if group.wait == 'none' else 'waits'} at {self.view.at(group.pc)}"

    def _who(self, rank: int, warp: int, lanes: int, pcs: tuple[int, ...]) -> str:
        lane = lanes_text(lanes)
        at = join((self.view.at(pc) for pc in pcs), limit=3)
        return f"{lane + ' of ' if lane else ''}{self.names.warp(rank, warp)} at {at}"

    def _nobody(self, deed: int) -> None:
        copies = [copy for (r, o), copy in self.hang.barriers.items() if o == self.offset and r != self.rank]
        anywhere = any(p["deed"] == deed for b in [self.b, *copies] for p in b["producers"])
        static = self._never_run(deed)
        if static:
            gone = [
                self.names.warp(self.rank, index) + f" exited at {self.view.at(warp['exits'][0][1])}"
                for index, warp in enumerate(self.hang.ctas[self.rank]["warps"])
                if warp["exits"] and not warp["live"]
            ]
            self._say(
                f"the {_WORD[deed]} at {join(self.view.at(pc) for pc in static)} did not happen in it and no "
                "live warp can come to it" + (f"; {join(gone, limit=4)}" if gone else "")
            )
        elif not anywhere:
            self.diagnosis.perhaps = self._perhaps(deed)
            self._say(f"nothing has ever {'arrived at' if deed == ARRIVE else 'delivered to'} it, in any CTA")
        else:
            self._say(f"no other warp is known to bring one: no {_WORD[deed]} is under way")

    def _perhaps(self, deed: int) -> int:
        """How many groups can reach such an instruction that never ran; waiters for any copy do not count."""
        ran = {p["pc"] for b in self.hang.barriers.values() for p in b["producers"]}
        new = {pc for pc in range(len(self.view.handler)) if _DEED[deed] in self.view.deeds(pc)} - ran
        return sum(
            bool(new & self.view.reach(g.pc))
            for g in self.hang.groups
            if (g.wait, g.offset) != ("mbarrier", self.offset)
        )

    def _never_run(self, deed: int) -> list[int]:
        """Instructions with a constant address that name this barrier, and that never acted on it."""
        ran = {p["pc"] for p in self._records(deed)}
        found = []
        for pc in range(len(self.view.handler)):
            if pc in ran or _DEED[deed] not in self.view.deeds(pc):
                continue
            registers = self.hang.some_registers(self.rank)
            named = self.view.barrier_named(pc, self.rank, 0, registers)
            if named and named == (self.rank, self.offset, True):
                found.append(pc)
        return found

    def _arrived(self) -> None:
        now = [p for p in self._records(ARRIVE) if p["amount"]]
        if now:
            came = join((self._who(p["rank"], p["warp"], p["lanes"], (p["pc"],)) for p in now), limit=4)
            self._say(
                f"in this phase {count_text(sum(p['amount'] for p in now), 'arrival')} came: from {came}"
            )
        if self.phase == 0 and self.b["init"] >= 0:
            self._say(f"its count of {self.b['expected']} was set at {self.view.at(self.b['init'])}")

    def _bytes(self) -> None:
        """What was expected and what came, and bytes that went to another barrier."""
        for deed, word in ((EXPECT, "expected"), (DELIVER, "delivered")):
            now = [p for p in self._records(deed) if p["amount"]]
            who = join((self._who(p["rank"], p["warp"], p["lanes"], (p["pc"],)) for p in now), limit=4)
            total = sum(p["amount"] for p in now)
            self._say(f"{total} bytes were {word}" + (f" by {who}" if now else ""))
        for (rank, offset), other in self.hang.barriers.items():
            wrong = other["tx"] and (other["tx"] > 0) != (self.b["tx"] > 0)
            if wrong and (rank, offset) != (self.rank, self.offset):
                by = [p for p in other["producers"] if p["deed"] == DELIVER and p["amount"]]
                who = join((self._who(p["rank"], p["warp"], p["lanes"], (p["pc"],)) for p in by), limit=3)
                more = "more" if other["tx"] < 0 else "fewer"
                self._say(
                    f"{self.names.mbarrier(rank, offset)} has {abs(other['tx'])} bytes {more} than it expects"
                    + (f", from {who}" if who else "")
                )

    def _say(self, text: str) -> None:
        if text not in self.diagnosis.evidence:
            self.diagnosis.evidence.append(text)
