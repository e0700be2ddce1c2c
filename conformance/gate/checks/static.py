"""Checks without a run: provenance of the PTX, its SM resources, the promises of its plan."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator

from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.emulator import Module
from tileproof.kernels import compile as compiling
from tileproof.kernels import toolchain
from tileproof.kernels.compile import Resources
from tileproof.kernels.cubin import cubins
from tileproof.kernels.places import without_run
from tileproof.kernels.wrong_code import wrong_code
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES
from tileproof.spec.plans.consistency import TMEM_ALLOCATIONS, contradictions

REGISTER_FILE = 65536  # 32-bit registers of an SM (CUDA programming guide, compute capability 10.0)
REGISTER_UNIT = 8  # registers of a thread are allocated in units of eight


@gate_check("build provenance")
def provenance(gated: GatedVariant) -> CheckReport:
    """The PTX is what the sources compile to and assembles for each of its targets, its entry and shape are
    the plan's, every instruction is executed.
    """
    built, plan = gated.built, gated.plan
    entry = gated.kernel.entry(gated.variant)
    details: dict[str, object] = {"ptx_sha256": sha256(built.ptx), "entry": built.entry}
    info = next((e for e in Module.from_ptx(built.ptx).inspect().entries if e.name == entry), None)
    if built.entry != entry or info is None:
        return CheckReport("failed", f"the PTX has no entry {entry}", details=details)
    wrong = [f"{form.form} is not executed: {form.why}" for form in info.not_executed] + list(info.problems)
    threads = info.directives.get("reqntid") or info.directives.get("maxntid")
    if threads and _product(threads) != plan.threads and "reqntid" in info.directives:
        wrong.append(f".reqntid is {_product(threads)} threads; the plan has {plan.threads}")
    cluster = info.directives.get("reqnctapercluster")
    if cluster and _product(cluster) != plan.cluster:
        wrong.append(f".reqnctapercluster is {_product(cluster)}; the plan's cluster is {plan.cluster}")
    if gated.kernel.sources:
        details["toolchain"] = toolchain.find().version
    if gated.kernel.sources and gated.profile != "quick":
        again = compiled_anew(gated)
        if without_run(again) != without_run(built.ptx):
            wrong.append("the sources, compiled again, give different PTX")
        try:
            details["cubin_sha256"] = {cubin.target: cubin.sha256 for cubin in cubins(built)}
        except TileproofError as error:
            wrong.append(str(error))
    if gated.profile != "quick":
        try:  # a warning: which ptxas the kernel's users have is not known here
            details["wrong_code"] = [str(found) for found in wrong_code(built.ptx)]
        except TileproofError as error:
            details["wrong_code"] = [f"not checked: {error.what}"]
    return CheckReport.of("; ".join(wrong), details=details)


def sha256(text: str) -> str:
    """Of a PTX text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _product(numbers: tuple[int, ...]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def compiled_anew(gated: GatedVariant) -> str:
    """The PTX of the kernel's sources, made in an empty cache."""
    with tempfile.TemporaryDirectory(prefix="tileproof-gate-") as folder, cache_in(folder):
        edits = () if gated.planted is None else gated.planted.edits
        return gated.kernel.build(gated.variant, False, edits).ptx


@contextlib.contextmanager
def cache_in(folder: str) -> Iterator[None]:
    """While it lasts, builds are cached there."""
    before = os.environ.get("TILEPROOF_CACHE")
    os.environ["TILEPROOF_CACHE"] = folder
    try:
        yield
    finally:
        os.environ.pop("TILEPROOF_CACHE")
        if before is not None:
            os.environ["TILEPROOF_CACHE"] = before


@gate_check("resource budgets")
def resources(gated: GatedVariant) -> CheckReport:
    """Registers, spills, shared and tensor memory fit into one SM, by ptxas and by the plan."""
    plan, built = gated.plan, gated.built
    try:
        use = built.resources or compiling.resources_of(built.ptx, built.entry)
    except TileproofError as error:
        if gated.kernel.sources:
            raise
        return CheckReport("unsupported", f"{error.what}: the PTX cannot be assembled here")
    wrong = over_budget(use, plan.threads, plan.smem_bytes, plan.tmem_columns)
    details = {
        "registers": use.registers,
        "stack_bytes": use.stack,
        "spill_bytes": use.spill_stores + use.spill_loads,
        "static_smem": use.static_smem,
        "dynamic_smem": plan.smem_bytes,
        "tmem_columns": plan.tmem_columns,
        "threads": plan.threads,
    }
    return CheckReport.of("; ".join(wrong), details=details)


def over_budget(use: Resources, threads: int, smem_bytes: int, tmem_columns: int) -> list[str]:
    """What of a CTA does not fit into an SM, or does not stay in its registers."""
    wrong = []
    a_thread = -(-use.registers // REGISTER_UNIT) * REGISTER_UNIT
    if a_thread * threads > REGISTER_FILE:
        wrong.append(
            f"{threads} threads of {a_thread} registers need {a_thread * threads}, an SM has {REGISTER_FILE}"
        )
    if use.spill_stores or use.spill_loads:
        wrong.append(f"registers spill: {use.spill_stores} bytes stored, {use.spill_loads} loaded")
    if use.static_smem + smem_bytes > MAX_SHARED_BYTES:
        wrong.append(
            f"{use.static_smem} static and {smem_bytes} dynamic bytes of shared memory, of {MAX_SHARED_BYTES}"
        )
    if tmem_columns and tmem_columns not in TMEM_ALLOCATIONS:
        wrong.append(f"{tmem_columns} columns of tensor memory cannot be allocated")
    return wrong


@gate_check("operand constraints")
def operands(gated: GatedVariant) -> CheckReport:
    """The plan's MMAs, tiles, barriers and tensor memory satisfy the rules of the machine."""
    try:
        plan = gated.kernel.plan_of(gated.variant)
    except TileproofError as error:
        return CheckReport("failed", str(error))
    wrong = contradictions(plan)
    details = {"mmas": len(plan.mmas), "smem_tiles": len(plan.smem), "barriers": len(plan.barriers)}
    return CheckReport.of("; ".join(wrong), details=details)
