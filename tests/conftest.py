"""Settings for all tests."""

import gc
import os

# The tests' products are small and run on every worker: BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from tileproof.emulator.heap import keep_freed_memory

from tests.kit import long_tests

keep_freed_memory()
# Decoding a kernel makes tens of thousands of objects that live on.
gc.set_threshold(20_000)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: the garbage collector leaves them alone."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", default=long_tests.ALL, metavar="all|DAY",
        help=f"run all long tests (tests/kit/long_tests.py), or 1 of {long_tests.TURNS} parts, by the day",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    turn = config.getoption("--long")
    if turn != long_tests.ALL and not turn.isdecimal():
        raise pytest.UsageError(f"--long {turn}: expected {long_tests.ALL} or the number of a day")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    turn = config.getoption("--long")
    waiting = long_tests.another_turn((item.nodeid for item in items), long_tests.listed(), turn)
    if waiting:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in waiting])
        items[:] = [item for item in items if item.nodeid not in waiting]


def pytest_report_header(config: pytest.Config) -> str:
    turn, long = config.getoption("--long"), long_tests.listed()
    waiting = long_tests.another_turn(long, long, turn)
    return f"long tests: {len(long) - len(waiting)} of {len(long)} (--long={turn})"
