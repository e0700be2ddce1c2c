"""Causes of wrong values: changes of the reference that give them, and coordinate inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from tileproof.conformance.judging.log import RunLog
from tileproof.conformance.judging.probes import floating, probed
from tileproof.conformance.judging.reference import ReferenceFunction, evaluate, inputs_of
from tileproof.conformance.judging.values import WrongArray, matrix
from tileproof.conformance.judging.whatif import AskedInput, explain
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.processes.children import in_child
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

F64 = npt.NDArray[np.float64]


def explained(
    log: RunLog,
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    reference: ReferenceFunction,
    seconds: float,
    progress: Callable[[str], None],
) -> None:
    """Adds the cause of each wrong array to the log, within that time: half of it for what the reference
    says, half for coordinate inputs.
    """
    unknown = [(seen, seen.array) for seen in log.causes.values() if seen.array and seen.cause is None]
    each = seconds / 2 / max(len(unknown), 1)
    for seen, array in unknown:
        progress(f"the cause of wrong values in {array.name}")
        done = in_child(lambda array=array: _asked(launch, reference, array, each), each + 5.0)  # type: ignore[misc]
        seen.cause = done.value or ""
        if not array.stage and each > 0:
            probes = in_child(
                lambda array=array: probed(  # type: ignore[misc]
                    launch, dict(modules), reference, array.name, each, progress
                ),
                each + 5.0,
            )
            seen.evidence = tuple(probes.value or ())


def _asked(launch: LaunchFile, reference: ReferenceFunction, array: WrongArray, seconds: float) -> str:
    given = inputs_of(launch)
    inputs = [
        AskedInput(each.name, np.asarray(given[each.name]), dtype_of(each.dtype).itemsize)
        for each in floating(launch)
    ]
    before = None
    if array.name in given and not array.stage:
        before = matrix(np.asarray(given[array.name], np.float64))

    def again(changed: Mapping[str, Array | float]) -> F64 | None:
        try:
            made = evaluate(reference, launch, {**given, **changed}).get(array.name)
        except TileproofError:
            return None
        if made is None:
            return None
        value = made.value
        if array.stage and value.ndim == 3:
            return None if array.number >= value.shape[0] else matrix(value[array.number])
        return matrix(value)

    return explain(array, inputs, again, before, seconds)
