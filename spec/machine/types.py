"""Types for which numpy and the standard library have no better word than `Any`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # of any element type: numpy's stubs have no type that covers ml_dtypes
DType = np.dtype[Any]
# What selects elements of an array: numpy has no public name for it.
Index = Any
Json = Any  # what json.loads returns: it is typed by checks when it is read
UncheckedObject = dict[str, Json]  # an object of JSON that is read by key: its values are not checked
# JSON that is written. Lists and objects are read-only types, so that lists of narrower types fit.
JsonValue = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
JsonObject = dict[str, JsonValue]
TypeForm = Any  # a type annotation at run time (a class, a union, a Literal): PEP 747 names its type
