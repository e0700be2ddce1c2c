"""Repeats recorded launches (tools/silicon/record.py) on a CUDA card and compares every buffer bit for bit.

    python tools/silicon/replay.py build/silicon.npz evidence.json

Needs numpy and a CUDA driver; PTX is retargeted to the card's own architecture. Launches whose PTX the
driver does not assemble for this card are counted by the assembler's words. A launch that breaks the context
ends its worker process; the parent goes on with the next one.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import multiprocessing
import sys
from typing import Any

import numpy as np

DTYPES = (
    "uint8",
    "uint16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
)
SWIZZLES = ("none", "32B", "64B", "128B")
CLUSTER_DIMENSION = 4  # CUlaunchAttributeID
MAX_DYNAMIC_SHARED = 8  # CUfunction_attribute
GUARD = 4096  # bytes before and after each buffer


class Failure(Exception):
    """A driver call that failed: its name, code and text."""


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


class Card:
    """The driver API, as far as launches need it."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()
        major, minor, driver = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.call("cuDriverGetVersion", ctypes.byref(driver))
        self.arch, self.driver = f"sm_{major.value}{minor.value}", driver.value

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.cuda, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(code, ctypes.byref(text))
            raise Failure(f"{name}: {code} {text.value.decode() if text.value else ''}")

    def load(self, text: str) -> ctypes.c_void_p:
        """A module; Failure carries the first line of the assembler's log."""
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 8192)
        module = ctypes.c_void_p()
        image = text.replace(".target sm_100a", f".target {self.arch}a").encode() + b"\0"
        code = self.cuda.cuModuleLoadDataEx(ctypes.byref(module), image, 2, options, values)
        if code:
            raise Failure("assemble: " + log.value.decode().strip().split("\n")[0][:160])
        return module

    def run(self, case: dict[str, Any], before: list[np.ndarray]) -> list[np.ndarray]:
        """The buffers after the launch."""
        module = self.load(case["text"])
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, case["entry"].encode())
        addresses = []
        for array in before:
            pointer = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes + 2 * GUARD))
            self.call(
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(pointer.value + GUARD),
                array.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(array.nbytes),
            )
            addresses.append(pointer.value + GUARD)
        keep = [
            self.argument(a, addresses, size) for a, size in zip(case["args"], case["sizes"], strict=True)
        ]
        pointers = (ctypes.c_void_p * max(1, len(keep)))(*[k.ctypes.data for k in keep])
        attribute = Attribute(id=CLUSTER_DIMENSION)
        attribute.value[0:3] = case["cluster"]
        config = LaunchConfig(
            tuple(case["grid"]), tuple(case["block"]), case["shared"], None, ctypes.pointer(attribute), 1
        )
        if case["shared"] > 48 * 1024:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, case["shared"])
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        self.call("cuCtxSynchronize")
        out = []
        for array, address in zip(before, addresses, strict=True):
            result = np.empty_like(array)
            self.call(
                "cuMemcpyDtoH_v2",
                result.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_uint64(address),
                ctypes.c_size_t(array.nbytes),
            )
            self.call("cuMemFree_v2", ctypes.c_uint64(address - GUARD))
            out.append(result)
        self.call("cuModuleUnload", module)
        return out

    def argument(self, item: dict[str, Any], addresses: list[int], size: int) -> np.ndarray:
        """The bytes of one kernel parameter, 64-byte aligned."""
        raw = np.zeros(size + 64, dtype=np.uint8)
        start = -raw.ctypes.data % 64
        out = raw[start : start + size]
        if "map" in item:
            self.encode(item["map"], addresses[item["buffer"]] + item["offset"], out)
        elif "buffer" in item:
            out[:8] = np.array([addresses[item["buffer"]]], dtype="<u8").view(np.uint8)
        elif item["kind"] == "f":
            out[:] = np.array([item["number"]], dtype="<f4" if size == 4 else "<f8").view(np.uint8)
        else:
            out[:] = np.frombuffer(
                int(item["number"]).to_bytes(size, "little", signed=item["number"] < 0), dtype=np.uint8
            )
        return out

    def encode(self, fields: dict[str, Any], address: int, out: np.ndarray) -> None:
        """cuTensorMapEncodeTiled."""
        rank = len(fields["shape"])
        self.call(
            "cuTensorMapEncodeTiled",
            out.ctypes.data_as(ctypes.c_void_p),
            DTYPES.index(fields["dtype"]),
            rank,
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*fields["shape"]),
            (ctypes.c_uint64 * max(1, rank - 1))(*fields["strides"]),
            (ctypes.c_uint32 * rank)(*fields["box"]),
            (ctypes.c_uint32 * rank)(*fields["element_strides"]),
            0,
            SWIZZLES.index(fields["swizzle"]),
            0,
            int(fields["oob_fill"] == "nan"),
        )


