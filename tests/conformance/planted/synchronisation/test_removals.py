"""Each synchronising instruction of two kernels taken away on its own: found, unless it is redundant."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

from tests.kit.sampled import sampled

SYNC = re.compile(
    r"\s*(?:@!?%\w+\s+)?(?P<opcode>fence|tcgen05\.(?:fence|wait|commit)|mbarrier\.(?:init|arrive|try_wait)"
    r"|bar\.(?:sync|warp\.sync)|barrier\.cluster|cp\.async\.bulk\.(?:wait|commit)_group)"
)
SCHEDULES = (Schedule("early"), Schedule("late"), Schedule("random", 1))
# Without these the kernel is still right, or what is missing is a note.
REDUNDANT = {
    "head128-part0": {
        "fence": 1,  # mbarrier_init: a releasing cluster barrier follows
        "bar.warp.sync": 2,  # lanes meet again; no memory passes between them
        "tcgen05.fence": 2,  # around the barrier before dealloc, which asks for order only
        "mbarrier.try_wait": 1,  # for p_free at the end: the cluster barrier before dealloc orders as well
    },
    "head64": {
        "fence": 1,
        "bar.warp.sync": 2,
        # Two as above; those after P, dQ and dKV's last part have another before the next arrival; four
        # before MMAs whose operands lie in shared memory are remarked on.
        "tcgen05.fence": 9,
        "tcgen05.wait": 4,  # another one stands before the next arrival that releases the cells
    },
}


def without(launch: LaunchFile, line: int) -> LaunchFile:
    """The launch with one line of its PTX gone; a wait passes at once."""
    lines = launch.ptx.split("\n")
    passing = re.search(r"try_wait\S* (\S+),", lines[line].replace("\t", " "))
    lines[line] = f"setp.eq.u32 {passing[1]}, 0, 0;" if passing else ""
    return launch.with_ptx("\n".join(lines))


@pytest.mark.parametrize("name", sampled(sorted(REDUNDANT), 2))
def test_every_removal_is_found_but_the_redundant_ones(name: str) -> None:
    target = kernel(name)
    inputs = one_token(576, 4, target.variants[0]["h_q"]).inputs()
    launch, plan = (
        target.launch(inputs, target.build(target.variant(d_qk=576))),
        target.plan(target.variant(d_qk=576)),
    )
    sites = [
        (number, match["opcode"])
        for number, text in enumerate(launch.ptx.split("\n"))
        if (match := SYNC.match(text))
    ]
    assert len(sites) >= 30
    survived: Counter[str] = Counter()
    for number, opcode in sites:
        planted = without(launch, number)
        seen = (
            emulator.run(planted, plan, schedule=schedule, taps=False, races=True) for schedule in SCHEDULES
        )
        if not any(finding.severity != "note" for result in seen for finding in result.findings):
            survived[opcode] += 1
    assert survived == REDUNDANT[name]
