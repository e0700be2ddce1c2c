"""An isolated process: what it may not do is denied; what the system cannot deny is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tileproof.kernels.foreign import isolation
from tileproof.spec.machine.errors import TileproofError

ABLE = pytest.mark.skipif(bool(isolation.missing()), reason=f"the system lacks {isolation.missing()}")
# What a process tries, and the names of the errors that stand in its way; "" for what it may do.
TRIED = {
    "open('{inside}/new', 'w')": "",
    "open('{named}', 'w')": "",
    "open('{outside}/ref.py').read()": "",
    "socket.socketpair()": "",
    "open('/dev/null', 'w')": "",
    "socket.socket()": "EPERM",
    "socket.socket(socket.AF_UNIX)": "EPERM",
    "open('{outside}/ref.py', 'a')": "EACCES",
    "open('{outside}/new', 'w')": "EACCES",
    "os.truncate('{outside}/ref.py', 0)": "EACCES",
    "os.unlink('{outside}/ref.py')": "EACCES",
    "os.mkdir('{outside}/folder')": "EACCES",
    "os.symlink('/etc', '{outside}/link')": "EACCES",
    "os.rename('{inside}/new', '{outside}/new')": "EACCES",
    "os.link('{outside}/ref.py', '{inside}/link')": "EACCES EXDEV",
    "os.chmod('{outside}/ref.py', 0)": "EPERM",
    "os.utime('{outside}/ref.py', (0, 0))": "EPERM",
    "os.setxattr('{outside}/ref.py', 'user.a', b'b')": "EPERM",
    "os.kill(os.getppid(), 0)": "EPERM",
    "open(f'/proc/{{os.getppid()}}/mem', 'rb')": "EACCES",
    "open('/dev/shm/new', 'w')": "EACCES",
    "fcntl.ioctl(0, 0x5412, b'a')": "EPERM",
    "checked(libc.ptrace(16, os.getppid(), 0, 0))": "EPERM",
    "checked(libc.mount(b'/', b'/mnt', b'', 4096, None))": "EPERM",
    "checked(libc.unshare(0x10000000))": "EPERM",
    "checked(libc.syscall(425, 8, bytes(120)))": "EPERM",
}
PROGRAM = """
import ctypes, errno, fcntl, json, os, socket, subprocess, sys
from pathlib import Path
from tileproof.kernels.foreign import isolation
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
isolation.isolate(Path(sys.argv[1]), [Path(sys.argv[2])])
told = {}
for text in json.loads(sys.argv[3]):
    try:
        eval(text)
        told[text] = ""
    except OSError as error:
        told[text] = errno.errorcode[error.errno]
child = subprocess.run(["sh", "-c", f"echo x > {sys.argv[4]}/new"], capture_output=True)
told["child"] = "EACCES" if child.returncode else ""
print(json.dumps(told))
"""


@ABLE
def test_what_an_isolated_process_may_do(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "ref.py").write_text("kept")
    (tmp_path / "out.json").touch()
    names = {"inside": inside, "outside": outside, "named": tmp_path / "out.json"}
    texts = {text.format(**names): wanted for text, wanted in TRIED.items()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, inside, names["named"], json.dumps(list(texts)), outside],
        capture_output=True, text=True, check=True, env={"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told.pop("child") == "EACCES"
    wrong = {text: told[text] for text, wanted in texts.items() if told[text] not in wanted.split(" ")}
    assert not wrong
    assert [path.name for path in outside.iterdir()] == ["ref.py"]
    assert (outside / "ref.py").read_text() == "kept"


def test_what_the_system_lacks_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(isolation, "_landlock_abi", lambda: 1)
    with pytest.raises(TileproofError) as error:
        isolation.isolate(tmp_path, without=["signals"])
    assert error.value.where == "files" and "Linux 6.2" in error.value.expected
    assert "--isolate-without files" in error.value.do and not isolation.held()
