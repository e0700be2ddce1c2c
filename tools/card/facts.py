"""The card's facts: name, driver, and every attribute of the CUDA driver API. Needs libcuda alone."""

from __future__ import annotations

import ctypes
import platform
import sys

from tileproof.spec.machine.types import JsonObject
from tileproof.tools.card.row import Answer

# CUdevice_attribute of the CUDA driver API; the evidence holds the others by number.
NAMED = {
    1: "max threads per block", 8: "shared memory per block", 12: "registers per block", 13: "clock kHz",
    16: "multiprocessors", 36: "memory clock kHz", 37: "memory bus bits", 38: "L2 bytes",
    39: "max threads per multiprocessor", 75: "major", 76: "minor", 81: "shared memory per multiprocessor",
    82: "registers per multiprocessor", 97: "shared memory per block, opt in",
    106: "max blocks per multiprocessor", 111: "reserved shared memory per block", 120: "cluster launch",
    127: "tensor maps",
}  # fmt: skip
LAST = 200


def facts() -> JsonObject:
    """What the driver reports; OSError without libcuda.so.1, RuntimeError where a call fails."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        if code := getattr(cuda, name)(*arguments):
            raise RuntimeError(f"{name} returned {code}")

    device, value, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    text = ctypes.create_string_buffer(256)
    call("cuInit", 0)
    call("cuDriverGetVersion", ctypes.byref(value))
    found: JsonObject = {"driver API": value.value}
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetName", text, 256, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    found |= {"name": text.value.decode(), "bytes": total.value}
    others = {}
    for number in range(1, LAST):
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device):
            continue  # the driver does not know this number
        if number in NAMED:
            found[NAMED[number]] = value.value
        else:
            others[str(number)] = value.value
    return found | {"attributes by number": others}


def host() -> JsonObject:
    """The machine around the card, without its name."""
    return {"processor": platform.machine(), "system": platform.system(), "python": sys.version.split()[0]}


def main() -> None:
    """Print the answer of the row."""
    try:
        found = facts()
    except (OSError, RuntimeError) as error:
        Answer("not run", f"no CUDA card: {error}", host()).print()
        return
    Answer("recorded", data=host() | found).print()


if __name__ == "__main__":
    main()
