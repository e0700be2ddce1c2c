"""The CUDA driver's process: faults and hangs become findings, refusals errors, and the next launch runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.drivers.card import moved, placed, pointers, retarget
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.drivers.driver import NOT_JUDGED, not_judged
from tileproof.kernels.launch.arguments import PlacedItem, PointerArgument
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.contents import InlineBytes
from tileproof.kernels.launch.driver_calls import launch_config
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import Output
from tileproof.tools.silicon.launch_files import compared

# Answers as a card's process would; the launch's entry says what happens to it.
WORKER = """
import os, sys, time
from multiprocessing.connection import Connection
import numpy as np
from tileproof.conformance.drivers.card import CardFacts, Ran
pipe = Connection(int(sys.argv[1]))
pipe.send(("card", CardFacts("a card", "sm_100", 13000)))
while True:
    launch = pipe.recv()
    if launch.main.entry == "dies":
        os._exit(1)
    if launch.main.entry == "hangs":
        time.sleep(60)
    if launch.main.entry == "faults":
        pipe.send(("card-fault", "an illegal instruction was encountered"))
        break
    if launch.main.entry == "refused":
        pipe.send(("refused", "assemble: ptxas says no"))
        continue
    out = np.arange(8, dtype=np.uint32).view(np.uint8)
    marks = np.repeat(np.arange(8) < 6, 4)
    touched = {"out": 32} if launch.main.entry == "beyond" else {}
    pipe.send(("ran", Ran({"out": out}, {"out": marks}, touched)))
