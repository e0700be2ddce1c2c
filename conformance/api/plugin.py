"""The pytest plugin: fixtures that run and judge launch files, `--tileproof-seconds`, the marker `tileproof`.

The fixtures belong to the session, so that Hypothesis's tests may use them: a test's marker is looked up
when the test runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from tileproof.spec.machine.run_result import RunResult

if TYPE_CHECKING:
    from typing import Unpack

    import hypothesis
    from tileproof.conformance.api.calls import JudgeKeywords, LaunchLike, ReferenceLike, RunCallKeywords
    from tileproof.conformance.verdict.contract import VerdictRecord
    from tileproof.spec.machine.run_result import RunResult
    from tileproof.spec.machine.types import UncheckedObject


SECONDS = 60.0
MARKER = "tileproof"
_KEYS = ("seconds", "schedules", "seed", "policies", "races", "strict", "allow", "mma")
_RUN_KEYS = ("schedule", "seconds", "seed", "races", "strict", "allow", "mma")


class NotAccepted(AssertionError):
    """A verdict that the test does not accept, as its page."""


class _Current:
    """The test that runs."""

    item: pytest.Item | None = None


_current = _Current()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--tileproof-seconds`."""
    group = parser.getgroup("tileproof")
    group.addoption(
        "--tileproof-seconds", type=float, default=SECONDS, metavar="N",
        help=f"Wall time that judging launch files may take in one test (default {SECONDS:.0f}).",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}({', '.join(_KEYS)}): how tileproof_run and tileproof_judge run in this test"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remembers whose marker counts."""
    _current.item = item


def pytest_runtest_teardown() -> None:
    """Forgets it."""
    _current.item = None


@pytest.fixture(scope="session")
def tileproof_run() -> Callable[..., RunResult]:
    """`tileproof.run` with the options of the test's marker."""
    from tileproof.conformance.api import calls as api

    def run(launch: LaunchLike, **how: Unpack[RunCallKeywords]) -> RunResult:
        return api.run(launch, **{**_marked(_RUN_KEYS), **how})

    return run


@pytest.fixture(scope="session")
def tileproof_judge(pytestconfig: pytest.Config) -> Callable[..., VerdictRecord]:
    """`tileproof.judge` with the options of the test's marker; fails with the page of a verdict that is not
    in `accept`.
    """
    from tileproof.conformance.api import calls as api

    def judge(
        launch: LaunchLike,
        expect: ReferenceLike | None = None,
        *,
        accept: Sequence[str] = ("clean",),
        **how: Unpack[JudgeKeywords],
    ) -> VerdictRecord:
        given = {**_marked(_KEYS), **how}
        given["seconds"] = _seconds(pytestconfig, given.get("seconds"))
        given.setdefault("seed", _seed(pytestconfig))
        verdict = api.judge(launch, expect, **given)
        if verdict.verdict not in accept:
            raise NotAccepted("\n" + api.text(verdict))
        return verdict

    return judge


def _marked(keys: Sequence[str]) -> UncheckedObject:
    item = _current.item
    found: UncheckedObject = {}
    for mark in reversed(list(item.iter_markers(MARKER)) if item else []):
        if mark.args or set(mark.kwargs) - set(_KEYS):
            raise pytest.UsageError(f"the marker {MARKER} takes {', '.join(_KEYS)}: found {mark}")
        found.update(mark.kwargs)
    return {key: value for key, value in found.items() if key in keys}


def _seconds(config: pytest.Config, asked: float | None) -> float:
    """The time limit of a verdict: the requested time, within `--tileproof-seconds`. All examples of a
    Hypothesis test share the limit, and each takes at most the test's deadline.
    """
    limit = float(config.getoption("--tileproof-seconds"))
    settings = _hypothesis_settings()
    if settings is not None:
        limit /= max(settings.max_examples, 1)
        if settings.deadline is not None:
            limit = min(limit, settings.deadline.total_seconds() / 2)
    return limit if asked is None else min(float(asked), limit)


def _hypothesis_settings() -> hypothesis.settings | None:
    """The settings of the Hypothesis test that runs; None in another test."""
    try:
        import hypothesis
    except ImportError:
        return None
    if not hypothesis.currently_in_test_context():
        return None
    function = getattr(_current.item, "obj", None)
    return getattr(function, "_hypothesis_internal_use_settings", None) or hypothesis.settings.default


def _seed(config: pytest.Config) -> int:
    """Hypothesis's seed, if it was set."""
    given = str(config.getoption("--hypothesis-seed", default=None) or "")
    return int(given) if given.isdigit() else 0


def pytest_assertrepr_compare(
    config: pytest.Config, op: str, left: object, right: object
) -> list[str] | None:
    """A verdict, and findings, as their own text."""
    from tileproof.conformance.api import calls as api
    from tileproof.conformance.verdict.contract import VerdictRecord
    from tileproof.emulator import Finding

    del config
    for side, other in ((left, right), (right, left)):
        if isinstance(side, VerdictRecord):
            return [f"a verdict {op} {other!r}", *api.text(side).splitlines()]
        if isinstance(side, tuple) and side and all(isinstance(f, Finding) for f in side):
            return [
                f"{len(side)} findings {op} {other!r}",
                *(line for f in side for line in str(f).splitlines()),
            ]
    return None
