"""`tileproof time`: every synchronising instruction found, waits named, wrong input refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.timing.compare import compare
from tileproof.conformance.beside.timing.critical import critical_path
from tileproof.conformance.beside.timing.kernel import time_kernel
from tileproof.conformance.beside.timing.model import Played, play
from tileproof.conformance.beside.timing.report import WHOLE, plan_names
from tileproof.conformance.beside.timing.sensitivity import ASSUMPTIONS, headline, sensitivity
from tileproof.conformance.beside.timing.shape import LaunchShape
from tileproof.conformance.cases.generators import small
from tileproof.conformance.cli.app import main
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import BLACKWELL

NAME = "head128-part0"


@pytest.fixture(scope="module")
def run() -> Played:
    found = kernel(NAME)
    variant = found.variants[0]
    return play(found.launch(small(found.plan(variant), 3).inputs(), found.build(variant)), "sm_100a")


def test_the_command_prints_an_interval_and_who_waits(tmp_path: Path) -> None:
    out, picture = tmp_path / "time.json", tmp_path / "time.png"
    done = CliRunner().invoke(
        main,
        [
            "time",
            NAME,
            "--d-qk",
            "576",
            "--blocks",
            "2",
            "4",
            "--json",
            "--out",
            str(out),
            "--picture",
            str(picture),
        ],
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["clocks"]["best"] < found["clocks"]["likely"] < found["clocks"]["worst"]
    assert {role["role"] for role in found["roles"]} >= {"load", "mma"}
    clocks, start = found["clocks"]["likely"], BLACKWELL.cta_start.likely
    busy = found["tflops"]["likely"] * WHOLE * clocks  # what a CTA of so many k-blocks multiplies
    around = found["fixed"]["likely"] + start
    assert found["whole"]["likely"] == pytest.approx(busy / (WHOLE * clocks + around))
    assert found["launch"]["rounds"] == {"tokens": 4096, "at_once": 74}
    ms = 56 * (WHOLE * clocks + around) / BLACKWELL.clock.likely * 1e-6
    assert found["launch"]["ms"]["likely"] == pytest.approx(ms)
    full = 4096 / 74 / 56
    assert found["launch"]["tflops"]["likely"] == pytest.approx(found["whole"]["likely"] * full)
    waits = {share["name"] for role in found["roles"] for share in role["waits"]}
    assert "kv_ready[0]" in waits
    per_block = found["clocks"]["likely"]
    assert 0.9 * per_block < sum(share["clocks"] for share in found["critical"]) <= 1.1 * per_block
    events = json.loads(out.read_text())["traceEvents"]
    assert [event for event in events if event.get("dur", 0) > 0 and event["name"].startswith("waits for")]
    assert picture.stat().st_size > 10_000


def test_a_slower_unit_makes_its_wait_longer(run: Played) -> None:
    """Planted: copies at a tenth of the rate."""
    slow = replace(BLACKWELL, copy_rate=replace(BLACKWELL.copy_rate, likely=BLACKWELL.copy_rate.likely / 10))
    before, after = run.clocks(BLACKWELL, "likely", False), run.clocks(slow, "likely", False)
    assert after.clocks > 1.5 * before.clocks
    path = critical_path(after)
    assert sum(piece.end - piece.begin for piece in path if piece.unit == "copies") > 0.5 * after.clocks


def test_the_critical_path_has_no_holes(run: Played) -> None:
    timed = run.clocks(BLACKWELL, "likely", False)
    path = critical_path(timed)
    assert path[0].begin == 0 and path[-1].end == timed.clocks
    for segment, other in pairwise(path):
        assert segment.end == pytest.approx(other.begin)


def test_the_same_run_takes_the_same_clocks(run: Played) -> None:
    first, second = (run.clocks(BLACKWELL, "worst", False) for _ in range(2))
    assert first.clocks == second.clocks and first.waits == second.waits


def test_waits_are_called_as_the_plan_does(run: Played) -> None:
    found = kernel(NAME)
    names = plan_names(found.plan(found.variants[0]))
    spans = run.clocks(BLACKWELL, "likely", False).waits
    causes = {names.cause(span.cause) for waits in spans.values() for span in waits}
    assert not [cause for cause in causes if cause.startswith("mbarrier 0x")]


def test_a_step_that_no_machine_code_does_is_an_error(run: Played) -> None:
    """Planted: the machine code of one block is not matched to any block of PTX."""
    waited = next(line for lines in run.work.steps.values() for line in lines)
    without = [replace(sass, line=0) if sass.line == waited else sass for sass in run.code.sass]
    with pytest.raises(TileproofError, match="did not find the machine code"):
        replace(run, code=replace(run.code, sass=without)).clocks(BLACKWELL, "likely", False)


def test_a_kernel_that_is_wrong_is_not_timed() -> None:
    """Planted: a commit is gone, so that nobody is told of its MMAs."""
    found = kernel(NAME)
    variant = found.variants[0]
    built = found.build(variant)
    wait = next(line for line in built.ptx.splitlines() if "tcgen05.commit" in line)
    broken = replace(built, ptx=built.ptx.replace(wait, "", 1))
    with pytest.raises(TileproofError, match="its time is meaningless"):
        play(found.launch(small(found.plan(variant), 2).inputs(), broken), "sm_100a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-kernel"], "no-such-kernel"),
        ([NAME, "--blocks", "4", "2"], "not longer"),
        ([NAME, "--d-qk", "77"], "77"),
        ([NAME, "--set", "wake"], "invalid setting of a figure"),
        ([NAME, "--set", "speed_of_light=1"], "unknown figure"),
        ([], "no kernel is given"),
    ],
)
def test_bad_input_ends_with_2(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(main, ["time", *arguments])
    assert done.exit_code == 2
    assert message in done.output


def test_the_figures_are_printed_with_their_sources() -> None:
    done = CliRunner().invoke(main, ["time", NAME, "--figures", "--json"])
    assert done.exit_code == 0
    assert "exchange.cu" in done.output


def test_what_if_a_figure_were_another(run: Played) -> None:
    slow = run.clocks(BLACKWELL.fixed({"mma_latency": 5000.0}), "best", False)
    assert slow.clocks > run.clocks(BLACKWELL, "likely", False).clocks + 5000
    assert {"mma_latency", "wake", "commit"} <= slow.used
    with pytest.raises(TileproofError, match=r"unknown figure[\s\S]*speed_of_light"):
        BLACKWELL.fixed({"speed_of_light": 1.0})
    with pytest.raises(TileproofError, match="not below 0"):
        BLACKWELL.fixed({"wake": -1.0})


def test_which_figure_to_measure_first_and_what_differs() -> None:
    found = kernel(NAME)
    short = time_kernel(found, found.variants[0], (1, 2))
    moved = sensitivity(short, False)
    assert moved and moved == sorted(moved, key=lambda moved: -moved.span)
    assert {"copy_issue", "copy_rate", "read_rate_all"} <= {figure.name for figure in moved}
    slow = time_kernel(found, found.variants[0], (1, 2), values={"mma_latency": 5000.0})
    page = compare(short.report, slow.report)
    assert len(page) < 60 and any("waits for" in line and "+" in line for line in page)
    same = compare(short.report, short.report)
    assert sum("nothing changed by a clock" in line for line in same) == 3


def test_the_headline_is_an_interval_with_the_assumptions_that_move_it() -> None:
    found = kernel(NAME)
    timed = time_kernel(found, found.variants[0], (1, 2))
    moved = sensitivity(timed, False)
    told = headline(timed, moved)
    assert " to " in told[0] and f"likely {timed.report.clocks.likely:,.0f}" in told[1]
    assert len(moved) >= ASSUMPTIONS == len(told) - 2
    assert all(figure.name in line for figure, line in zip(moved, told[2:], strict=False))
    assert {figure.name for figure in sensitivity(timed, False, parts=2)} == {figure.name for figure in moved}


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (LaunchShape(topk=16384), "topk 16,384: rows have 128 to 2,048"),
        (LaunchShape(topk=32), "topk 32: rows have 128 to 2,048"),
        (LaunchShape(tokens=16), "tokens 16: rows have 2,048 to 32,768"),
        (LaunchShape(card="H100"), "card H100: rows are of B200, GB200, GB300"),
    ],
)
def test_a_launch_far_from_every_row_is_an_interval_with_a_warning(shape: LaunchShape, said: str) -> None:
    assert shape.far() == (said,)
    assert LaunchShape().far() == () and LaunchShape(topk=4096, tokens=1024, card="GB200").far() == ()


def test_the_command_warns_of_a_launch_far_from_every_row() -> None:
    sizes = ["--blocks", "1", "2", "--topk", "16384", "--tokens", "16", "--card", "GB300"]
    done = CliRunner().invoke(main, ["time", NAME, *sizes])
    assert done.exit_code == 0, done.output
    assert "use the interval: topk 16,384" in done.output and "use the interval: tokens 16" in done.output
    line = next(line for line in done.output.splitlines() if "a launch of 16 tokens of 256 k-blocks" in line)
    interval, ms = re.findall(r"[\d,]+ to [\d,]+, ([\d.]+) to ([\d.]+) ms", line)[0]
    assert float(interval) < float(ms) and "(" not in line
    wrong = CliRunner().invoke(main, ["time", NAME, "--card", "H200"])
    assert wrong.exit_code == 2 and "B200 or GB200 or GB300" in wrong.output
