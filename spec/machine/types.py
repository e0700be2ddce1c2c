"""Types for which numpy and the standard library have no better word than `Any`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # of any element type: numpy's stubs have no type that covers ml_dtypes
DType = np.dtype[Any]
# What selects elements of an array: numpy has no public name for it.
Index = Any
Json = Any  # what json.load returns: it is typed by checks when it is read
JsonObject = dict[str, Any]
TypeForm = Any  # a type annotation at run time (a class, a union, a Literal): PEP 747 names its type
