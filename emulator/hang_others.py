"""Named and cluster barriers, TMEM allocation, lanes of a warp: what blocks them."""

from __future__ import annotations

from tileproof.emulator.hang import Group, Hang, Names, WaitDiagnosis, count_text, join, lanes_text


def named_barrier(hang: Hang, names: Names, rank: int, number: int) -> WaitDiagnosis:
    """A named barrier waits for a count of threads, whole warps at a time (PTX ISA 9.7.13.1)."""
    cta = hang.ctas[rank]
    b = cta["named"][number]
    warps = [index for index, warp in enumerate(cta["warps"]) if warp["live"]]
    expected = b["expected"] if b["expected"] >= 0 else 32 * len(warps)
    diagnosis = WaitDiagnosis(
        False,
        f"named barrier {number} of CTA {rank} has {b['arrived']} of {expected} threads, from "
        + join(names.warp(rank, warp) for warp in range(32) if b["warps"] >> warp & 1),
    )
    came_before = [w for w in range(32) if b["before"] >> w & 1 and not b["warps"] >> w & 1]
    able = 0
    for index, warp in enumerate(cta["warps"]):
        if b["warps"] >> index & 1:
            continue
        word = "which came the time before" if index in came_before else "which has not come"
        who = names.warp(rank, index)
        groups = [g for g in hang.groups if (g.rank, g.warp) == (rank, index)]
        there = b["parts"][index]
        if there:
            word = f"of which only {lanes_text(there)} came"
        coming = [g for g in groups if not g.lanes & there and _reaches_barrier(hang, g, number)]
        if coming:
            able += 32
            for g in coming:
                diagnosis.edges.append((g.id, f"{who}, {word}, is at {hang.view.at(g.pc)}"))
            diagnosis.evidence.append(f"{who}, {word}, {_doing(hang, coming[0])}")
        elif groups and (index in came_before or not came_before):
            diagnosis.evidence.append(
                f"{who}, {word}, is at {hang.view.at(groups[0].pc)} and can no longer come to it"
            )
        elif not warp["live"] and (index in came_before or not came_before):
            diagnosis.evidence.append(f"{who}, {word}, exited at {hang.view.at(warp['exits'][-1][1])}")
    diagnosis.dead = b["arrived"] + able < expected
    if 32 * len(cta["warps"]) < expected:
        diagnosis.evidence.append(
            f"the CTA has {count_text(len(cta['warps']), 'warp')} only: the count is wrong"
        )
    return diagnosis


def _reaches_barrier(hang: Hang, g: Group, number: int) -> bool:
    view = hang.view
    return any(
        view.handler[pc] == "bar" and view.operand(pc, "id") in (None, number) for pc in view.reach(g.pc)
    )


def cluster_barrier(hang: Hang, names: Names) -> WaitDiagnosis:
    """The cluster barrier waits for every thread that has not exited (PTX ISA 9.7.13.3)."""
    diagnosis = WaitDiagnosis(
        False,
        f"the cluster barrier has {hang.raw['cluster_arrived']} of {hang.raw['live_threads']} live threads",
    )
    for g in hang.groups:
        missing = g.lanes & ~hang.ctas[g.rank]["warps"][g.warp]["cluster_arrived"]
        if not missing:
            continue
        lanes = lanes_text(missing)
        who = (lanes + " of " if lanes else "") + names.warp(g.rank, g.warp)
        reaches = any(hang.view.handler[pc] == "barrier.cluster.arrive" for pc in hang.view.reach(g.pc))
        # A thread that comes to no arrival would release it by its exit: what holds it up is the cause.
        way = "" if reaches else ", comes to no barrier.cluster.arrive"
        diagnosis.edges.append((g.id, f"{who} has neither arrived nor exited"))
        diagnosis.evidence.append(f"{who} has not arrived{way} and {_doing(hang, g)}")
    return diagnosis


def tensor_memory(hang: Hang, names: Names, waiter: Group) -> WaitDiagnosis:
    """An allocation waits until another warp frees columns (PTX ISA 9.7.16.7.1)."""
    cta = hang.ctas[waiter.rank]
    diagnosis = WaitDiagnosis(
        False, f"tensor memory of CTA {waiter.rank} has no free block of the size asked for"
    )
    for column, columns, pc, warp in cta["allocations"]:
        diagnosis.evidence.append(
            f"columns {column}-{column + columns - 1} were allocated by {names.warp(waiter.rank, warp)} at "
            f"{hang.view.at(pc)} and are not freed"
        )
    ranks = {waiter.rank}
    if any(cta["held"]):  # of cta_group::2: free when both CTAs have freed them
        ranks.add(waiter.rank ^ 1)
        diagnosis.evidence.append(
            f"{32 * sum(cta['held'])} columns are held until CTA {waiter.rank ^ 1} has allocated and freed "
            "them too"
        )
    for g in hang.groups:
        if g.rank not in ranks or (g.rank, g.warp, g.wait) == (waiter.rank, waiter.warp, "alloc"):
            continue
        if any(hang.view.handler[pc] == "tcgen05.dealloc" for pc in hang.view.reach(g.pc)):
            diagnosis.edges.append((g.id, f"{names.warp(g.rank, g.warp)} may free them"))
            diagnosis.evidence.append(f"{names.warp(g.rank, g.warp)} may free them and {_doing(hang, g)}")
    if not diagnosis.edges:
        diagnosis.dead = True
        own = any(hang.view.handler[pc] == "tcgen05.dealloc" for pc in hang.view.reach(waiter.pc))
        diagnosis.evidence.append(
            "only the warp that waits comes to a tcgen05.dealloc"
            if own
            else "no live warp of the CTA comes to a tcgen05.dealloc"
        )
    return diagnosis


