"""The model's times for the rows of cuDNN's benchmark files: `python -m tileproof.tools.published_rows`.

Prints how far the likely time is from each published time, by tokens, and the mean error of the rows that no
figure was chosen from. With `--rates` it prints the rate of additions that makes each row fit.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace

from tileproof.conformance.beside.timing.design import milliseconds
from tileproof.spec.designs import Peer
from tileproof.spec.published import cudnn_of_file
from tileproof.tools.limits_page import ROOT

FILE = ROOT / "docs" / "evidence" / "2026-11-28-cudnn-dsa-backward.txt"
FITTED = (
    64,
    512,
    2048,
    4096,
)  # heads, d_qk, topk and tokens of the rows that addition_rate_all was chosen from


def published() -> dict[str, list[Peer]]:
    """The rows of each card and problem, by tokens."""
    out = {}
    with FILE.open() as file:
        rows = csv.reader(file)
        head = next(rows)
        tokens = [int(name.split()[-2] if "tokens" in name else name) for name in head[5:]]
        for card, _, *rest in rows:
            heads, d_qk, topk = (int(value) for value in rest[:3])
            out[f"{card}, H {heads}, d_qk {d_qk}, topk {topk}"] = [
                cudnn_of_file(
                    card, heads, d_qk, topk, count, float(ms),
                    "addition_rate_all" if (heads, d_qk, topk, count) == FITTED else "",
                )
                for count, ms in zip(tokens, rest[3:], strict=True)
            ]  # fmt: skip
    return out


def off(peer: Peer) -> float:
    """The likely time relative to the published time."""
    ms = milliseconds(peer.designs, peer.topk, peer.tokens, peer.memory, peer.launches, peer.machine)
    return ms["likely"] / peer.published_ms - 1


def table() -> list[str]:
    """A line per card and problem."""
    lines = [
        "| cuDNN's backward, by tokens | 2,048 | 4,096 | 8,192 | 16,384 | 32,768 |",
        "|---|---|---|---|---|---|",
    ]
    held_out = []
    for name, row in published().items():
        offs = [off(peer) for peer in row]
        held_out += [abs(value) for value, peer in zip(offs, row, strict=True) if not peer.fitted]
        cells = (
            f"{value:+.1%}{' (fitted)' if peer.fitted else ''}" for value, peer in zip(offs, row, strict=True)
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", f"- {len(held_out)} rows held out: off by {sum(held_out) / len(held_out):.1%} on average, "
              f"{max(held_out):.1%} at most."]  # fmt: skip
    return lines


def fitting(peer: Peer) -> float:
    """The rate of additions, in TB/s of the card, that makes the likely time the published time."""
    low, high = 3.0, 9.0
    while high - low > 0.005:
        rate = (low + high) / 2
        tried = replace(peer, machine=peer.machine.fixed({"addition_rate_all": rate}))
        low, high = (rate, high) if off(tried) > 0 else (low, rate)
    return low


def main(arguments: list[str]) -> None:
    """Prints the table, or with --rates the rate that fits each row of 64 heads."""
    if "--rates" not in arguments:
        return print("\n".join(table()))
    for name, row in published().items():
        if "H 64" in name:
            print(name, *(f"{fitting(peer):.2f}" for peer in row))
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
