"""`explore`, `trace`, `time` and `inspect` take a launch file as they take a kernel."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tileproof.conformance.cli.app import main
from tileproof.conformance.cli.trace import joined
from tileproof.conformance.verdict.jsonform import parse
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.finding import Finding

from tests.kit.newcomer import write_scale


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with scale.json (right) and broken.json (a wait without its loop)."""
    write_scale(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def twice(folder: Path) -> None:
    """twice.json: the launch of scale.json two times, the second into another output."""
    data = json.loads((folder / "scale.json").read_text())
    second = json.loads(json.dumps(data["steps"][0]))
    second["arguments"][0]["buffer"] = "again"
    data["buffers"].append({"name": "again", "dtype": "float32", "shape": [128], "role": "output"})
    data["steps"].append(second)
    (folder / "twice.json").write_text(json.dumps(data))


def explored(*words: str) -> tuple[int, dict[str, Any]]:
    done = run("explore", *words, "--schedules", "8", "--shrink", "2", "--json")
    return done.exit_code, json.loads(done.stdout)


def read_back(row: dict[str, Any]) -> Finding:
    """The published form of a finding of `explore`."""
    found = parse(Finding, row["finding"], "finding")
    assert found.replay == row["replay"]
    return found


def test_explore_passes_a_right_launch_file_and_lists_what_is_not_judged(folder: Path) -> None:
    code, made = explored("scale.json", "--expect", "ref.py")
    assert (code, made["verdict"], made["findings"]) == (0, "clean", [])
    assert [line.split(":")[0] for line in made["not_judged"]] == ["plan"]
    code, made = explored("scale.json")
    assert code == 0 and [line.split(":")[0] for line in made["not_judged"]] == ["values", "plan"]


def test_explore_finds_the_race_and_its_replay_shows_it(folder: Path) -> None:
    code, made = explored("broken.json", "--expect", "ref.py")
    assert code == 1
    races = {finding["code"]: finding for finding in made["findings"]}
    published = read_back(races["race-copy-unwaited"])
    assert published.code == "race-copy-unwaited" and published.machine.race and published.cause
    replay = shlex.split(races["race-copy-unwaited"]["replay"])
    assert replay[:5] == ["tileproof", "explore", "broken.json", "--expect", "ref.py"]
    code, again = explored(*replay[2:])
    assert code == 1 and "race-copy-unwaited" in {finding["code"] for finding in again["findings"]}


def test_explore_finds_a_wrong_value_by_the_reference(folder: Path) -> None:
    (folder / "ref.py").write_text("def reference(x, factor):\n    return {'out': factor * x + 1}\n")
    code, made = explored("scale.json", "--expect", "ref.py")
    assert code == 1 and [finding["code"] for finding in made["findings"]] == ["wrong-value"]
    assert made["findings"][0]["place"] == "out[0]"
    published = read_back(made["findings"][0])
    assert (published.code, published.problem.array, published.problem.index) == ("value", "out", (0,))


def test_explore_finds_an_error_in_either_launch(folder: Path) -> None:
    twice(folder)
    assert explored("twice.json")[1]["verdict"] == "clean"
    data = json.loads((folder / "twice.json").read_text())
    data["modules"].append({"name": "wrong", "code": {"kind": "ptx file", "path": "broken.ptx"}})
    data["steps"][0]["module"], data["steps"][1]["module"] = "m", "wrong"
    (folder / "second.json").write_text(json.dumps(data))
    code, made = explored("second.json")
    assert code == 1 and "race-copy-unwaited" in {finding["code"] for finding in made["findings"]}


def test_trace_names_the_barriers_of_the_file(folder: Path) -> None:
    done = run("trace", "scale.json", "--text", "--out", "t.json", "--picture", "t.png")
    assert done.exit_code == 0 and "wait mbarrier full phase 0" in done.stdout
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    assert (folder / "t.png").read_bytes().startswith(b"\x89PNG")
    done = run("trace", "scale.json", "--text", "--barrier", "mbarrier full")
    assert done.exit_code == 0 and "named barrier" not in done.stdout and "full" in done.stdout


def test_trace_of_a_race_has_the_finding_at_its_instruction(folder: Path) -> None:
    done = run("trace", "broken.json", "--out", "t.json")
    assert done.exit_code == 1 and "ld.shared.f32 reads shared byte" in done.stderr
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    (instant,) = (event for event in events if event.get("cat") == "finding")
    assert instant["name"] == "finding race-copy-unwaited" and instant["args"]["cause"]
    assert run("trace", "broken.json", "--no-races", "--text").exit_code == 0


def test_trace_of_a_hang_ends_with_1(folder: Path) -> None:
    text = (folder / "scale.ptx").read_text()
    (folder / "scale.ptx").write_text(text.replace("[full], 256", "[full], 260"))
    done = run("trace", "scale.json", "--text")
    assert done.exit_code == 1 and "hang" in done.stderr


def test_trace_of_several_launches(folder: Path) -> None:
    twice(folder)
    done = run("trace", "twice.json", "--text", "--out", "t.json")
    assert done.exit_code == 0 and "twice" not in done.stdout
    assert "scale, launch 0 (scale)" in done.stdout and "scale, launch 1 (scale)" in done.stdout
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert len(named) == len(set(named)) == 4 and len({event["pid"] for event in events}) == 4
    text = run("trace", "twice.json", "--text", "--launch", "1").stdout
    assert text and "launch 0" not in text and text in done.stdout
    assert "the launch file has no such launch" in run("trace", "twice.json", "--launch", "2").stderr


def test_joined_traces_follow_one_another() -> None:
    trace: dict[str, Any] = {
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "CTA 0"}},
            {"ph": "X", "name": "wait", "pid": 0, "tid": 0, "ts": 3, "dur": 2},
            {"ph": "s", "name": "completes", "pid": 0, "tid": 0, "ts": 3, "id": 1},
        ]
    }
    both = joined([("a", trace), ("b", trace)])["traceEvents"]
    assert [e["ts"] for e in both if e["ph"] == "X"] == [3, 8]
    assert [e["args"]["name"] for e in both if e["ph"] == "M"] == ["a: CTA 0", "b: CTA 0"]
    assert len({e["id"] for e in both if e["ph"] == "s"}) == 2


