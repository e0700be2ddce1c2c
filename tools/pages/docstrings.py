"""What the docstring of a public name must state: shapes and dtypes, units, errors, sources.

The rules decide by the signature, the fields and the source of the name:

- A parameter, field or result that is an array or a tensor: a shape (`[s_q, h_q]`, or the word) and a dtype.
- A number named as a place or a size (`offset`, `stride`, `keep`): its unit, unless the name is the unit.
- A function that raises an error of the package, or calls a function that does so: the error by name.
- A formula: where it is from (a paper, the PTX ISA, a page of docs/).
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache

from tileproof.spec.machine.errors import TileproofError

ARRAY = re.compile(r"\b(Tensor|ndarray|Array|ArrayLike|NDArray)\b")
SHAPE = re.compile(r"\[[^\]]*\]|\bshapes?\b|\bper element\b|\bof the array\b|\bas q\b")
DTYPE = re.compile(
    r"\b(dtypes?|float\d+|int\d+|uint\d+|bfloat16|bool|bits?|uint8|bytes|type|floats|numbers|any device)\b",
    re.I,
)
MEASURED = re.compile(r"(^|_)(offset|size|stride|strides|keep|capacity|length|limit|time|timeout)$")
UNIT = re.compile(r"\b(bytes?|seconds?|clocks?|elements?|columns?|bits?|slots|32 bits)\b")
FORMULA = re.compile(r"[a-z0-9)]\s*(\^|\*\*)\s*\(|\bulp\b|\bgamma\(")
SOURCE = re.compile(r"PTX ISA|IEEE|et al|arXiv|docs/\w|\[[A-Z]\w+,|\d{4}\b")


def _raises(tree: ast.AST) -> Iterator[str]:
    """The names of the exceptions that a function's own statements raise."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            yield ast.unparse(called).rpartition(".")[2]


@cache
def _tree(function: object) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return None


def _is_ours(name: str, space: dict[str, object]) -> bool:
    kind = space.get(name)
    return inspect.isclass(kind) and issubclass(kind, TileproofError)


def raised(function: object) -> list[str]:
    """The package's errors that a function raises itself or through a function that it calls by name."""
    tree, space = _tree(function), getattr(function, "__globals__", {})
    if tree is None:
        return []
    found = [name for name in _raises(tree) if _is_ours(name, space)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = space.get(node.func.id)
            if inspect.isfunction(called) and (inner := _tree(called)) is not None:
                found += [name for name in _raises(inner) if _is_ours(name, called.__globals__)]
    return sorted(set(found))


def _annotated(value: object) -> dict[str, str]:
    """Parameters and the result of a function, or the fields of a class, with their types as text."""
    if inspect.isclass(value):
        return {name: str(kind) for name, kind in vars(value).get("__annotations__", {}).items()}
    return {name: str(kind) for name, kind in getattr(value, "__annotations__", {}).items()}


def lacking(name: str, value: object, text: str) -> list[str]:
    """What the docstring of a public function, method or class does not state."""
    found = []
    kinds = _annotated(value)
    arrays = [each for each, kind in kinds.items() if ARRAY.search(kind) and not each.startswith("_")]
    if arrays and not SHAPE.search(text):
        found.append(f"{name}: no shape of {', '.join(arrays)}")
    if arrays and not DTYPE.search(text):
        found.append(f"{name}: no dtype of {', '.join(arrays)}")
    measured = [each for each, kind in kinds.items() if MEASURED.search(each) and "int" in kind + "float"]
    if measured and not UNIT.search(text):
        found.append(f"{name}: no unit of {', '.join(measured)}")
    if inspect.isfunction(value) and (errors := raised(value)) and not re.search(r"Error\b", text):
        found.append(f"{name}: no sentence about {', '.join(errors)}")
    if FORMULA.search(text) and not SOURCE.search(text):
        found.append(f"{name}: a formula without its source")
    return found


def main() -> int:
    """Print what the public names of docs/python.md lack."""
    from tileproof.tools.pages.api import problems

    found = problems()
    print(*found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
