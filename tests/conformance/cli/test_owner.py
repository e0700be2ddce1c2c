"""The exit code of a command is 0 only where it reported so itself, whatever code of a user runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tileproof.kernels.launch import jsonform

from tests.kit.launch_files import scale
from tests.kit.paths import ROOT
from tests.kit.sampled import sampled

ENDINGS = {
    "exit": "import os\nos._exit(0)\n",
    "at exit": "import atexit, os\natexit.register(os._exit, 0)\nos._exit(0)\n",
    "closed files": "import os\nos.closerange(3, 256)\nos._exit(0)\n",
    "replaced": "import os\nos.execv('/bin/true', ['true'])\n",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "crash": "import ctypes\nctypes.string_at(0)\n",
    "thread": "import os, threading, time\n"
    "threading.Thread(target=lambda: os._exit(0)).start()\ntime.sleep(20)\n",
    "forged": "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'{\"code\": 0}\\n')\n"
    "    except OSError:\n        pass\nos._exit(0)\n",
    "sys.exit": "import sys\nsys.exit(0)\n",
}
COMMANDS = ("check", "judge", "gate", "explore", "plant", "mutate", "time", "trace", "inspect", "build")


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tileproof", *words],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("ending", sampled([*ENDINGS], 3))
def test_a_kernel_py_that_ends_the_process_is_an_error(tmp_path: Path, ending: str) -> None:
    (tmp_path / "kernel.py").write_text(ENDINGS[ending] + "KERNELS = ()\n")
    done = command(tmp_path, "check", "kernel.py")
    assert done.returncode == 2, done
    assert "error: " in done.stderr and "kernel.py" in done.stderr.replace("\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_takes_a_strangers_exit_code(tmp_path: Path, name: str) -> None:
    (tmp_path / "kernel.py").write_text(ENDINGS["exit"] + "KERNELS = ()\n")
    done = command(tmp_path, name, "kernel.py")
    assert done.returncode == 2 and "ended without a verdict" in done.stderr, done


@pytest.mark.parametrize("ending", sampled([*ENDINGS][1:], 3))
def test_a_launch_file_or_a_reference_that_ends_its_process_is_an_error(tmp_path: Path, ending: str) -> None:
    (tmp_path / "launch.py").write_text(ENDINGS[ending])
    (tmp_path / "ref.py").write_text(
        "def reference(x, factor):\n" + "".join(f"    {line}\n" for line in ENDINGS[ending].splitlines())
    )
    jsonform.write(scale(), tmp_path / "launch.json")
    for words in (["judge", "launch.py"], ["judge", "launch.json", "--expect", "ref.py", "--schedules", "2"]):
        done = command(tmp_path, *words, "--json", "-")
        made = json.loads(done.stdout)
        assert done.returncode == 2 and made["verdict"] == "error", done
        assert "launch file" in made["why"][0] or "reference" in made["why"][0]


@pytest.mark.parametrize("module", ["json", "numpy", "typing", "click"])
def test_a_module_beside_a_launch_file_does_not_run_in_the_command(tmp_path: Path, module: str) -> None:
    jsonform.write(scale(), tmp_path / "launch.json")
    (tmp_path / f"{module}.py").write_text(ENDINGS["exit"])
    done = command(tmp_path, "judge", "launch.json", "--schedules", "2")
    assert done.returncode == 3 and "INCOMPLETE" in done.stdout, done


SAFE = {
    "tileproof": [str(Path(sys.executable).with_name("tileproof"))],
    "python -P -m": [sys.executable, "-P", "-m", "tileproof"],
}


def strangers(folder: Path, names: Iterable[str]) -> Path:
    """A folder with a launch file and modules that would take these names; each notes that it ran."""
    jsonform.write(scale(), folder / "launch.json")
    ran = folder / "ran"
    ran.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f"import os\nos.close(os.open({str(ran / name)!r}, os.O_CREAT))\n")
    return ran


@pytest.mark.parametrize("how", SAFE)
def test_no_name_of_a_module_in_the_current_folder_runs_in_the_command(tmp_path: Path, how: str) -> None:
    """Every module of the standard library, and packages of the command."""
    ran = strangers(tmp_path, {*sys.stdlib_module_names, "numpy", "click", "tileproof", "rich"})
    done = subprocess.run(
        [*SAFE[how], "judge", "launch.json", "--schedules", "2"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert not list(ran.iterdir()), done
    assert done.returncode == 3 and "INCOMPLETE" in done.stdout, done


def test_python_m_runs_modules_of_the_current_folder_that_python_itself_imports(tmp_path: Path) -> None:
    """The limit that docs/trust.md states: these names run before the package does."""
    ran = strangers(tmp_path, ("contextlib", "functools", "types"))
    command(tmp_path, "judge", "launch.json", "--schedules", "2")
    assert list(ran.iterdir())


@pytest.mark.parametrize("name", ("check", "gate"))
def test_an_installed_package_that_ends_the_process_is_an_error(tmp_path: Path, name: str) -> None:
    info = tmp_path / "acme-1.0.dist-info"
    for folder in (tmp_path / "acme", info):
        folder.mkdir()
    (tmp_path / "acme" / "__init__.py").write_text(ENDINGS["exit"])
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tileproof.kernels]\nacme = acme:KERNELS\n")
    done = subprocess.run(
        [sys.executable, "-m", "tileproof", name, "acme"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "ended without a verdict" in done.stderr and "acme" in done.stderr, done


def test_json_tells_a_command_that_ended_without_a_verdict(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(ENDINGS["exit"] + "KERNELS = ()\n")
    done = command(tmp_path, "check", "kernel.py", "--json")
    assert "ended without a verdict" in json.loads(done.stdout)["error"]["what"] and done.returncode == 2


def test_a_verdict_says_whose_code_ran_beside_it(tmp_path: Path) -> None:
    jsonform.write(scale(), tmp_path / "launch.json")
    (tmp_path / "ref.py").write_text("def reference(x, factor):\n    return factor * x[:100]\n")
    done = command(tmp_path, "judge", "launch.json", "--expect", "ref.py", "--schedules", "2", "--json", "-")
    made = json.loads(done.stdout)
    assert done.returncode == 0 and made["sections"]["trust"] == {"processes": "separate"}
    assert "note:" not in done.stderr


def test_an_interrupt_while_it_starts_prints_no_traceback(tmp_path: Path) -> None:
    for delay in (0.02, 0.1, 0.2, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-m", "tileproof", "check", "head128-part0"],
            stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        with process:
            while not os.path.exists(f"/proc/{process.pid}/task/{process.pid}/children"):
                time.sleep(0.01)
            time.sleep(0.15 + delay)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
        assert process.returncode in (2, 3) and "Traceback" not in told, told
