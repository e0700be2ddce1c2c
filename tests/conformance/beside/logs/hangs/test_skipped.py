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


def table(last: str) -> str:
    """Three rounds of `store`, which counts tiles where `math` counts k-blocks; `store` makes its last
    arrival on `last` and ends.
    """
    rows = ["time,block,warp,role,event,barrier,stage,parity,iter"]

    def add(warp: int, event: str, barrier: str, parity: object, k: int) -> None:
        role = "math" if warp == 1 else "store"
        rows.append(f"{len(rows)},7,{warp},{role},{event},{barrier},{0 if barrier else ''},{parity},{k}")

    for tile in range(3):
        add(1, "ARRIVE", "READY", "", 5 * tile + 4)
        add(3, "WAIT_BEGIN", "READY", tile % 2, tile)
        add(3, "WAIT_END", "READY", tile % 2, tile)
        add(3, "ARRIVE", "FLUSHED" if tile < 2 else last, "", tile)
        if tile == 2:
            add(3, "EXIT", "", "", tile)
        add(1, "WAIT_BEGIN", "FLUSHED", tile % 2, 5 * tile + 4)
        if tile < 2:
            add(1, "WAIT_END", "FLUSHED", tile % 2, 5 * tile + 4)
    return "\n".join(rows) + "\n"


def test_a_role_that_ends_after_another_arrival_may_not_have_counted_wrongly() -> None:
    """Its last arrival stands in place of the missing one: a wrong number of rounds is not certain."""
    assert diagnosis(read_text(table("EMPTY")))["certainty"] == "likely"


def test_a_role_that_is_held_elsewhere_is_not_missing_at_a_barrier() -> None:
    """CTA 1 reaches the cluster barrier without the arrival that its twin makes: no cycle."""
    lines: list[str] = []
    for cta in (0, 1):
        for k in (0, 1):
            head = f"[math CTA{cta}] k={k}"
            lines += [f"{head} wait full phase={k}", f"{head} done full", f"{head} arrive empty"]
    lines += ["[math CTA1] arrive cluster_barrier", "[math CTA1] wait cluster_barrier"]
    lines += ["[math CTA0] arrive partial", "[math CTA0] k=0 wait partial phase=0"]
    lines = [line for k in (0, 1) for cta in (0, 1) for line in (
        f"[load CTA{cta}] k={k} wait empty phase={1 - k}", f"[load CTA{cta}] k={k} done empty",
        f"[load CTA{cta}] k={k} arrive full")] + lines  # fmt: skip
    found = diagnosis(read_text("\n".join(lines)))
    cause, root = found["causes"][0], found["root"]
    assert root is not None and (cause["code"], root["barrier"]) == ("skipped-arrive", "partial")
    assert cause["culprit"] is not None and cause["culprit"]["cta"] == 1
