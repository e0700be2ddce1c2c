"""The path of somebody who brings PTX and nothing else: `judge --init`, the blanks, then every command."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tileproof.conformance.cli.app import main
from tileproof.kernels.launch.jsonform import blanks

from tests.kit.newcomer import WAIT, page_files

# y[i] = a * x[i] + y[i] over 32 elements of each CTA, without shared memory.
AXPY = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry axpy(.param .u64 y, .param .u64 x, .param .f32 a) .reqntid 32, 1, 1
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [y];
    ld.param.u64 %rd2, [x];
    ld.param.f32 %f1, [a];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, 32, %r2;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd1, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    ld.global.f32 %f2, [%rd2];
    ld.global.f32 %f3, [%rd1];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%rd1], %f3;
    ret;
}
"""
AXPY_REF = "def reference(x, y, a):\n    return {'y': a * x + y}\n"
SCALE_REF = "def reference(map, factor):\n    return {'out': factor * map}\n"
# What a person writes into the blanks, by their places.
AXPY_BLANKS = {
    "buffers[0].shape": [96],
    "buffers[1].shape": [96],
    "steps[0].grid": [3],
    "steps[0].arguments[2].value": 0.5,
}
SCALE_BLANKS = {
    "buffers[0].shape": [128],
    "buffers[1].dtype": "float32",
    "buffers[1].shape": [128],
    "buffers[1].content": {"kind": "normal", "seed": 3},
    "steps[0].grid": [2],
    "steps[0].arguments[1].shape": [128],
    "steps[0].arguments[1].box": [64],
    "steps[0].arguments[2].value": 2.0,
}
# (kernel, its reference, its blanks, a text of its PTX and what a mistake makes of it, the finding's code)
KERNELS = {
    "axpy": (AXPY, AXPY_REF, AXPY_BLANKS, "[%rd2];", "[%rd2+4];", "global-out-of-bounds"),
    "scale": (page_files()["scale.ptx"], SCALE_REF, SCALE_BLANKS, WAIT, "", "race-copy-unwaited"),
}


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def as_json(*words: str) -> tuple[int, dict[str, Any]]:
    done = run(*words)
    return done.exit_code, json.loads(done.stdout)


def fill(path: Path, values: dict[str, Any]) -> None:
    """Writes values in place of the blanks; of a list with one blank in place of the list."""
    data = json.loads(path.read_text())
    asked = {place.removesuffix("[0]") if place.endswith("[0]") else place for place, _ in blanks(data)}
    assert asked == set(values), "the blanks are those that a person would expect"
    for place, value in values.items():
        at: Any = data
        *way, last = [
            int(part) if part.isdigit() else part
            for part in place.replace("]", "").replace("[", ".").split(".")
        ]
        for part in way:
            at = at[part]
        at[last] = value
    path.write_text(json.dumps(data))


@pytest.mark.parametrize("name", KERNELS)
def test_from_ptx_to_every_verdict(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ptx, reference, values, old, new, code_of_defect = KERNELS[name]
    Path("kernel.ptx").write_text(ptx)
    Path("ref.py").write_text(reference)
    expect = ("--expect", "ref.py")

    done = run("inspect", "kernel.ptx")
    assert done.exit_code == 0 and "every instruction is executed" in done.stdout
    refused = run("judge", "kernel.ptx")
    assert refused.exit_code == 2 and "judge kernel.ptx --init" in refused.stdout

    done = run("judge", "kernel.ptx", "--init")
    assert done.exit_code == 0 and "blanks to fill in" in done.stdout
    assert run("judge", "kernel.ptx", "--init").exit_code == 2  # it is not overwritten
    code, made = as_json("judge", "launch.json", "--json", "-")
    assert code == 2 and made["checks"][0]["reason"].startswith("blank left: buffers[0].shape[0]")
    fill(Path("launch.json"), values)

    code, made = as_json("judge", ".", "--schedules", "4", "--json", "-")
    assert (code, made["verdict"]) == (3, "incomplete")  # values were not shown
    code, made = as_json("judge", "launch.json", *expect, "--schedules", "4", "--json", "-")
    assert (code, made["verdict"], made["why"]) == (0, "clean", [])

    done = run("trace", "launch.json", "--out", "trace.json", "--picture", "trace.png", "--text")
    assert done.exit_code == 0 and Path("trace.png").stat().st_size > 1000
    assert json.loads(Path("trace.json").read_text())["traceEvents"]
    code, made = as_json("explore", "launch.json", *expect, "--schedules", "6", "--json")
    assert (code, made["verdict"], made["schedules"]) == (0, "clean", 1)
    code, made = as_json("time", "launch.json", "--json")
    assert code == 0 and made["launches"][0]["clocks"]["likely"] > 100
    code, made = as_json("mutate", "launch.json", *expect, "--count", "4", "--json")
    assert code in (0, 1) and made["score"]["killed"] >= 1
    assert run("check", "launch.json", *expect, "--examples", "4").stdout.startswith("CLEAN")

    code, before = as_json("gate", "launch.json", *expect, "--out", "before", "--json")
    assert (code, before["verdict"]) == (0, "clean")
    assert {check["name"]: check["outcome"] for check in before["kernels"][0]["checks"]}[
        "timing budget"
    ] == "passed"
    page = Path("before/report.html").read_text()
    assert f'<h2 id="{name}-title">' in page and "largest error" in page
    suite = ElementTree.parse("before/junit.xml").getroot()[0]
    assert suite.get("name") == name and int(suite.get("tests", 0)) > 8 and suite.get("failures") == "0"

    # The same with a mistake in the PTX.
    assert ptx.count(old) == 1
    Path("kernel.ptx").write_text(ptx.replace(old, new))
    code, made = as_json("judge", "launch.json", *expect, "--schedules", "6", "--json", "-")
    assert code == 1 and code_of_defect in {finding["code"] for finding in made["findings"]}
    code, made = as_json("explore", "launch.json", *expect, "--schedules", "6", "--shrink", "1", "--json")
    assert code == 1 and code_of_defect in {finding["code"] for finding in made["findings"]}
    code, made = as_json("mutate", "launch.json", *expect, "--count", "1", "--json")
    assert code == 2 and "not clean" in made["error"]["what"]
    words = ("gate", "launch.json", *expect, "--out", "after", "--against", "before", "--json")
    code, after = as_json(*words)
    assert (code, after["verdict"]) == (1, "defect")
    assert any(line.startswith("against the baseline") for line in after["why"])
    assert code_of_defect in Path("after/report.html").read_text()
    suite = ElementTree.parse("after/junit.xml").getroot()[0]
    assert int(suite.get("failures", 0)) >= 1
    sarif = json.loads(Path("after/findings.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    assert code_of_defect in {result["ruleId"] for result in sarif["runs"][0]["results"]}
    assert json.loads(Path("before/findings.sarif").read_text())["runs"][0]["results"] == []
    code, made = as_json("diff", "before", "after", "--json")
    assert code == 1 and made["worse"]
    assert {"verdict", "PTX"} <= {row["what"] for row in made["changes"]}
    assert as_json("diff", "before", "before", "--json")[0] == 0