def registers(hang: Hang, names: Names, waiter: Group) -> WaitDiagnosis:
    """setmaxnreg.inc waits until other warps of the CTA have given registers back (PTX ISA 9.7.19.5)."""
    cta, view = hang.ctas[waiter.rank], hang.view
    wanted = max(g.token for g in hang.groups if (g.rank, g.wait) == (waiter.rank, "registers"))
    free = cta["register_pool"]
    diagnosis = WaitDiagnosis(
        False, f"the register pool of CTA {waiter.rank} has {free} registers where {wanted} are wanted"
    )
    coming = 0
    for index, warp in enumerate(cta["warps"]):
        for g in hang.groups:
            if (g.rank, g.warp) != (waiter.rank, index) or g.wait == "registers":
                continue
            counts = [
                view.immediate(pc)
                for pc in view.reach(g.pc)
                if view.handler[pc] == "setmaxnreg" and not view.modifier(pc, "inc")
            ]
            if counts and min(counts) < warp["maxnreg"]:
                coming += 32 * (warp["maxnreg"] - min(counts))
                diagnosis.edges.append((g.id, f"{names.warp(g.rank, index)} may give registers back"))
    holders: dict[tuple[int, str], list[str]] = {}
    for index, warp in enumerate(cta["warps"]):
        state = "" if warp["live"] else f" and exited at {view.at(warp['exits'][-1][1])}"
        holders.setdefault((warp["maxnreg"], state), []).append(names.warp(waiter.rank, index))
    for (count, state), who in holders.items():
        have = "holds" if len(who) == 1 else "hold"
        diagnosis.evidence.append(f"{join(who)} {have} {count} registers per thread{state}")
    diagnosis.dead = free + coming < wanted
    if diagnosis.dead and not diagnosis.edges:
        diagnosis.evidence.append("no warp that still runs comes to a setmaxnreg.dec")
    return diagnosis


def warpgroup(hang: Hang, names: Names, waiter: Group) -> WaitDiagnosis:
    """A wgmma.mma_async begins when all four warps of the warpgroup have executed it (PTX ISA 9.7.15)."""
    cta, first = hang.ctas[waiter.rank], waiter.warp // 4 * 4
    lacking = [warp for warp in range(first, first + 4) if cta["warps"][warp]["wgmma"] < waiter.token]
    diagnosis = WaitDiagnosis(
        False,
        f"operation {waiter.token} of wgmma of warps {first} to {first + 3} of CTA {waiter.rank} lacks "
        + join(names.warp(waiter.rank, warp) for warp in lacking),
    )
    for warp in lacking:
        who = f"{names.warp(waiter.rank, warp)}, which has executed {cta['warps'][warp]['wgmma']} of them"
        groups = [g for g in hang.groups if (g.rank, g.warp) == (waiter.rank, warp)]
        coming = [
            g
            for g in groups
            if any(hang.view.handler[pc] == "wgmma.mma_async" for pc in hang.view.reach(g.pc))
        ]
        for g in coming:
            diagnosis.edges.append((g.id, f"{who}, is at {hang.view.at(g.pc)}"))
        if coming:
            diagnosis.evidence.append(f"{who}, {_doing(hang, coming[0])}")
            continue
        diagnosis.dead = True
        if groups:
            diagnosis.evidence.append(f"{who}, is at {hang.view.at(groups[0].pc)} and comes to no other")
        else:
            diagnosis.evidence.append(f"{who}, exited at {hang.view.at(cta['warps'][warp]['exits'][-1][1])}")
    return diagnosis


def other_lanes(hang: Hang, waiter: Group) -> list[Group]:
    """The groups of the same warp that hold the lanes a .sync instruction waits for."""
    return [g for g in hang.live(waiter.rank, waiter.warp, waiter.wanted) if g.id != waiter.id]


def _doing(hang: Hang, g: Group) -> str:
    return f"{'runs' if g.wait == 'none' else 'waits'} at {hang.view.at(g.pc)}"
