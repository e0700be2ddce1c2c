"""Writes docs/python.md from the docstrings of the public names: ``python -m tileproof.tools.pages.api``;
--check compares. A public name without a docstring is an error.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

from tileproof.spec import numerics
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.pages import write_or_check
from tileproof.tools.pages import docstrings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
# The public modules, and the names of those that have no `__all__`.
MODULES: dict[str, tuple[str, ...]] = {
    "tileproof": (),
    "tileproof.launches": (),
    "tileproof.emulator": (),
    "tileproof.capture": ("save", "backward"),
    "tileproof.ops": (),
}


def documented(name: str, value: object) -> str:
    """The docstring of a public name; TileproofError if there is none but what a dataclass writes itself."""
    text = inspect.getdoc(value) or ""
    own = name.rpartition(".")[2]
    if not text or text.startswith(f"{own}("):
        raise TileproofError("a public name has no docstring", where=name, do="write what it is")
    return text


def _words(annotation: object) -> str:
    """A type as it is written."""
    if isinstance(annotation, str):
        return annotation.strip("'\"")
    return getattr(annotation, "__name__", str(annotation))


def _parameter(own: inspect.Parameter) -> str:
    text = "*" * (own.kind == own.VAR_POSITIONAL) + "**" * (own.kind == own.VAR_KEYWORD) + own.name
    if own.annotation is not own.empty:
        text += f": {_words(own.annotation)}"
    if own.default is own.empty:
        return text
    plain = isinstance(own.default, str | int | float | tuple | type(None))
    return f"{text} = {own.default!r}" if plain else f"{text} = ..."


def _signature(name: str, value: object) -> str:
    """A call with its parameters; each on its own line if they are many."""
    try:
        own = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    words: list[str] = []
    for parameter in own.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY and "*" not in "".join(words):
            words.append("*")
        words.append(_parameter(parameter))
    known = not inspect.isclass(value) and own.return_annotation is not own.empty
    result = f" -> {_words(own.return_annotation)}" if known else ""
    line = f"{name}({', '.join(words)}){result}"
    return line if len(line) <= 90 else f"{name}(\n    " + ",\n    ".join(words) + f",\n){result}"


def _markdown(text: str) -> str:
    """A docstring as Markdown: double backquotes become single, indented blocks after `::` stay code."""
    return text.replace("``", "`").replace("::\n", ":\n").replace("<", r"\<")


def _entry(module: str, name: str) -> list[str]:
    value = getattr(importlib.import_module(module), name)
    text = documented(f"{module}.{name}", value)
    parts = [f"### {name}"]
    if callable(value):
        parts.append(f"```python generated\n{_signature(name, value)}\n```")
    parts.append(_markdown(text))
    if inspect.isclass(value):
        rows = []
        for method, own in vars(value).items():
            function = own.__func__ if isinstance(own, classmethod | staticmethod) else own
            if method.startswith("_") or not (inspect.isfunction(function) or isinstance(own, property)):
                continue
            said = inspect.getdoc(function)
            if not said:
                raise TileproofError("a public method has no docstring", where=f"{module}.{name}.{method}")
            first = " ".join(said.split("\n\n")[0].split())
            rows.append(f"- `{method}`: {_markdown(first)}")
        parts += ["\n".join(rows)] if rows else []
    return parts


def problems() -> list[str]:
    """What docstrings of public names and methods, and constants of the error analysis, do not state."""
    found = [f"{each.name}: no source" for each in numerics.CONSTANTS if not each.source]
    for module, names in MODULES.items():
        owner = importlib.import_module(module)
        for name in names or (name for name in owner.__all__ if not name.startswith("_")):
            value, place = getattr(owner, name), f"{module}.{name}"
            found += docstrings.lacking(place, value, documented(place, value))
            for method, own in vars(value).items() if inspect.isclass(value) else ():
                function = own.__func__ if isinstance(own, classmethod | staticmethod) else own
                function = function.fget if isinstance(function, property) else function
                if inspect.isfunction(function) and not method.startswith("_"):
                    text = f"{inspect.getdoc(function)}\n{inspect.getdoc(value)}"
                    found += docstrings.lacking(f"{place}.{method}", function, text)
    return found


def page() -> str:
    """The page as Markdown; TileproofError where a docstring does not state what it must."""
    if lacking := problems():
        raise TileproofError("docstrings of public names lack something", found="\n".join(lacking))
    parts = [
        "# Python API",
        "Generated from docstrings by `python -m tileproof.tools.pages.api`.",
        "[operator.md](operator.md) has examples of `tileproof.ops`; [triton.md](triton.md) is about "
        "`emulate()` for Triton and TileLang, and [judging.md](judging.md) the pytest fixture.",
    ]
    for module, names in MODULES.items():
        found = importlib.import_module(module)
        parts += [f"## {module}", _markdown(documented(module, found))]
        for name in names or (name for name in found.__all__ if not name.startswith("_")):
            parts += _entry(module, name)
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk is stale."""
    return write_or_check("tileproof.tools.pages.api", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
