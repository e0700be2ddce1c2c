"""Runs a CUDA host program on the stub libraries and records its calls.

The calls arrive on a socket in order and are applied to the emulator's memory at once. With `run`, kernels
run on the emulator when they are launched, so that the program reads their results.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from tileproof.conformance.beside.record import elf
from tileproof.conformance.beside.record.device import RecordedDevice, RecordedLaunch
from tileproof.conformance.beside.record.fatbin import NoPtx, ptx_of
from tileproof.conformance.beside.record.recording import Recording, launch_of
from tileproof.emulator import Finding
from tileproof.emulator.codes import CODES
from tileproof.emulator.errors import LaunchError, PtxError
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import PROCESSORS
from tileproof.spec.machine.types import UncheckedObject

LIBRARIES = Path(__file__).parent / "lib"
_INVALID_VALUE, _OUT_OF_MEMORY, _INVALID_IMAGE, _INVALID_FUNCTION, _LAUNCH_FAILED = 1, 2, 200, 98, 719
_NO_BINARY = 209
_TAIL = 4000  # characters of standard error that are kept
_POLL_S = 0.05
_END_S = 5.0  # seconds to wait for a program to exit by itself


@dataclass(frozen=True)
class FailedCall:
    """A call that would also fail with CUDA: its function, error number and reason."""

    call: str
    code: int
    why: str


@dataclass(frozen=True)
class Snapshot:
    """The device before a launch: contents and written bytes of each allocation, by address."""

    contents: dict[int, tuple[bytes, bytes | None]]


@dataclass
class Recorded:
    """The recording of a program, and how the program ended.

    `problem`: why the recording is incomplete, if it is. With `run`: the findings of each launch, and the
    text that its kernel printed, which the program's standard output shows too.
    """

    recording: Recording
    exit_code: int
    stderr: str
    seconds: float
    problem: TileproofError | None = None
    failed: list[FailedCall] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    findings: dict[int, tuple[Finding, ...]] = field(default_factory=dict)
    printed: dict[int, str] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)


def libraries() -> list[Path]:
    """The folder of the stub libraries; LaunchError if they were not built."""
    found = [LIBRARIES / "libcuda.so.1", LIBRARIES / "libcudart.so.13"]
    if not all(path.exists() for path in found):
        raise LaunchError(
            "the stub libraries of tileproof record are not built", where=str(LIBRARIES),
            do="python setup.py build_ext --inplace in a checkout",
        )  # fmt: skip
    return found


def flags(hopper: bool = False) -> list[str]:
    """Return the flags of nvcc that make a program recordable: PTX for sm_100a, or with `hopper` for sm_90a,
    and the stub libraries as the CUDA runtime and driver.

    The toolkit from PyPI has no `libcudart.so` for `-cudart shared`. The stubs have the names (SONAME) of
    NVIDIA's libraries, so that the program also runs with NVIDIA's. LaunchError if they were not built.
    """
    driver, runtime = libraries()
    linked = [option for path in ("--as-needed", runtime, driver) for option in ("-Xlinker", str(path))]
    target = "compute_90a" if hopper else "compute_100a"
    return ["-gencode", f"arch={target},code={target}", "-cudart", "none", *linked]


def record(
    command: Sequence[str],
    *,
    run: bool = False,
    processors: int = PROCESSORS,
    seconds: float = 0.0,
    quiet: bool = False,
    wanted: str | None = None,
    base: int | None = None,
    hopper: bool = False,
) -> Recorded:
    """Run `command` on a device of `processors` multiprocessors, and return the recording.

    Parameters
    ----------
    run: run the kernels on the emulator, so that the program reads back their results.
    seconds: the time limit; the calls recorded until then are kept. 0: no limit.
    quiet: discard the program's output.
    wanted: with `run`, keep the memory before the first launch whose entry contains this text.
    base: the address of the first allocation, for a second recording to compare with the first.
    hopper: the device is an H200 instead of a B200.

    LaunchError if the program cannot be started on the stub.
    """
    program = elf.found(command[0])
    elf.check(program)
    stubs = libraries()
    with tempfile.TemporaryDirectory(prefix="tileproof-") as folder:
        server = _Server(Path(folder) / "socket", run, wanted, hopper)
        path = os.pathsep.join(filter(None, (str(LIBRARIES), os.environ.get("LD_LIBRARY_PATH"))))
        preload = " ".join(filter(None, (*map(str, stubs), os.environ.get("LD_PRELOAD"))))
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": path,
            "LD_PRELOAD": preload,
            "TILEPROOF_RECORD_SOCKET": str(server.path),
            "TILEPROOF_RECORD_SMS": str(processors),
        }
        if run:
            environment["TILEPROOF_RECORD_RUN"] = "1"
        if hopper:
            environment["TILEPROOF_RECORD_HOPPER"] = "1"
        if base is not None:
            environment["TILEPROOF_RECORD_BASE"] = hex(base)
        return server.serve([str(program), *command[1:]], environment, seconds, quiet)


class _Server:
    """The recorder's end of the socket."""

    def __init__(self, path: Path, run: bool, wanted: str | None, hopper: bool) -> None:
        self.path, self.run, self.wanted, self.hopper = path, run, wanted, hopper
        self.device = RecordedDevice()
        self.events: list[UncheckedObject] = []
        self.data = bytearray()
        self.launches = 0
        self.refused = False
        self.out = Recorded(Recording((), b""), 0, "", 0.0)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(8)
        self._host_memory: dict[int, bytes] = {}

    def serve(self, command: list[str], environment: dict[str, str], seconds: float, quiet: bool) -> Recorded:
        """Start the program and serve its calls until it ends."""
        begun = time.monotonic()
        show = subprocess.DEVNULL if quiet else None
        try:
            program = subprocess.Popen(
                command, env=environment, stdout=show, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise LaunchError("the program cannot be started", where=command[0], found=str(error)) from None
        assert program.stderr is not None
        tail: list[str] = []
        reader = threading.Thread(target=_tee, args=(program.stderr, tail, quiet), daemon=True)
        reader.start()
        try:
            self._listen(program, begun + seconds if seconds else 0.0, seconds)
        finally:
            _end(program, self.refused or program.poll() is not None)
            self.listener.close()
        reader.join(timeout=2)
        self.out.recording = Recording(tuple(self.events), bytes(self.data))
        self.out.exit_code, self.out.stderr = program.returncode, "".join(tail)[-_TAIL:]
        self.out.seconds = time.monotonic() - begun
        if self.out.problem is None:
            self.out.problem = self._how_it_ended(command[0])
        return self.out

    def _listen(self, program: subprocess.Popen[bytes], until: float, seconds: float) -> None:
        select = selectors.DefaultSelector()
        select.register(self.listener, selectors.EVENT_READ)
        connection: socket.socket | None = None
        pending = bytearray()
        while self.out.problem is None:
            ready = select.select(_POLL_S)
            if not ready and program.poll() is not None:
                return
            if until and time.monotonic() > until:
                self.out.problem = LaunchError(f"the program did not finish within {seconds:g} s")
            for key, _ in ready:
                if key.fileobj is self.listener:
                    made, _ = self.listener.accept()
                    if connection is not None:
                        self.out.problem = LaunchError("two processes of the program use CUDA at once")
                        made.close()
                        break
                    connection = made
                    select.register(made, selectors.EVENT_READ)
                    continue
                assert connection is not None
                try:
                    got = connection.recv(1 << 20)
                except ConnectionResetError:
                    got = b""
                if got:
                    pending += got
                    self._messages(connection, pending)
                else:
                    select.unregister(connection)
                    connection.close()
                    connection = None

    def _messages(self, connection: socket.socket, pending: bytearray) -> None:
        """Process every complete message of the received bytes."""
        while (end := pending.find(b"\n")) >= 0:
            event = json.loads(bytes(pending[:end]))
            count = event.pop("payload")
            if len(pending) < end + 1 + count:
                return
            payload = bytes(pending[end + 1 : end + 1 + count])
            del pending[: end + 1 + count]
            answer = event.pop("answer", False)
            code, text = self._did(event, payload)
            if answer:
                connection.sendall(struct.pack("<IQ", code, len(text)) + text)

    def _did(self, event: UncheckedObject, payload: bytes) -> tuple[int, bytes]:
        kind = event["event"]
        try:
            if kind in _QUESTIONS:
                return 0, getattr(self, f"_{kind}")(event, payload)
            if kind in _REMARKS:
                getattr(self, f"_{kind}")(event)
                return 0, b""
            if kind == "launch":
                return self._launch(event, payload)
            if kind == "image":
                event, payload = {**event, "event": "module"}, ptx_of(payload, self.hopper).encode()
            self.device.host(event, payload)
            self._keep(event, payload)
        except MemoryError:
            return _OUT_OF_MEMORY, b"this machine does not have that much memory"
        except KeyError as error:
            return _INVALID_FUNCTION, str(error).encode()
        except NoPtx as error:
            return _NO_BINARY, "; ".join(filter(None, (error.found, error.do))).encode()
        except TileproofError as error:
            code = _INVALID_IMAGE if isinstance(error, PtxError) else _INVALID_VALUE
            return code, str(error).replace("\n", ";").encode()
        return 0, b""

    def _keep(self, event: UncheckedObject, payload: bytes) -> None:
        place = {key: value for key, value in event.items() if key != "file"}
        self.events.append({**place, "at": len(self.data), "payload": len(payload)})
        self.data += payload

    # ---- questions: the answer is bytes

    def _read(self, event: UncheckedObject, _payload: bytes) -> bytes:
        self._keep(event, b"")
        return self.device.read(event["address"], event["bytes"])

    def _map(self, event: UncheckedObject, _payload: bytes) -> bytes:
        return self.device.tensor_map(event)

    def _replace(self, event: UncheckedObject, payload: bytes) -> bytes:
        return self.device.moved_map(payload, event["address"])

    def _entry(self, event: UncheckedObject, _payload: bytes) -> bytes:
        return self.device.entry(event["module"], event["name"]).encode()

    def _shared(self, event: UncheckedObject, _payload: bytes) -> bytes:
        return str(self.device.modules[event["module"]].decode(event["name"]).static_shared).encode()

    def _target(self, event: UncheckedObject, _payload: bytes) -> bytes:
        return str(self.device.modules[event["module"]].target.number).encode()

    def _variable(self, event: UncheckedObject, _payload: bytes) -> bytes:
        found = self.device.modules[event["module"]].variable(event["name"])
        return f"{found.address} {found.bytes}".encode()

    # ---- remarks

    def _refused(self, event: UncheckedObject) -> None:
        self.refused = True  # it ends by itself
        self.out.problem = LaunchError(
            "the program uses a call that cannot be recorded", where=event["call"], found=event["why"]
        )

    def _failed(self, event: UncheckedObject) -> None:
        self.out.failed.append(FailedCall(event["call"], event["code"], event["why"]))

    def _assumed(self, event: UncheckedObject) -> None:
        line = f"{event['call']}: {event['what']}"
        if line not in self.out.assumed:
            self.out.assumed.append(line)

    def _unknown(self, event: UncheckedObject) -> None:
        self.out.unknown.append(f"{event['call']}: {event['name']}")

    # ---- launches

    def _launch(self, event: UncheckedObject, payload: bytes) -> tuple[int, bytes]:
        self._keep_host_memory()
        launch = launch_of(event, payload)
        number, self.launches = self.launches, self.launches + 1
        first = self.wanted is not None and self.wanted in launch.entry and not self.out.snapshots
        if self.run and first:
            self.out.snapshots[number] = self._snapshot()
        self._keep(event, payload)
        if not self.run:
            return 0, b""
        return self._executed(number, launch)

    def _executed(self, number: int, launch: RecordedLaunch) -> tuple[int, bytes]:
        try:
            result = self.device.launch(launch)
        except TileproofError as error:
            self.out.problem = LaunchError(
                "a launch of the program cannot be run on the emulator",
                where=f"launch {number}, {launch.entry}",
                found=str(error),
                do="record it without --run",
            )
            return _LAUNCH_FAILED, b""
        if result.errors:
            self.out.findings[number] = tuple(result.errors)
        if result.printf:
            self.out.printed[number] = result.printf
        printed = result.printf.replace("\0", "").encode() + b"\0"
        stopped = [error for error in result.errors if CODES[error.code].stops]
        if stopped:
            return _LAUNCH_FAILED, printed + f"{stopped[0].code}: {stopped[0].message}".encode()
        return 0, printed

    def _keep_host_memory(self) -> None:
        """Before each launch record changes of mapped host memory, which the host writes without a call."""
        for address, buffer in self.device.shared.items():
            now = bytes(buffer.numpy().tobytes())
            if self._host_memory.get(address) != now:
                self._host_memory[address] = now
                self._keep({"event": "write", "address": address}, now)

    def _snapshot(self) -> Snapshot:
        out: dict[int, tuple[bytes, bytes | None]] = {}
        for buffer in self.device.memory.buffers:
            written = buffer.written() if buffer.tracked else None
            mask = None if written is None or bool(written.all()) else np.packbits(written).tobytes()
            out[buffer.address] = (bytes(buffer.numpy().tobytes()), mask)
        return Snapshot(out)

    def _how_it_ended(self, program: str) -> TileproofError | None:
        code, text = self.out.exit_code, self.out.stderr
        if code < 0:
            return LaunchError(
                "the program crashed while it was recorded",
                where=program,
                found=f"signal {signal.Signals(-code).name} after {self.launches} launches",
                do="the host cannot read device memory; the calls recorded until then are kept",
            )
        missing = [
            line for line in text.splitlines() if "undefined symbol" in line or "cannot open shared" in line
        ]
        if code == 127 and missing:
            return LaunchError(
                "the program needs a function or library that is missing",
                where=program,
                found=missing[-1],
            )
        if not self.events:
            return LaunchError(
                "the program did not use CUDA through the shared runtime or driver",
                where=program,
                found=f"exit code {code}",
                do="link it, and the libraries it loads, with -cudart shared",
            )
        if not self.launches:
            return LaunchError("the program launched no kernel", where=program, found=f"exit code {code}")
        return None


_QUESTIONS = ("read", "map", "replace", "entry", "shared", "target", "variable")
_REMARKS = ("refused", "failed", "assumed", "unknown")


def _tee(source: IO[bytes], tail: list[str], quiet: bool) -> None:
    for line in source:
        text = line.decode("utf-8", "replace")
        tail.append(text)
        del tail[:-200]
        if not quiet:
            sys.stderr.write(text)


def _end(program: subprocess.Popen[bytes], by_itself: bool) -> None:
    """Wait for the program's end, or kill it and its child processes."""
    try:
        if by_itself:
            program.wait(timeout=_END_S)
            return
    except subprocess.TimeoutExpired:
        pass
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
