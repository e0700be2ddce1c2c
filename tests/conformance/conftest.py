"""The build logs of the wrong kernels, each compiled once in a test run, whichever worker comes first."""

import fcntl
import json
from collections.abc import Callable

import pytest

from tests.kit.wrong_kernels import Compiled, command, run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """The compiled kernel `wrong/<name>.cu`; workers of one run share what they compiled."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if base.name.startswith("popen-") else base) / "buildlog"
    shared.mkdir(exist_ok=True)

    def compile_one(name: str) -> Compiled:
        kept = shared / f"{name}.json"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                done = run(command(name, f"{name}.cu", shared / f"{name}.out"))
                kept.write_text(json.dumps([done.status, done.log]))
        return Compiled(*json.loads(kept.read_text()))

    return compile_one
