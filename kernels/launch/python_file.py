"""A launch file in Python: it runs in a process of its own, which returns the launch file as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from tileproof.kernels.foreign.frames import Message
from tileproof.kernels.foreign.process import ForeignProcess
from tileproof.kernels.foreign.running import guarded, run_python
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.contents import ArrayContent, Filled, InlineBytes
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.paths import require_file
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

NAMES = ("LAUNCH", "launch")  # of what the file defines, the first that it has
WHAT = "the launch file"


def launch_of(path: Path) -> LaunchFile:
    """The launch file that a Python file makes; TileproofError when it makes none."""
    require_file(path, "a Python file with launch() or LAUNCH")
    with ForeignProcess(__name__, WHAT, str(path)) as process:
        reply = process.ask({"path": os.fspath(path)})
    data, folder = reply.body.get("launch"), reply.body.get("folder")
    if not isinstance(data, dict) or not isinstance(folder, str):
        raise TileproofError(f"{WHAT} ended without an answer", where=str(path))
    made = jsonform.parse(data, Path(folder), str(path))
    return replace(made, buffers=tuple(_filled(buffer, reply) for buffer in made.buffers))


def _filled(buffer: LaunchBuffer, reply: Message) -> LaunchBuffer:
    """The buffer with its bytes, where those came beside the JSON."""
    data = reply.arrays.get(buffer.name)
    return buffer if data is None else replace(buffer, content=InlineBytes(data.tobytes()))


# ---- in the process of the file


def answer(question: Message) -> Message:
    """Runs the file at `path`."""
    path = Path(question.body["path"])
    names = run_python(path, WHAT)
    made = next((names[name] for name in NAMES if name in names), None)
    if made is None:
        raise TileproofError(
            "the file defines no launch", where=str(path), expected="a function launch(), or LAUNCH"
        )
    if callable(made):
        made = guarded(made, path, f"launch() of {WHAT}")
    if not isinstance(made, LaunchFile):
        raise TileproofError(
            "the object is not a launch", where=str(path), expected="a LaunchFile", found=type(made).__name__
        )
    arrays: dict[str, Array] = {}
    buffers = [_emptied(buffer, arrays) for buffer in made.buffers]
    folder = made.folder if made.folder != Path() else path.parent
    try:
        data = json.loads(jsonform.text(replace(made, buffers=tuple(buffers))))
    except (TypeError, ValueError) as error:
        raise TileproofError("the launch has no JSON form", where=str(path), found=str(error)) from None
    return Message({"launch": data, "folder": os.fspath(folder)}, arrays)


def _emptied(buffer: LaunchBuffer, arrays: dict[str, Array]) -> LaunchBuffer:
    """The buffer without its bytes, which go into `arrays`."""
    content = buffer.content
    if isinstance(content, ArrayContent):
        arrays[buffer.name] = content.data.reshape(-1).view(np.uint8)
    elif isinstance(content, InlineBytes):
        arrays[buffer.name] = np.frombuffer(content.data, np.uint8)
    else:
        return buffer
    return replace(buffer, content=Filled())
