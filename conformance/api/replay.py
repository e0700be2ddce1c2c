"""The command that judges a launch file again: what the replay under a finding is made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence


def judge_words(
    expect: str | None, seed: int, races: bool, strict: bool, mma: str, allow: Sequence[object]
) -> list[str]:
    """The options of a judgement, for replays."""
    words = ["--expect", expect] if expect else []
    words += ["--seed", str(seed)] if seed else []
    words += [] if races else ["--no-races"]
    words += ["--strict"] if strict else []
    words += ["--mma=exact"] if mma == "exact" else []
    return words + [f"--allow={code}" for code in allow]


def function_words(call: Callable[..., object]) -> str | None:
    """A reference function as `--expect` takes it, "FILE.py:NAME"; None for a function that no file has at
    its top (a lambda, a function inside another, a method).
    """
    name = getattr(call, "__qualname__", "")
    if not name.isidentifier() or getattr(inspect.getmodule(call), name, None) is not call:
        return None
    try:
        path = inspect.getsourcefile(call)
    except TypeError:
        return None
    return f"{path}:{name}" if path else None
