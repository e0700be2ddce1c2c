"""Addresses of barriers in the shared memory of a cluster: the CTA's rank is in bits 24 and up.

`mapa` returns such addresses. Where CTAs other than 0 print their own barriers with their own rank, an
address without a rank is CTA 0's; elsewhere it is the CTA's own (its shared::cta window).
"""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.log import OWN, Log

_RANK = 24  # bits of the window of one CTA
_SHARED = 1 << 18  # bytes; more than the shared memory of a CTA
_RANKS = 16  # CTAs of the largest cluster


def resolve_windows(log: Log) -> None:
    """Give barriers at addresses with a rank the address in their CTA, and their CTA to the events."""
    split: dict[str, tuple[int, int]] = {}
    for event in log.events:
        if event.barrier.startswith("@0x"):
            split[event.barrier] = divmod(int(event.barrier[1:], 16), 1 << _RANK)
    if not any(rank for rank, _ in split.values()):
        return
    if any(rank >= _RANKS or low >= _SHARED for rank, low in split.values()):
        return
    absolute = any(split.get(event.barrier, (0, 0))[0] == event.actor.cta > 0 for event in log.events)
    for event in log.events:
        if event.barrier not in split:
            continue
        rank, low = split[event.barrier]
        event.barrier = f"@{low:#x}"
        log.names.setdefault(event.barrier, event.barrier)
        if not absolute and not rank:
            continue
        if event.kind in ("arrive", "copy"):
            event.to = event.to or 1 << rank
        elif event.owner == OWN and rank != event.actor.cta:
            event.owner = rank
    log.remarks.append(
        "barriers at addresses from 0x1000000 are taken as barriers of other CTAs of the cluster"
    )
