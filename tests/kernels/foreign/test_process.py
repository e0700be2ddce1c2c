"""Foreign code answers with data, inside its limits; what is no answer is an error that says so."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tileproof.kernels.foreign.frames import Message
from tileproof.kernels.foreign.limits import ForeignLimits
from tileproof.kernels.foreign.process import ForeignProcess
from tileproof.spec.machine.errors import TileproofError

OWN = __name__
# The answer's descriptor keeps the number that it has in this process, which may hold many others.
EACH_FD = "import os\nfor fd in range(3, 1024):\n  try: os.{}\n  except OSError: pass"
BODIES = {"pickle": b"\x80\x04N.", "list": b'{"body": [], "arrays": []}', "nothing": b""}


def answer(question: Message) -> Message:
    """In the foreign process: does what is asked."""
    exec(question.body.get("run", ""), globals())
    return Message({"seen": question.body}, question.arrays)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A module that the foreign process can import: this file by another name."""
    (tmp_path / "answering.py").write_text(Path(__file__).read_text())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "answering"


def asked(path: str, run: str, **limits: float) -> Message:
    limited = ForeignLimits(**limits)  # type: ignore[arg-type]
    with ForeignProcess(path, "the code", "answering.py", limited) as process:
        return process.ask({"run": run})


def test_arrays_come_back_as_they_went(path: str) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "n": np.array(3, np.int8),
        "none": np.zeros((0, 4), np.uint8),
    }
    with ForeignProcess(path, "the code", "answering.py") as process:
        told = process.ask({"x": [1, None, "text"]}, arrays)
        assert told.body == {"seen": {"x": [1, None, "text"]}}
        for name, sent in arrays.items():
            assert told.arrays[name].dtype == sent.dtype and np.array_equal(told.arrays[name], sent)
        with pytest.raises(TileproofError, match="cannot be sent"):
            process.ask({}, {"o": np.array([object()])})


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("import os; os._exit(0)", "code 0"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("while True: pass", "in time"),
        ("x = bytearray(1 << 33)", "MemoryError"),
        ("open('/dev/null'); f = [open('/dev/null') for _ in range(600)]", "Too many open files"),
        (EACH_FD.format("write(fd, b'x' * 64)"),
         "announced"),
        (EACH_FD.format("close(fd)"), "without an answer"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(path: str, run: str, says: str) -> None:
    with pytest.raises(TileproofError) as error:
        asked(path, run, seconds=3.0, memory=1 << 30)
    assert says in str(error.value)


@pytest.mark.parametrize("name", BODIES)
def test_what_is_no_message_is_refused(path: str, name: str) -> None:
    text = BODIES[name]
    run = "import struct\n" + EACH_FD.format(f"write(fd, struct.pack('<QQ', {len(text)}, 0) + {text!r})")
    with pytest.raises(TileproofError, match="without an answer"):
        asked(path, run)


def test_what_it_started_ends_with_it(path: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    start = "import subprocess\np = subprocess.Popen(['sleep', '60'])\n"
    asked(path, start + f"open({str(note)!r}, 'w').write(str(p.pid))")
    pid = int(note.read_text())
    for _ in range(50):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("it still runs")
