"""Kernels that live elsewhere pass through every command; broken packages do not stand in the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tileproof.conformance.cli.app import main
from tileproof.kernels import registry
from tileproof.kernels.compile import ROOT
from tileproof.spec.machine.errors import TileproofError

# A copy of head128-part0 under another name, with sources of its own.
PACKAGE = """
from dataclasses import replace
from pathlib import Path

from tileproof.kernels.edit import Edit, InStage, PlantedDefect, Place, Reported
from tileproof.kernels.image import Sources
from tileproof.kernels.sm100.head128_part0.host import describe
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.plans import head128_part0


def plan(variant):
    return replace(head128_part0.plan(variant["d_qk"]), name="acme-scores")


KERNEL = "sm100/head128_part0/kernel.cuh"
NOT_STORED = Place("if (lane < Sum::kHeadsPerWarp) params.delta[first_row + lane] = delta;", KERNEL)
READ = Place("ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);"
             "ptx::wait_tmem_loads();", KERNEL, opcode="tcgen05.wait::ld")
DEFECTS = (
    PlantedDefect("acme-delta", "delta is never stored", "", "acme-scores", (Edit(NOT_STORED),),
           InStage("delta", "every head")),
    PlantedDefect("acme-read", "P is freed before it has been read", "", "acme-scores", (Edit(READ),),
           Reported("race-tmem-unwaited", "tcgen05.mma", "tcgen05.ld", "wait::ld")),
)

