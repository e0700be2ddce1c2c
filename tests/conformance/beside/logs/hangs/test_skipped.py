"""A missing arrival beside another arrival that a wait needed: it was skipped, and went nowhere else."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis


def printed(*, astray: bool) -> str:
    """A ring of two stages; `mma` leaves out the arrival on `empty` of k-block 3, the last of a tile. It then
    arrives on `acc_full`, on which `epi` waits; `astray`: `epi` waits for the next phase of `acc_full` only.
    """
    lines: list[str] = []
    for k in range(6):
        stage, phase = k % 2, k // 2 % 2
        lines.append(f"[load CTA0] k={k} wait empty[{stage}] phase={1 - phase}")
        if k == 5:
            break
        lines += [f"[load CTA0] k={k} done empty[{stage}]", f"[load CTA0] k={k} arrive full[{stage}]"]
        lines += [
            f"[mma CTA0] k={k} wait full[{stage}] phase={phase}",
            f"[mma CTA0] k={k} done full[{stage}]",
        ]
        if k != 3:
            lines.append(f"[mma CTA0] k={k} arrive empty[{stage}]")
            continue
        lines.append("[mma CTA0] k=3 arrive acc_full")
        if not astray:
            lines += ["[epi CTA0] k=0 wait acc_full phase=0", "[epi CTA0] k=0 done acc_full"]
        lines += ["[epi CTA0] k=0 arrive acc_empty"]
        lines += ["[mma CTA0] k=4 wait acc_empty phase=0", "[mma CTA0] k=4 done acc_empty"]
    return "\n".join([*lines, "[mma CTA0] k=5 wait full[1] phase=0"])


def test_an_arrival_that_a_wait_needed_is_not_astray() -> None:
    found = diagnosis(read_text(printed(astray=False)))
    assert found["causes"][0]["code"] == "skipped-arrive" and found["certainty"] == "likely"


def test_an_arrival_that_no_wait_needed_is_astray() -> None:
    found = diagnosis(read_text(printed(astray=True)))
    assert found["causes"][0]["code"] == "wrong-barrier"
