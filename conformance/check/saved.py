"""An example of `check` as a folder that can be judged anywhere: the launch, the case, the expected tiles.

    launch.json, *.npy, kernel.ptx    the launch of the production build, with its inputs
    probe.json, probe.ptx             that of the probe build, where the kernel has a probe build
    case.json                         kernel, variant, problem, plan, case, schedule, the finding
    expected.npz                      each observed tile: its reference value and its bound

`judge FOLDER` needs neither the kernel's sources nor a compiler; the problem type must be installed, because
stages are judged on the kernel's own inputs of each stage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType

import numpy as np
from tileproof import __version__
from tileproof.conformance.cases.generators import from_json
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.compare.compare import index
from tileproof.conformance.compare.rows import plant_canaries
from tileproof.conformance.drivers.driver import Driver
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import Chain
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.conformance.verdict.program import redecided
from tileproof.kernels.compile import Built
from tileproof.kernels.image import Ptx
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.contents import regular_file
from tileproof.kernels.launch.model import LaunchFile, LaunchModule, PtxFile
from tileproof.kernels.paths import require_file
from tileproof.kernels.variant import Variant
from tileproof.spec import plan as plans
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import POLICIES, SEEDED, Schedule
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import AnyCase, ProblemInputs

SCHEMA, SCHEMA_VERSION = "tileproof-case", 1
FILE, LAUNCH, PROBE, EXPECTED = "case.json", "launch.json", "probe.json", "expected.npz"
# The fields of case.json that `load` reads, with the types of their values.
_FIELDS: dict[str, tuple[type, ...]] = {
    "plan": (dict,), "case": (str,), "inputs_sha256": (str,), "entry": (str,), "probe": (str, NoneType),
    "variant": (dict,), "kernel": (str,), "schedule": (dict,), "tool": (str,), "stages": (list,),
}  # fmt: skip


@dataclass(frozen=True)
class SavedCase:
    """A saved example as it was read: the kernel in its folder, its case, the schedule it was saved for."""

    under_test: KernelUnderTest
    case: AnyCase
    schedule: Schedule


class NotInstalled(TileproofError):
    """The problem type of a saved example, or its version, is not here: its stages cannot be judged."""


def without_stages(made: VerdictRecord, error: TileproofError, folder: Path) -> VerdictRecord:
    """The verdict on the launch alone, with the stages listed as not judged, and the findings that the
    example in `folder` was saved with.
    """
    before = _read(folder / FILE).get("findings")
    messages = [finding.get("message") for finding in before or () if isinstance(finding, dict)]
    known = f"; saved with the finding: {messages[0]}" if messages else ""
    others = [check for check in made.checks if check.name != "stages"]
    missing = CheckOutcome(
        "stages", True, "not run", f"{error.what} ({error.found}): the launch alone was judged{known}"
    )
    return redecided(made, [*others, missing])


def is_saved(folder: Path) -> bool:
    """Whether a folder holds a saved example."""
    return (folder / FILE).is_file()


def save(
    folder: Path,
    under_test: KernelUnderTest,
    case: AnyCase,
    schedule: Schedule,
    findings: Sequence[Finding] = (),
) -> Path:
    """Writes an example into a folder, which is made; TileproofError when it cannot be written."""
    kernel, plan, inputs = under_test.kernel, under_test.plan(), case.inputs()
    launch = kernel.launch(inputs, under_test.production)
    data = {
        "schema": SCHEMA, "schema_version": SCHEMA_VERSION, "tool": __version__, "kernel": kernel.name,
        "variant": dict(under_test.variant.sizes), "problem": plan.problem.name, "case": case.as_json(),
        "inputs_sha256": _digest(inputs), "entry": under_test.production.entry,
        "schedule": {"policy": schedule.policy, "seed": schedule.seed if schedule.policy in SEEDED else 0},
        "probe": None, "stages": list(under_test.stages), "plan": dump_plan(plan),
        "findings": [
            {
                "code": finding.code, "stage": finding.problem.stage, "message": finding.message,
                "expected": finding.expected, "found": finding.found, "cause": finding.cause,
            }
            for finding in findings
        ],
    }  # fmt: skip
    tiles = expected_tiles(under_test, launch, inputs, schedule)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_launch(launch, folder / LAUNCH, "kernel.ptx")
        if under_test.probe is not None:
            probe = under_test.probe()
            data["probe"] = probe.entry
            _write_launch(kernel.launch(inputs, probe, True), folder / PROBE, "probe.ptx")
        np.savez_compressed(folder / EXPECTED, **tiles)  # type: ignore[arg-type]
        (folder / FILE).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise TileproofError("the example cannot be saved", where=str(folder), found=str(error)) from None
    return folder


def expected_tiles(
    under_test: KernelUnderTest, launch: LaunchFile, inputs: ProblemInputs, schedule: Schedule
) -> dict[str, np.ndarray]:
    """Each observed tile of one run: "stage/group/cta/k_block/first row/first column" and behind it "value"
    and "bound", float64 [rows, columns]. The reference is of the inputs that the kernel had for the stage.
    """
    plan = under_test.plan()
    planted = plant_canaries(plan, inputs, launch)
    seen = observe(plan, inputs, under_test.driver.run(planted, plan, schedule, True), "production")
    chain = Chain(inputs, index(seen.tiles), {}, problem=plan.problem, tiling=tiling_of(plan))
    out: dict[str, np.ndarray] = {}
    for tile in seen.tiles:
        reference = chain.reference(tile.stage, tile.coord, tile.rows, tile.cols)
        at = tile.coord
        place = (at.group, at.cta, at.k_block, tile.rows.start, tile.cols.start)
        name = "/".join([tile.stage, *("-" if part is None else str(part) for part in place)])
        out[f"{name}/value"] = np.asarray(reference.value, np.float64)
        out[f"{name}/bound"] = np.asarray(reference.bound, np.float64)
    return out


def load(folder: Path, driver: Driver) -> SavedCase:
    """The example in a folder; TileproofError names what is missing or does not fit, such as a problem type
    that is not installed.
    """
    data = _read(folder / FILE)
    plan = load_plan(data["plan"])
    case = from_json(plan.problem.name, data["case"])
    if _digest(case.inputs()) != data["inputs_sha256"]:
        raise NotInstalled(
            "this version of the problem's generator draws other inputs for the saved case",
            where=str(folder / FILE), expected=f"inputs of Tileproof {data['tool']}",
            found=f"Tileproof {__version__}", do="judge its launch.json alone, or use that version",
        )  # fmt: skip
    launches = {False: _read_launch(folder / LAUNCH)}
    if data["probe"] is not None:
        launches[True] = _read_launch(folder / PROBE)
    entries = {False: data["entry"], True: data["probe"]}
    variant = Variant.of(plan.problem.name, **data["variant"])
    kernel = Kernel(
        name=data["kernel"],
        variants=(variant,),
        plan_of=lambda _: plan,
        image=Ptx(lambda _, probe: launches[probe].ptx, lambda _, probe: entries[probe]),
        describe=lambda inputs, plan, built, probe: launches[probe],
        probe=True in launches,
    )

    def built(probe: bool) -> Built:
        return kernel.build(variant, probe)

    under_test = KernelUnderTest(
        kernel,
        variant,
        built(False),
        (lambda: built(True)) if kernel.probe else None,
        driver,
        tuple(data["stages"]),
    )
    return SavedCase(under_test, case, _schedule(data["schedule"], folder / FILE))


def named(
    path: Path | None, with_reference: bool, driver: Callable[[], Driver]
) -> SavedCase | NotInstalled | None:
    """What a path names, beside a launch file (None): a saved example with its stages; NotInstalled where its
    launch alone can run. With the user's reference a saved example is a launch file too.

    Raises TileproofError as `load` does.
    """
    if path is None or with_reference or not is_saved(path):
        return None
    try:
        return load(path, driver())
    except NotInstalled as error:
        return error


def _read(path: Path) -> UncheckedObject:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TileproofError("the saved case cannot be read", where=str(path), found=str(error)) from None
    found = (
        (data.get("schema"), data.get("schema_version")) if isinstance(data, dict) else type(data).__name__
    )
    if found != (SCHEMA, SCHEMA_VERSION):
        raise TileproofError(
            "this is not a saved case", where=str(path), expected=f"{SCHEMA} {SCHEMA_VERSION}",
            found=str(found),
        )  # fmt: skip
    for name, kinds in _FIELDS.items():
        if name not in data:
            raise TileproofError("the saved case lacks a field", where=str(path), expected=name)
        if not isinstance(data[name], kinds):
            raise TileproofError(
                "a field of the saved case has another type", where=f"{path}: {name}",
                expected=" or ".join(kind.__name__ for kind in kinds), found=type(data[name]).__name__,
            )  # fmt: skip
    return dict(data)


def _schedule(data: UncheckedObject, path: Path) -> Schedule:
    policy, seed = data.get("policy"), data.get("seed")
    if policy not in POLICIES or not isinstance(seed, int):
        raise TileproofError(
            "the schedule of the saved case is wrong", where=f"{path}: schedule",
            expected=f"seed: an integer; policy: {', '.join(POLICIES)}", found=str(data),
            do=did_you_mean(str(policy), POLICIES),
        )  # fmt: skip
    return Schedule(policy, seed)


def _digest(inputs: ProblemInputs) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(vars(inputs).items()):
        if isinstance(value, np.ndarray):
            digest.update(
                f"{name} {value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes()
            )
    return digest.hexdigest()


def _write_launch(launch: LaunchFile, path: Path, ptx: str) -> None:
    """Writes a launch as JSON and its PTX as a file beside it."""
    (path.parent / ptx).write_text(launch.ptx, encoding="utf-8")
    (module,) = launch.modules
    jsonform.write(replace(launch, modules=(LaunchModule(module.name, PtxFile(ptx)),)), path)


def _read_launch(path: Path) -> LaunchFile:
    """A launch file with its PTX as text."""
    launch = jsonform.read(path)
    codes = [module.code for module in launch.modules]
    if len(codes) != 1 or not isinstance(codes[0], PtxFile):
        raise TileproofError(
            "this is not the launch of a saved example", where=str(path), expected="a module, a PTX file",
            found=", ".join(code.kind for code in codes) or "no module",
        )  # fmt: skip
    ptx = path.parent / codes[0].path
    require_file(ptx, "the PTX of the saved example")
    try:
        text = regular_file(ptx).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TileproofError("the PTX cannot be read", where=str(ptx), found=str(error)) from None
    return launch.with_ptx(text)


# ---- plans as data


def dump_plan(value: object) -> Json:
    """A plan as plain data: classes of `spec.plan` by their names, the problem type by its name."""
    if isinstance(value, KernelPlan):
        own = {
            field.name: dump_plan(getattr(value, field.name))
            for field in fields(value)
            if field.name != "problem"
        }
        of = {"problem": value.problem.name}
        if value.problem.rounding_text:
            of["rounding"] = value.problem.rounding_text
        return {"class": "KernelPlan", **of, **own}
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: dump_plan(getattr(value, field.name)) for field in fields(value)}
        return {"class": type(value).__name__, **own}
    return [dump_plan(part) for part in value] if isinstance(value, tuple) else value


def load_plan(data: Json) -> KernelPlan:
    """The plan from plain data; TileproofError if the problem type is not installed, or the data are not a
    plan.
    """
    try:
        plan = _loaded(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise TileproofError(
            "the saved plan does not match this version", found=f"{type(error).__name__}: {error}",
            do="judge its launch.json alone, or use the version that saved it",
        ) from None  # fmt: skip
    if not isinstance(plan, KernelPlan):
        raise TileproofError("the saved plan is not a plan", found=type(plan).__name__)
    return plan


def _loaded(data: Json) -> Json:
    if isinstance(data, list):
        return tuple(_loaded(part) for part in data)
    if not isinstance(data, dict):
        return data
    kind = getattr(plans, data["class"])
    if not is_dataclass(kind) or kind.__module__ != plans.__name__:
        raise TypeError(f"{data['class']} is not a class of plans")
    parts = {
        name: _loaded(value) for name, value in data.items() if name not in ("class", "problem", "rounding")
    }
    if kind is KernelPlan:
        try:
            problem = problem_type(data["problem"])
            parts["problem"] = problem.rounded_as(data["rounding"]) if "rounding" in data else problem
        except TileproofError as error:
            raise NotInstalled(
                error.what, where="case.json", expected=error.expected, found=error.found, do=error.do
            ) from None
    return kind(**parts)
