"""Causes of wrong values: the reference asked what would give them, and coordinate inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.judging.judged_runs import RunSetup
from tileproof.conformance.judging.probes import floating, probed
from tileproof.conformance.judging.record import Outcomes
from tileproof.conformance.judging.reference import ReferenceFunction, evaluate, inputs_of
from tileproof.conformance.judging.values import WrongArray, matrix
from tileproof.conformance.judging.whatif import AskedInput, explain
from tileproof.conformance.launches.contents import dtype_of
from tileproof.conformance.launches.model import LaunchFile
from tileproof.conformance.processes.children import in_child
from tileproof.spec.machine.errors import TileproofError

F64 = npt.NDArray[np.float64]


def explained(
    made: Outcomes,
    setup: RunSetup,
    reference: ReferenceFunction,
    seconds: float,
    progress: Callable[[str], None],
) -> None:
    """Adds the cause of each wrong array to `made`, within that time: half of it for what the reference says,
    half for coordinate inputs.
    """
    unknown = {name: one for name, (_, one) in made.wrong.items() if name not in made.causes}
    each = seconds / 2 / max(len(unknown), 1)
    for name, one in unknown.items():
        progress(f"the cause of what is wrong in {name}")
        done = in_child(lambda one=one: _asked(setup.launch, reference, one, each), each + 5.0)  # type: ignore[misc]
        made.causes[name] = done.value or ""
        if not one.stage and each > 0:
            told = in_child(
                lambda name=name: probed(  # type: ignore[misc]
                    setup.launch, dict(setup.modules), reference, name, each, progress
                ),
                each + 5.0,
            )
            made.probes[name] = tuple(told.value or ())


def _asked(launch: LaunchFile, reference: ReferenceFunction, one: WrongArray, seconds: float) -> str:
    given = inputs_of(launch)
    inputs = [
        AskedInput(each.name, given[each.name], dtype_of(each.dtype).itemsize) for each in floating(launch)
    ]
    before = None
    if one.name in given and not one.stage:
        before = matrix(np.asarray(given[one.name], np.float64))

    def again(changed: Mapping[str, Any]) -> F64 | None:
        try:
            made = evaluate(reference, launch, {**given, **changed}).get(one.name)
        except TileproofError:
            return None
        if made is None:
            return None
        value = made.value
        if one.stage and value.ndim == 3:
            return None if one.number >= value.shape[0] else matrix(value[one.number])
        return matrix(value)

    return explain(one, inputs, again, before, seconds)
