"""What the emulator and sentryward say of the small programs; docs/crosscheck.md is measured likewise."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.crosscheck import table
from tileproof.tools.crosscheck.opinion import Opinion, second_opinion
from tileproof.tools.crosscheck.ours import first_opinion
from tileproof.tools.crosscheck.programs import PROGRAMS, KnownProgram, launch_of, programs

INSTALLED = importlib.util.find_spec("sentryward") is not None
needs_sentryward = pytest.mark.skipif(
    not INSTALLED, reason="sentryward, the extra `crosscheck`, is not installed"
)

# The emulator's code for each wrong program; a note where it finds no error. "" is a miss.
OURS = {
    "missing-arrive": "hang",
    "count-too-high": "hang",
    "count-too-low": "race-unordered",
    "never-initialised": "mbarrier-uninitialised",
    "named-count": "barrier-count-mismatch",
    "read-without-wait": "race-unordered",
    "overwrite-without-wait": "race-unordered",
    "wrong-parity": "race-unordered",
    "never-written": "shared-uninitialised",
    "tma-read-early": "race-copy-unwaited",
    "tma-bytes-too-many": "hang",
    "tma-bytes-too-few": "hang",
    "bulk-overwrite": "race-copy-unwaited",
    "bulk-proxy-fence": "race-proxy-fence",
    "mma-read-early": "race-mma-unwaited",
    "mma-overwrite": "race-unordered",
    "mma-no-commit": "hang",
    "mma-not-freed": "tmem-leak",
    "mma-wait-ld": "race-tmem-unwaited",
    "mma-use-before-wait-ld": "note: tmem-ld-not-waited",
    "mma-fence-before": "warning: race-waited-fence",
    "mma-fence-after": "warning: race-commit-fence",
    "mma-proxy-fence": "race-proxy-fence",
    "global-race": "race-unordered",
    "out-of-bounds": "global-out-of-bounds",
    "cluster-no-init-sync": "race-mbarrier-init",
    "cluster-init-fence": "warning: race-mbarrier-init-relaxed",
    "cluster-early-exit": "access-after-exit",
    "cluster-one-address": "race-unordered",
}
# The same of sentryward 0.1.1: its result, and the diagnostic's code where it has no opinion.
THEIRS = {
    "missing-arrive": "not_wellsynced",
    "count-too-high": "not_wellsynced",
    "count-too-low": "not_wellsynced",
    "never-initialised": "no opinion: missing-barrier-initialization",
    "unwaited-phase": "not_wellsynced",  # right by the PTX ISA: it asks for more
    "named-count": "no opinion: invalid_named_barrier",
    "read-without-wait": "not_wellsynced",
    "overwrite-without-wait": "not_wellsynced",
    "wrong-parity": "not_wellsynced",
    "never-written": "race_free",
    "tma-read-early": "potential_race",
    "tma-bytes-too-many": "not_wellsynced",
    "tma-bytes-too-few": "not_wellsynced",
    "bulk-overwrite": "potential_race",
    "bulk-proxy-fence": "race_free",
    "mma-read-early": "not_wellsynced",
    "mma-overwrite": "not_wellsynced",
    "mma-no-commit": "not_wellsynced",
    "mma-not-freed": "no opinion: tmem_missing_dealloc",
    "mma-wait-ld": "potential_race",
    "mma-use-before-wait-ld": "race_free",
    "mma-fence-before": "race_free",
    "mma-fence-after": "race_free",
    "mma-proxy-fence": "race_free",
    "global-race": "potential_race",
    "out-of-bounds": "race_free",
    "cluster-no-init-sync": "not_wellsynced",
    "cluster-init-fence": "race_free",
    "cluster-early-exit": "race_free",
    "cluster-one-address": "potential_race",
    "red": "no opinion: atomic_add_memory_semantics_unsupported",
    "gather4": "no opinion: tma_opcode_variant",
    "mma-ws": "no opinion: tcgen_mma_variant",
    "bulk-copy-out": "no opinion: unsupported_async_instruction",
    "printf": "no opinion: ptx_execution_not_supported",
}
NAMES = [program.id for program in PROGRAMS]


def said(opinion: Opinion) -> str:
    """`result`, or `no opinion: code`."""
    return f"no opinion: {opinion.kinds[1]}" if opinion.outcome == "no opinion" else opinion.kinds[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_emulator(name: str) -> None:
    program = programs()[name]
    opinion = first_opinion(launch_of(program), None, table.RANDOM)
    expected = OURS[name] if program.wrong else ""
    if not expected or expected.startswith(("note: ", "warning: ")):
        assert opinion.outcome == "fine", opinion.lines
        remarks = opinion.remarks[1:]
        assert all(remark.startswith(expected or "-") for remark in remarks) and bool(remarks) == bool(
            expected
        )
    else:
        assert opinion.outcome == "error" and expected in opinion.kinds


@needs_sentryward
@pytest.mark.parametrize("name", NAMES)
def test_sentryward(name: str) -> None:
    opinion = second_opinion(launch_of(programs()[name]))
    assert said(opinion) == THEIRS.get(name, "race_free")
    assert (opinion.outcome == "fine") == (opinion.kinds[0] == "race_free")


def test_every_wrong_program_has_an_answer_of_both() -> None:
    wrong = {program.id for program in PROGRAMS if program.wrong}
    assert set(OURS) == wrong and wrong <= set(THEIRS)
    assert len({program.id for program in PROGRAMS}) == len(PROGRAMS)


def test_a_race_names_both_accesses_and_a_deadlock_its_wait() -> None:
    pytest.importorskip("sentryward", reason="the extra `crosscheck` is not installed")
    race = second_opinion(launch_of(programs()["mma-wait-ld"]))
    assert any("write by tcgen05.mma" in line and "read by tcgen05.ld" in line for line in race.lines)
    stuck = second_opinion(launch_of(programs()["missing-arrive"]))
    assert any("blocked: mbarrier.try_wait" in line for line in stuck.lines)


def test_an_edit_that_does_not_fit_is_refused() -> None:
    program = KnownProgram("x", "barriers", "pipeline", "", "wrong", (("no such text", ""),))
    with pytest.raises(TileproofError, match="does not fit its base"):
        launch_of(program)


def test_an_instruction_that_the_emulator_refuses_is_no_opinion() -> None:
    text = launch_of(programs()["red"]).ptx.replace("red.global.add.f32", "red.global.add.f64")
    made = LaunchBuilder("red", text.replace("0f3F800000", "0d3FF0000000"))
    made.launch("k", grid=(1, 1, 1), block=(64, 1, 1), arguments=[])
    launch = made.file()
    opinion = first_opinion(launch, None, 0)
    assert opinion.outcome == "no opinion" and opinion.kinds == ("refused",)


@needs_sentryward
def test_the_page_says_what_is_measured() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    rows = [table.row(name) for name in NAMES]
    new = table.tables(rows, [], table.date.today())  # type: ignore[attr-defined]
    made = table.fixed(new.partition("\n### The kernels")[0])
    old = table.fixed(table.parts(table.PAGE)[1])
    assert old.startswith(made), "run python -m tileproof.tools.crosscheck.table"
    assert page.index(table.BEGIN) < page.index(table.END)


@needs_sentryward
def test_a_stale_table_is_noticed(tmp_path, monkeypatch, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\n{table.END}\nafter\n")
    monkeypatch.setattr(table, "PROGRAMS", tuple(programs()[name] for name in ("pipeline", "mma-wait-ld")))
    monkeypatch.setattr(table, "kernel_rows", lambda: iter(()))
    arguments = ["--output", str(page)]
    assert table.main([*arguments, "--check"]) == 1
    assert table.main(arguments) == 0 and table.main([*arguments, "--check"]) == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "`mma-wait-ld`" in text
    page.write_text(text.replace("potential_race", "race_free"))
    assert table.main([*arguments, "--check"]) == 1
    assert "stale" in capsys.readouterr().err
    page.write_text("no marks")
    with pytest.raises(TileproofError, match="no place for the tables"):
        table.main(arguments)


def test_launches_are_of_one_cluster_and_small() -> None:
    for program in PROGRAMS:
        launch = launch_of(program).main
        assert launch.grid == launch.cluster and np.prod(launch.block) <= 128