def test_time_of_each_launch(folder: Path) -> None:
    twice(folder)
    done = run("time", "twice.json", "--json", "--out", "t.json")
    assert done.exit_code == 0, done.output
    first, second = json.loads(done.stdout)["launches"]
    assert first["clocks"]["best"] <= first["clocks"]["likely"] <= first["clocks"]["worst"]
    assert first["ctas"] == 2 and first["clocks"] == second["clocks"]
    assert {share["name"] for role in first["roles"] for share in role["waits"]} > {"mbarrier full"}
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    slower = json.loads(run("time", "twice.json", "--json", "--set", "copy_latency=5000").stdout)
    assert slower["launches"][0]["clocks"]["likely"] > first["clocks"]["likely"] + 3000


def test_time_refuses_a_launch_with_an_error(folder: Path) -> None:
    text = (folder / "scale.ptx").read_text()
    (folder / "scale.ptx").write_text(text.replace("[full], 256", "[full], 260"))
    done = run("time", "scale.json")
    assert done.exit_code == 2 and "its time is meaningless" in done.stderr


def test_inspect_prints_the_modules(folder: Path) -> None:
    of_ptx, of_file = run("inspect", "scale.ptx"), run("inspect", "scale.json")
    assert of_ptx.exit_code == of_file.exit_code == 0 and of_ptx.stdout == of_file.stdout
    twice(folder)
    data = json.loads((folder / "twice.json").read_text())
    data["modules"].append({"name": "wrong", "code": {"kind": "ptx file", "path": "broken.ptx"}})
    for step in data["steps"]:
        step["module"] = "m"
    (folder / "twice.json").write_text(json.dumps(data))
    made = json.loads(run("inspect", "twice.json", "--json").stdout)
    assert [module["module"] for module in made] == ["module m", "module wrong"]
    assert "has no such kernel" in run("inspect", "scale.json", "--entry", "none").stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("explore", "--blocks=3"), ("explore", "--plant=x"), ("trace", "--variant=d_qk=576"),
        ("trace", "--plant=x"), ("time", "--sensitivity"),
    ],
)  # fmt: skip
def test_options_of_kernels_are_refused_by_name(folder: Path, command: str, option: str) -> None:
    done = run(command, "scale.json", option)
    assert done.exit_code == 2 and option.split("=")[0] in done.stderr and "launch file" in done.stderr


def test_a_python_launch_file_and_a_folder(folder: Path) -> None:
    (folder / "case").mkdir()
    data = json.loads((folder / "scale.json").read_text())
    data["modules"][0]["code"]["path"] = "../scale.ptx"
    (folder / "case" / "launch.json").write_text(json.dumps(data))
    (folder / "launch.py").write_text(
        "from tileproof.launches import read\n\n\ndef launch():\n    return read('scale.json')\n"
    )
    for given in ("case", "launch.py"):
        assert run("trace", given).exit_code == 0
    file = jsonform.read(folder / "scale.json")
    assert isinstance(file, LaunchFile) and file.name == "scale"


def test_a_campaign_of_a_launch_file_has_its_schedules_and_mutants(folder: Path) -> None:
    few = ("--schedules", "8", "--shard", "4", "-j", "2", "--json")
    right = run("campaign", "scale.json", "--expect", "ref.py", *few, "--drawn", "2", "--out", "right")
    made = json.loads(right.stdout)
    assert (right.exit_code, made["passed"], made["work"]) == (0, 3, {"drawn mutants": 2, "schedules": 8})
    (part,) = made["mutation"]
    assert part["launch file"] == "scale.json" and sum(part["outcomes"].values()) == 2
    # A race that only some schedules show, and values that all schedules have wrong.
    assert run("campaign", "broken.json", *few, "--out", "broken").exit_code == 1
    (folder / "off.py").write_text("def reference(x, factor):\n    return {'out': factor * x + 1}\n")
    off = run("campaign", "scale.json", "--expect", "off.py", *few[:-1], "--out", "off")
    assert off.exit_code == 1 and "output out differs from the reference" in off.stdout
    replay = next(line.split("replay: ")[1] for line in off.stdout.splitlines() if "replay: " in line)
    assert run(*shlex.split(replay)[1:]).exit_code == 1