KERNELS = Kernel(
    name="acme-scores",
    variants=(Variant.of("sparse_mla_bwd", h_q=128, d_qk=512),),
    plan_of=plan,
    image=Sources(
        main="scores/kernel.cu", folders=("scores", "sm100", "sm100/head128_part0"),
        root=Path(__file__).parent / "cuda",
    ),
    describe=describe,
    defects=lambda: DEFECTS,
)
"""


def package(folder: Path, name: str = "acme_kernels", text: str = PACKAGE, point: str = "") -> Path:
    """A package, installed as pip would leave it: a module and a dist-info with its entry point."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    shutil.copytree(
        ROOT / "sm100", folder / name / "cuda" / "sm100", ignore=shutil.ignore_patterns("*.py", "*pyc*")
    )
    own = folder / name / "cuda" / "scores"
    shutil.move(folder / name / "cuda" / "sm100" / "head128_part0" / "kernel.cu", own.parent / "kernel.cu")
    own.mkdir()
    shutil.move(own.parent / "kernel.cu", own / "kernel.cu")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    target = point or f"{name}:KERNELS"
    (info / "entry_points.txt").write_text(f"[tileproof.kernels]\n{name} = {target}\n")
    return folder / name


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages on the path; what is registered is read again before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.forget()
    yield tmp_path
    registry.forget()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def as_json(*words: str) -> dict:  # type: ignore[type-arg]
    found = run(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def passes_through_every_command(name: str) -> None:
    built = json.loads(run("build", name, "--json").stdout)
    assert [row["entry"] for row in built] == [
        "tileproof_acme_scores_d_qk512_h_q128", "tileproof_acme_scores_d_qk512_h_q128_probe"
    ]  # fmt: skip
    checked = as_json("check", name, "--examples", "4")
    assert checked["verdict"] == "clean" and set(checked["results"][0]["stages"]) >= {"delta", "P"}
    assert checked["results"][0]["variant"] == {"d_qk": 512, "h_q": 128}
    assert as_json("explore", name, "--schedules", "4")["verdict"] == "clean"
    planted = run("explore", name, "--schedules", "2", "--plant", "acme-read")
    assert planted.exit_code == 1 and "race-tmem-unwaited" in planted.output
    killed = as_json("plant", name, "--examples", "5")
    assert [(row["defect"], row["outcome"]) for row in killed["defects"]] == [
        ("acme-delta", "killed"), ("acme-read", "killed")
    ]  # fmt: skip
    trace = run("trace", name, "--blocks", "1", "--text")
    assert trace.exit_code == 0 and "p_ready" in trace.output


def test_a_registered_package_passes_through_every_command(installed: Path) -> None:
    package(installed)
    registry.forget()
    assert "acme-scores" in run("kernels").output
    passes_through_every_command("acme-scores")


def test_a_path_passes_through_every_command(tmp_path: Path) -> None:
    passes_through_every_command(str(package(tmp_path)))


def test_its_source_places_are_its_own(tmp_path: Path) -> None:
    target = registry.kernel(str(package(tmp_path)))
    ptx = target.build(target.variants[0]).ptx
    assert '"cuda/scores/kernel.cu"' in ptx and '"kernels/' not in ptx


def test_a_mutant_that_survives_is_reported(tmp_path: Path) -> None:
    """One that changes nothing, and one that is found elsewhere than it says."""
    text = PACKAGE.replace("(Edit(NOT_STORED),)", "(Edit(NOT_STORED, NOT_STORED.text),)")
    text = text.replace("race-tmem-unwaited", "race-exit")
    seen = run("plant", str(package(tmp_path, text=text)), "--examples", "2", "--json")
    assert seen.exit_code == 1, seen.output
    first, second = json.loads(seen.stdout)["defects"]
    assert first["outcome"] == "survived 2 examples" and "race-tmem-unwaited" in second["outcome"]
    assert run("plant", "head64", "--only", "acme-delta").exit_code == 2


PTX = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry {entry}() {{ ret; }}
"""


def ptx_kernel(text: str, entry: str) -> str:
    """The package with PTX in place of sources, which is the Python expression `text`."""
    head, _, tail = PACKAGE.replace("image import Sources", "image import Ptx").partition(
        "    image=Sources("
    )
    _, _, tail = tail.partition("    ),\n")
    return f"{head}    image=Ptx(lambda v, probe: {text}, lambda v, probe: {entry!r}), probe=False,\n{tail}"


def test_ptx_without_the_entry_is_named(tmp_path: Path) -> None:
    package(tmp_path, text=ptx_kernel(repr(PTX.format(entry="other")), "wanted"))
    with pytest.raises(TileproofError, match="no such entry") as caught:
        target = registry.kernel(str(tmp_path / "acme_kernels"))
        target.build(target.variants[0])
    assert (caught.value.expected, caught.value.found) == ("wanted", "other")


def test_a_kernel_of_ptx_alone_is_judged_on_what_it_has(tmp_path: Path) -> None:
    found = registry.kernel("head128-part0")
    built = found.build(found.variant(d_qk=512))
    (tmp_path / "scores.ptx").write_text(built.ptx)
    package(tmp_path, text=ptx_kernel(f"Path({str(tmp_path / 'scores.ptx')!r})", built.entry))
    checked = as_json("check", str(tmp_path / "acme_kernels"), "--examples", "3")
    (result,) = checked["results"]
    assert result["verdict"] == "clean" and set(result["stages"]) == {"delta", "P"}
    assert result["tiles_equal_in_both_builds"] == 0
    assert result["driver"] == "emulator"
    assert result["not_judged"] == ["the probe build: the kernel has none"]
    (row,) = json.loads(run("build", str(tmp_path / "acme_kernels"), "--json").stdout)
    assert (row["entry"], row["registers"]) == (built.entry, "")
    (tmp_path / "scores.ptx").unlink()
    gone = run("build", str(tmp_path / "acme_kernels"))
    assert gone.exit_code == 2 and "PTX cannot be read" in gone.output


def test_source_without_the_entry_is_named(tmp_path: Path) -> None:
    folder = package(tmp_path)
    file = folder / "cuda" / "scores" / "kernel.cu"
    file.write_text('extern "C" __global__ void something() {}\n')
    found = run("check", str(folder))
    assert found.exit_code == 2
    assert "no such entry" in found.output and "something" in found.output, found.output


BROKEN = {
    "fails to import": ("import no_such_module_at_all\n", "", "no_such_module_at_all"),
    "has no such attribute": (PACKAGE, "NOTHING", "NOTHING"),
    "gives no kernel": ("KERNELS = 5\n", "", "int"),
    "has a syntax error": ("def (:\n", "", "SyntaxError"),
    "is a function that fails": ("KERNELS = lambda: 1 / 0\n", "", "ZeroDivisionError"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_package_that_cannot_be_loaded_is_named_and_the_others_work(installed: Path, how: str) -> None:
    text, point, says = BROKEN[how]
    name = "broken_" + how.replace(" ", "_")
    package(installed, name, text, point and f"{name}:{point}")
    package(installed)
    registry.forget()
    listed = run("kernels")
    assert listed.exit_code == 0, listed.output
    for named in (name, says, "acme-scores", "head64"):
        assert named in listed.output, listed.output
    assert registry.kernel("head64").name == "head64"
    asked = run("check", name)
    assert asked.exit_code == 2 and says in asked.output


def test_a_plan_that_contradicts_itself_is_named_and_the_others_work(installed: Path) -> None:
    wrong = PACKAGE.replace('name="acme-scores")', 'name="acme-scores", threads=384)')
    package(installed, "contradiction_kernels", wrong)
    registry.forget()
    for command in ("build", "check", "trace", "explore"):
        found = run(command, "acme-scores")
        assert found.exit_code == 2, found.output
        assert "contradicts itself" in found.output and "384 threads" in found.output
    listed = run("kernels")
    assert listed.exit_code == 0 and "contradicts itself" in listed.output and "head64" in listed.output


ALONE = """
from dataclasses import replace
from tileproof.kernels.image import Ptx
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.plans import sm100_gemm
from tileproof.spec.problems.gemm.problem import GEMM

PTX = ".version 8.6\\n.target sm_100a\\n.address_size 64\\n.visible .entry k()\\n{ ret; }\\n"


def made(plan=lambda: sm100_gemm.plan(), text=lambda: PTX, launch=lambda inputs: None):
    variant = Variant.of("gemm_bias", step_m=sm100_gemm.ROWS, step_n=sm100_gemm.COLUMNS)
    image = Ptx(lambda variant, probe: text(), lambda variant, probe: "k")
    return Kernel("alone", (variant,), lambda v: plan(), image, lambda i, *_: launch(i), probe=False)

"""
OWN_FAULTS = {
    "KERNELS = made(plan=lambda: 1 / 0)": (
        "the plan of alone cannot be made",
        "line 17",
        "ZeroDivisionError",
    ),
    "KERNELS = made(plan=lambda: None)": ("a KernelPlan of the problem gemm_bias", "NoneType"),
    "KERNELS = made(plan=lambda: replace(sm100_gemm.plan(), problem=GEMM))": ("found: gemm",),
    "KERNELS = made(plan=lambda: replace(sm100_gemm.plan(), problem='x'))": ("found: str 'x'",),
    "KERNELS = made(text=lambda: {}['ptx'])": ("the PTX of alone cannot be made", "line 17", "KeyError"),
    "KERNELS = made(text=lambda: PTX.replace('k()', 'j()'))": ("no such entry", "name one of its entries"),
    "KERNELS = made(launch=lambda i: i.x)": ("the launch of alone cannot be described", "attribute 'x'"),
    "KERNELS = made()": ("the launch of alone is not a launch", "NoneType"),
}


@pytest.mark.parametrize("text", OWN_FAULTS)
def test_what_a_kernel_s_own_functions_do_wrong_is_named(tmp_path: Path, text: str) -> None:
    """With the line that raised it, and not as an error of Tileproof's."""
    (tmp_path / "alone.py").write_text(ALONE + text + "\n")
    found = run("check", f"{tmp_path}/alone.py", "--examples", "1")
    told = " ".join(found.output.split())
    assert found.exit_code == 2 and all(says in told for says in OWN_FAULTS[text]), found.output
    assert "internal error" not in told


def test_a_name_that_is_taken_is_named(installed: Path) -> None:
    package(installed, "taken_kernels", PACKAGE.replace("acme-scores", "head64"))
    registry.forget()
    assert registry.kernels()["head64"] is registry.own()["head64"]
    assert "has the name of a built-in kernel" in run("kernels").output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("check", "head128-columns", "--variant", "d_qk=64"), "d_qk=576,h_q=128 or d_qk=512,h_q=128"),
        (("check", "head128-columns", "--variant", "h_q=64"), "no such variant"),
        (("trace", "head64", "--variant", "width=5"), "no such variant"),
        (("explore", "head64", "--variant", "576"), "sizes such as d_qk=576"),
        (("build", "head64", "--variant", "d_qk=576", "--d-qk", "512"), "two different widths"),
        (("check", "no/such/kernel.py"), "there is no such file"),
        (("check", "./README.md"), "this file is neither a kernel"),
        (("check", "sm90-gemm", "--plant", "g100-bf16-cut-off"), "belongs to another kernel"),
        (("check", "sm90-gemm-bias", "--plant", "nope"), "s90-bias-halves-exchanged"),
        (("check", "head65"), "there is no such kernel"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_named(words: tuple[str, ...], says: str) -> None:
    found = run(*words)
    assert found.exit_code == 2 and says in " ".join(found.output.split()), found.output


def test_a_case_of_another_variant_is_refused() -> None:
    found = run("check", "head64", "--policy", "early", "--case", '{"d_qk":576}')
    assert found.exit_code == 2 and "d_qk=576,h_q=64" in found.output


def test_several_kernels_in_one_file_are_distinguished(tmp_path: Path) -> None:
    two = PACKAGE + "\nKERNELS = (KERNELS, replace(KERNELS, name='acme-twin'))\n"
    folder = str(package(tmp_path, text=two))
    with pytest.raises(TileproofError, match="several kernels"):
        registry.kernel(folder)
    assert registry.kernel(f"{folder}:acme-twin").name == "acme-twin"
    with pytest.raises(TileproofError, match="no such kernel at this path"):
        registry.kernel(f"{folder}:acme-third")
