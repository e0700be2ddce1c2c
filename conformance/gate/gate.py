"""The gate: selects the checks of kernels, runs them and collects their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.gate import difference, runner
from tileproof.conformance.gate.difference import AGAINST
from tileproof.conformance.gate.evidence import (
    ReleaseEvidence,
    again,
    evidence,
    facts_of,
    no_verdict,
    verdict_on,
)
from tileproof.conformance.gate.model import GatedVariant, Profile, checks
from tileproof.conformance.gate.runner import CheckJob, not_run
from tileproof.conformance.gate.store import ResultStore, RunIdentity
from tileproof.conformance.planted.defects import planted_reference
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord, named_check
from tileproof.conformance.verdict.program import ROOT, program, tool_identity
from tileproof.kernels import registry
from tileproof.kernels.edit import PlantedDefect
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class GateOptions:
    """How a gate runs: `workers` processes, `seconds` (0: none) end it, `only` these checks, by name: the
    others count as not run.
    """

    profile: Profile = "quick"
    seed: int = 0
    strict: bool = False
    keep_going: bool = False
    resume: bool = False
    workers: int = 1
    seconds: float = 0.0
    only: tuple[str, ...] = ()


def gate(
    kernels: Sequence[tuple[Kernel, Variant]],
    out: Path,
    options: GateOptions,
    *,
    baseline: ReleaseEvidence | None = None,
    planted: PlantedDefect | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> ReleaseEvidence:
    """Run every check of the profile, and decide. `Stopped` and KeyboardInterrupt end it with the results so
    far. TileproofError when the results cannot be written; a kernel that cannot be built is a
    verdict.
    """
    began = time.time()
    wanted = [check for check in checks().values() if check.wanted(options.profile)]
    with planted_reference(planted):
        variants, verdicts = _built(kernels, options, planted, progress)
        if len(variants) + len(verdicts) < len(kernels):
            return _ended_early(kernels, options)
        jobs = [
            CheckJob(check, gated, gated.key) for gated in variants for check in wanted if not check.release
        ]
        if variants and _is_release(kernels):
            jobs += [CheckJob(check, variants[0], "") for check in wanted if check.release]
        chosen = [job for job in jobs if not options.only or job.check.name in options.only]
        identity = RunIdentity(
            profile=options.profile,
            seed=options.seed,
            strict=options.strict,
            planted=planted.id if planted else "",
            programs={
                variant.key: program(
                    variant.kernel.name, {}, variant.built.entry, variant.built.ptx
                ).ptx_sha256
                for variant in variants
            },
            tool_commit=tool_identity().commit,
            tool_changed=tool_identity().changed,
        )
        store = ResultStore(out / RESULTS, identity, options.resume)
        for note in store.notes:
            progress(note)
        complete = True
        try:
            results = runner.run(
                chosen,
                store,
                workers=options.workers,
                seconds=options.seconds,
                keep_going=options.keep_going,
                progress=progress,
            )
        except (KeyboardInterrupt, Stopped):
            complete = False
            known = dict(store.done)
            results = {job.key: known.get(job.key) or not_run(job, "the run was ended") for job in chosen}
        finally:
            store.close()
        remaining = [job for job in jobs if job.key not in results]
        results |= {job.key: store.done.get(job.key) or runner.skipped(job) for job in remaining}
    verdicts += [
        verdict_on(
            gated,
            [results[job.key] for job in jobs if job.label == gated.key],
            interrupted=False,
        )
        for gated in variants
    ]
    release = [results[job.key].check for job in jobs if not job.label]
    times = {named_check(job.label, job.check.name): results[job.key].seconds for job in jobs}
    if baseline is not None:
        release.append(_against(baseline, verdicts))
    return evidence(
        sorted(verdicts, key=lambda verdict: _place(verdict, kernels)),
        release,
        profile=options.profile,
        seed=options.seed,
        strict=options.strict,
        complete=complete,
        sections={"planted": planted.id} if planted else {},
        run=facts_of(began, times),
    )


def _is_release(kernels: Sequence[tuple[Kernel, Variant]]) -> bool:
    """Whether the checks of the release concern it: a checkout with its docs and tests, and own kernels."""
    own = registry.own()
    checkout = (ROOT / "docs").is_dir() and (ROOT / "tests").is_dir()
    return checkout and any(own.get(kernel.name) is kernel for kernel, _ in kernels)


def _place(verdict: VerdictRecord, kernels: Sequence[tuple[Kernel, Variant]]) -> int:
    names = [(kernel.name, dict(variant.sizes)) for kernel, variant in kernels]
    return names.index((verdict.program.kernel, dict(verdict.program.variant)))


def _built(
    kernels: Sequence[tuple[Kernel, Variant]],
    options: GateOptions,
    planted: PlantedDefect | None,
    progress: Callable[[str], None],
) -> tuple[list[GatedVariant], list[VerdictRecord]]:
    """The variants, built, and verdicts on those that could not be; not all of them when it was ended."""
    variants, verdicts = [], []
    for kernel, variant in kernels:
        own = planted if planted and planted.target == kernel.name else None
        gated = GatedVariant(kernel, variant, options.profile, options.seed, options.strict, own)
        try:
            progress(f"building {gated.title}")
            under = gated.under_test
            if under.probe is not None:
                under.probe()  # once, and not once in every check's process
        except TileproofError as error:
            verdicts.append(no_verdict(gated, error.what, str(error)))
        except (KeyboardInterrupt, Stopped):
            break
        else:
            variants.append(gated)
    return variants, verdicts


def _ended_early(kernels: Sequence[tuple[Kernel, Variant]], options: GateOptions) -> ReleaseEvidence:
    """The evidence of a run that was ended while kernels were built: results of an earlier part are left."""
    none = [GatedVariant(kernel, variant, options.profile, options.seed) for kernel, variant in kernels]
    return evidence(
        [no_verdict(gated, "the run was ended before any check began") for gated in none],
        [],
        profile=options.profile,
        seed=options.seed,
        strict=options.strict,
        complete=False,
        sections={},
    )


def compared(made: ReleaseEvidence, baseline: ReleaseEvidence) -> ReleaseEvidence:
    """The evidence with the check against a baseline made again: its verdicts have changed since, as by
    scores of mutants.
    """
    others = [check for check in made.checks if check.name != AGAINST]
    return again(made, made.kernels, [*others, _against(baseline, made.kernels)])


def _against(baseline: ReleaseEvidence, verdicts: Sequence[VerdictRecord]) -> CheckOutcome:
    """The check that nothing got worse since a baseline."""
    worse = difference.worse(baseline.kernels, verdicts)
    return CheckOutcome(
        AGAINST,
        True,
        "failed" if worse else "passed",
        "; ".join(worse),
        details={"baseline_commit": baseline.tool.commit, "baseline_verdict": baseline.verdict},
    )