def differing(case: dict[str, Any], want: list[np.ndarray], got: list[np.ndarray]) -> list[dict[str, Any]]:
    """The 32-bit words that differ, the first few of each buffer."""
    out = []
    for index, (w, g) in enumerate(zip(want, got, strict=True)):
        where = np.nonzero(w != g)[0]
        if len(where):
            words = sorted({int(at) // 4 * 4 for at in where})[:8]
            pairs = [[at, w[at : at + 4].tobytes().hex(), g[at : at + 4].tobytes().hex()] for at in words]
            out.append({"buffer": index, "bytes": len(where), "of": len(w), "first": pairs})
    return out


def worker(path: str, start: int, pipe: Any) -> None:
    """Runs cases from `start` on and sends a verdict for each."""
    data = np.load(path)
    cases = json.loads(data["cases"].tobytes())
    card = Card()
    pipe.send(("card", {"name": card.name, "arch": card.arch, "driver": card.driver}))
    for number in range(start, len(cases)):
        case = cases[number]
        count = case["buffers"]
        before = [data[f"{number}_{i}"] for i in range(count)]
        want = [data[f"{number}_{i}"] for i in range(count, 2 * count)]
        try:
            verdict: tuple[str, Any] = ("differs", differing(case, want, card.run(case, before)))
            verdict = verdict if verdict[1] else ("same", None)
        except Failure as failure:
            verdict = ("refused" if str(failure).startswith("assemble") else "failed", str(failure))
        pipe.send((number, verdict))
        if verdict[0] == "failed":
            return
    pipe.send(("done", None))


def main() -> None:
    path, out = sys.argv[1:3]
    cases = json.loads(np.load(path)["cases"].tobytes())
    context = multiprocessing.get_context("spawn")
    verdicts: dict[int, tuple[str, Any]] = {}
    card: dict[str, Any] = {}
    start = 0
    while start < len(cases):
        parent, child = context.Pipe()
        process = context.Process(target=worker, args=(path, start, child))
        process.start()
        while True:
            if not parent.poll(20):  # a hang on the card, or a dead worker
                process.kill()
                verdicts[start] = ("failed", "no answer in 20 s")
                start += 1
                break
            number, value = parent.recv()
            if number == "card":
                card = value
            elif number == "done":
                start = len(cases)
                break
            else:
                verdicts[number] = value
                start = number + 1
                if value[0] == "failed":
                    break
        process.join(5)
    tally: dict[str, int] = {}
    for verdict, _ in verdicts.values():
        tally[verdict] = tally.get(verdict, 0) + 1
    reasons: dict[str, int] = {}
    for number, (verdict, detail) in verdicts.items():
        if verdict in ("refused", "failed"):
            test = cases[number]["test"].split("::")[-1].split("[")[0]
            reason = f"{verdict}: {detail} ({test})"
            reasons[reason] = reasons.get(reason, 0) + 1
    unlike: dict[str, dict[str, Any]] = {}
    for number, (verdict, detail) in sorted(verdicts.items()):
        if verdict == "differs":
            case = cases[number]
            unlike.setdefault(case["test"], {"launches": 0, "example": detail, "text": case["text"][-500:]})[
                "launches"
            ] += 1
    report = {
        "date": datetime.date.today().isoformat(),
        "card": card,
        "launches": len(cases),
        "verdicts": tally,
        "tests": sorted(
            {
                case["test"].split("[")[0]
                for n, case in enumerate(cases)
                if verdicts.get(n, ("",))[0] == "same"
            }
        ),
        "differs": unlike,
        "not run": reasons,
    }
    if "--all" in sys.argv:
        report["each"] = [[case["test"], verdicts.get(n, ("?", ""))[0]] for n, case in enumerate(cases)]
    with open(out, "w") as file:
        json.dump(report, file, indent=1)
    print(json.dumps({k: report[k] for k in ("date", "card", "launches", "verdicts")}))
    for test, value in unlike.items():
        print("differs", test, value["launches"], json.dumps(value["example"])[:300])
    for reason, number in sorted(reasons.items(), key=lambda r: -r[1])[:20]:
        print(number, reason)


if __name__ == "__main__":
    main()
