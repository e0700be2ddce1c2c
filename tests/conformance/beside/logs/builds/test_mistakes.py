"""The mistake of each wrong kernel is reported: code, operand, extents, words, place; of right ones none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.beside.logs.builds.cause import CODES

from tests.kit.mistakes import MISTAKES, Mistake, differs
from tests.kit.wrong_kernels import (
    ALONE,
    COMMAND,
    WRONG,
    Compiled,
    command,
    in_one_unit,
    run,
    said_of,
)

NO_FAILURE = {"spills"}  # it compiles, and is slower


def explained(log: str) -> dict[str, Any]:
    return report.explain(report.parse(log), WRONG / "build.log")


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_named(name: str, compiled: Callable[[str], Compiled]) -> None:
    done = compiled(name)
    assert (done.status != 0) == (name not in NO_FAILURE), done.log
    result = explained(done.log)
    assert differs(MISTAKES[name], result) == []
    # One mistake, one finding: what follows from it is counted with it.
    assert [row["code"] for row in result["findings"]] == [MISTAKES[name].code]
    assert result["findings"][0]["code"] in CODES
    assert report.text(result).count("\n") < 40


def named_rightly(names: list[str], compiled: Callable[[str], Compiled]) -> bool:
    return all(differs(MISTAKES[name], explained(compiled(name).log)) == [] for name in names)


@pytest.mark.corpus("L1")
def test_a_shape_that_does_not_exist_is_said_with_those_that_do(compiled: Callable[[str], Compiled]) -> None:
    assert named_rightly(["m32", "ws_m32_plain_fragment", "ws_n96", "pair_m64", "ts_n24"], compiled)
    assert differs(MISTAKES["m32"], explained(compiled("pair_m64").log))


@pytest.mark.corpus("L3")
def test_clusters_without_pairs_and_names_of_two_libraries(compiled: Callable[[str], Compiled]) -> None:
    assert named_rightly(["cluster_of_one", "layout_ambiguous"], compiled)
    run_time = report.explain(report.parse("RuntimeError: CUDA error: cluster misconfiguration\n"))
    assert run_time["findings"][0]["code"] == "launch"
    assert differs(MISTAKES["cluster_of_one"], run_time)


@pytest.mark.corpus("L4")
def test_layout_errors_are_said_in_extents_and_words(compiled: Callable[[str], Compiled]) -> None:
    assert named_rightly(["b_not_transposed", "n_against_c", "major_of_b", "plain_rows"], compiled)
    assert differs(MISTAKES["n_against_c"], explained(compiled("m_against_c").log))


def test_every_wrong_kernel_has_its_mistake() -> None:
    named = {path.stem for path in WRONG.glob("*.cu")}
    assert named == {*MISTAKES, "two_kernels"}
    assert {mistake.corpus for mistake in MISTAKES.values()} >= {"L1", "L3", "L4"}
    assert len({mistake.code for mistake in MISTAKES.values()}) >= 15


def test_a_log_with_another_kernels_expectation_fails(compiled: Callable[[str], Compiled]) -> None:
    """The expectations are sharp: no log passes for another mistake than its own."""
    results = {name: explained(compiled(name).log) for name in MISTAKES}
    passing = {
        (name, other) for name, result in results.items() for other, mistake in MISTAKES.items()
        if not differs(mistake, result)
    }  # fmt: skip
    assert passing == {(name, name) for name in MISTAKES}


def test_an_expectation_that_is_wrong_in_any_part_fails(compiled: Callable[[str], Compiled]) -> None:
    result = explained(compiled("b_not_transposed").log)
    right = MISTAKES["b_not_transposed"]
    wrong = [
        Mistake("major", right.what, right.fits, right.operand, right.at),
        Mistake(right.code, ("B is [256, 64]",), right.fits, right.operand, right.at),
        Mistake(right.code, right.what, ("K-major only",), right.operand, right.at),
        Mistake(right.code, right.what, right.fits, "A", right.at),
        Mistake(right.code, right.what, right.fits, right.operand, "gemm(mma"),
        Mistake(right.code, right.what, right.fits, right.operand, right.at, (("A", "[64, 256]"),)),
    ]
    assert all(differs(mistake, result) for mistake in wrong)
    assert differs(right, result) == []


@pytest.mark.slow
def test_each_alone_is_reported_as_it_is_among_the_others(
    compiled: Callable[[str], Compiled], tmp_path: Path
) -> None:
    for name in in_one_unit():
        alone = run(command(name, f"{name}.cu", tmp_path / "out"))
        assert alone.status == compiled(name).status != 0
        assert explained(alone.log)["findings"] == explained(compiled(name).log)["findings"], name


def test_a_diagnostic_of_a_unit_has_one_kernel() -> None:
    first, second = (
        "m32.cu(3): error: x\n  y\na.hpp(2): note: z\n",
        "a.hpp(1): error: at line 2 of ws_n96.cu\n",
    )
    log = f'{first}{second}{first}\n3 errors detected in the compilation of "unit.cu".\n'
    assert said_of(log, ["m32", "ws_n96", "k_differs"]) == {"m32": first + first + "\n", "ws_n96": second}
    for wrong in ("a.hpp(1): error: x\n", "m32.cu(1): error: at line 2 of ws_n96.cu\n"):
        with pytest.raises(ValueError, match="a diagnostic of"):
            said_of(wrong, ["m32", "ws_n96"])


def test_what_is_compiled_alone_exists() -> None:
    assert {path.stem for path in WRONG.glob("*.cu")} > ALONE
    assert len(in_one_unit()) > 25


def test_repeated_errors_are_reported_once_with_their_count(compiled: Callable[[str], Compiled]) -> None:
    result = explained(compiled("two_kernels").log)
    first, second = result["findings"]
    assert (first["code"], first["errors"], first["instantiations"]) == ("extent-k", 2, 2)
    assert [path[0]["text"].split("(")[0] for path in first["callers"]] == ["mma_ss", "mma_ss"]
    assert len({path[0]["line"] for path in first["callers"]}) == 2
    assert (second["code"], second["errors"]) == ("extent-n", 1)
    assert "2 errors from 2 instantiations" in report.text(result)


def test_right_kernels_compile_without_a_finding(made_right: Compiled) -> None:
    """The same sources with RIGHT defined, in one translation unit with those of test_advice, through ptxas:
    constexpr_host and arch_without_a by the flag and the target of its command.
    """
    assert made_right.status == 0, made_right.log
    assert explained(made_right.log)["outcome"] == "no errors"


def test_the_commands_of_flag_mistakes_differ() -> None:
    assert COMMAND.keys() <= MISTAKES.keys()