"""


def launch(entry: str) -> LaunchFile:
    made = LaunchBuilder("card", ".target sm_100a")
    out = made.output("out", (2, 4), np.uint32)
    made.launch(entry, grid=(1, 1, 1), block=(32, 1, 1), arguments=[out])
    return made.file()


@pytest.fixture
def driver(tmp_path: Path) -> CudaDriver:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    return CudaDriver(seconds=1.0, worker=(sys.executable, str(script)))


def test_values_and_written_marks(driver: CudaDriver) -> None:
    with driver:
        seen = driver.observe(launch("k"))
        assert driver.facts is not None and driver.facts.arch == "sm_100"
    assert seen.findings == ()
    assert (seen.outputs["out"].values == np.arange(8).reshape(2, 4)).all()
    assert seen.outputs["out"].written.tolist() == [[True] * 4, [True, True, False, False]]


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ("faults", "card-fault", "illegal instruction"),
        ("dies", "card-fault", "ended"),
        ("hangs", "card-hang", "no answer in 1 s"),
    ],
)
def test_a_broken_launch_is_a_finding_and_the_next_one_runs(
    driver: CudaDriver, entry: str, code: str, words: str
) -> None:
    with driver:
        (finding,) = driver.observe(launch(entry)).findings
        assert (finding.code, finding.severity) == (code, "error") and words in finding.message
        assert driver.observe(launch("k")).findings == () and driver.starts == 2


def test_bytes_outside_a_buffer_are_reported(driver: CudaDriver) -> None:
    with driver:
        (finding,) = driver.observe(launch("beyond")).findings
    assert finding.code == "card-guard" and "byte 32" in finding.message and "32 bytes" in finding.message


def test_ptx_that_the_card_does_not_take_is_an_error(driver: CudaDriver) -> None:
    with driver:
        with pytest.raises(TileproofError, match="rejected this launch"):
            driver.observe(launch("refused"))
        assert driver.observe(launch("k")).findings == () and driver.starts == 1


def test_without_a_card(tmp_path: Path) -> None:
    try:
        CudaDriver().start()
    except TileproofError as error:
        assert "no CUDA card" in str(error) and "--driver emulator" in str(error)
    else:
        pytest.skip("this machine has a CUDA card")


def test_what_is_not_judged_is_named() -> None:
    assert not_judged(frozenset(NOT_JUDGED)) == ()
    assert len(not_judged(CudaDriver.capabilities)) == 5


def test_retarget_changes_the_target_alone() -> None:
    ptx = ".version 8.8\n.target sm_100a\n// .target sm_100a stays in words\n"
    assert retarget(ptx, "sm_90") == ".version 8.8\n.target sm_90a\n// .target sm_100a stays in words\n"


def test_check_without_a_card_ends_in_2_and_says_so() -> None:
    """Before anything is built, so that it needs no compiler either."""
    try:
        CudaDriver().start()
    except TileproofError:
        seen = CliRunner().invoke(main, ["check", "head128-part0", "--driver", "cuda", "--json"])
        assert seen.exit_code == 2
        error = json.loads(seen.stdout)["error"]
        assert error["what"] == "there is no CUDA card to run on" and "emulator" in error["do"]
    else:
        pytest.skip("this machine has a CUDA card")


@pytest.mark.parametrize("words", (["--policy", "late"], ["--mma", "exact"], ["--strict"]))
def test_options_that_a_card_cannot_follow_are_named(words: list[str]) -> None:
    seen = CliRunner().invoke(main, ["check", "head128-part0", "--driver", "cuda", *words])
    assert seen.exit_code == 2 and words[0] in seen.output


def test_recorded_addresses_move_and_items_are_written_anew() -> None:
    """A card does not keep the addresses of a recording: its pointers into buffers follow the buffers."""
    buffers = (
        LaunchBuffer("a", "uint8", (64,), "output", address=0x4CC700000000),
        LaunchBuffer("b", "uint8", (16,), "output", address=0x4CC700200000),
        LaunchBuffer("c", "uint8", (8,), "output"),
    )
    words = np.array([0x4CC700000000, 0x4CC700000040, 0x4CC700000041, 0x4CC700200008, 7], np.uint64)
    content = words.view(np.uint8)
    assert pointers(content, buffers).tolist() == [True, True, False, True, False]
    got = moved(content, buffers, {"a": 0x1000, "b": 0x9000, "c": 0})
    assert got is not None
    assert got.view(np.uint64).tolist() == [0x1000, 0x1040, 0x4CC700000041, 0x9008, 7]
    assert moved(None, buffers, {}) is None and words[0] == 0x4CC700000000
    item = PlacedItem(8, PointerArgument("a"))
    there = placed(content, [item], lambda _: (5).to_bytes(8, "little"))
    assert there is not None and there.view(np.uint64).tolist() == [words[0], 5, *words[2:]]


def test_bytes_of_two_drivers_without_their_pointers() -> None:
    buffers = (LaunchBuffer("a", "uint8", (64,), "output", address=0x4CC700000000),)
    want = np.array([0x4CC700000008, 1, 2], np.uint64).view(np.uint8)
    got = np.array([0x1008, 1, 3], np.uint64).view(np.uint8)
    whole = LaunchBuffer("x", "uint8", (24,), "inout", InlineBytes(want.tobytes()))
    written = np.ones(24, bool)
    found = compared(whole, buffers, Output(want, written), Output(got, written))
    assert found == {"bytes": 24, "written": 24, "differ": 1, "first": [[16, 2, 3]]}
    # What the emulator's launch did not write into an output has no value on either side.
    blank = LaunchBuffer("x", "uint8", (24,), "output")
    found = compared(blank, buffers, Output(want, np.arange(24) < 16), Output(got, written))
    assert found["differ"] == 0


def test_a_launch_keeps_its_cluster_and_may_be_programmatic() -> None:
    api = pytest.importorskip("cuda.bindings.driver")
    config: Any = launch_config(api, (2, 1, 1), (32, 1, 1), 0, (2, 1, 1), programmatic=True)
    cluster, programmatic = config.attrs
    assert config.numAttrs == 2 and cluster.value.clusterDim.x == 2
    assert programmatic.id.name == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert programmatic.value.programmaticStreamSerializationAllowed == 1
    plain: Any = launch_config(api, (2, 1, 1), (32, 1, 1), 0)
    assert plain.numAttrs == 0
