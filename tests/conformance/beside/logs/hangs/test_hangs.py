"""Every planted hang, in every wording: the root and the cause are named; a clean run is called clean."""

from pathlib import Path

import pytest
from tileproof.conformance.beside.logs.hangs.render import diagnose
from tileproof.conformance.beside.logs.hangs.text import text

from tests.kit.hang_logs.wordings import SEVEN, label, log
from tests.kit.pipelines import DEFECTS, kernel

SEEDS = (0, 1, 2)


def _key(name: str) -> str:
    return name.lower().replace("_", "").removeprefix("mbar").removeprefix("bar").removesuffix("bar")


@pytest.mark.parametrize("wording", SEVEN)
@pytest.mark.parametrize("defect", DEFECTS)
def test_root_and_cause_of_a_planted_hang(tmp_path: Path, defect: str, wording: str) -> None:
    actors, barriers, codes = DEFECTS[defect]
    roots = {(label(wording, role), cta) for role, cta in actors}
    for seed in SEEDS:
        machine = kernel(defect)
        said = machine.run(seed)
        assert machine.hung, "the planted defect must hang"
        path = tmp_path / f"{seed}.txt"
        path.write_text(log(said, wording))
        found = diagnose(path)
        told = text(found)
        assert found["outcome"] == "hang", told
        root = found["root"]
        assert root is not None, told
        assert (root["actor"]["role"].lower(), root["actor"]["cta"]) in {(r.lower(), c) for r, c in roots}, (
            told
        )
        assert _key(root["barrier"]) in {_key(name) for name in barriers}, told
        assert found["causes"][0]["code"] in codes, told
        assert found["causes"][0]["lines"], told


@pytest.mark.parametrize("wording", SEVEN)
def test_blocked_actors_are_those_that_hang(tmp_path: Path, wording: str) -> None:
    """The last states agree with the machine: exactly its blocked actors, on their barriers and phases."""
    for defect in DEFECTS:
        machine = kernel(defect)
        path = tmp_path / f"{defect}.txt"
        path.write_text(log(machine.run(7), wording))
        told = {
            (wait["actor"]["role"].lower(), wait["actor"]["cta"], _key(wait["barrier"]), wait["phase"])
            for wait in diagnose(path)["blocked"]
        }
        truth = {
            (label(wording, role).lower(), cta, _key(op.barrier), op.parity)
            for (role, cta), op in machine.hung.items()
            if op.kind == "wait"
        }
        assert told == truth, defect


@pytest.mark.parametrize("wording", SEVEN)
def test_a_clean_run_is_called_clean(tmp_path: Path, wording: str) -> None:
    machine = kernel()
    path = tmp_path / "clean.txt"
    path.write_text(log(machine.run(0), wording))
    assert not machine.hung
    found = diagnose(path)
    assert found["outcome"] == "no hang seen", text(found)
    assert found["root"] is None and not found["causes"] and not found["blocked"]
    assert text(found).startswith("NO HANG SEEN")
