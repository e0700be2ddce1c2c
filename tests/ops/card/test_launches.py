"""The backend `cuda`: its launches, on the stub driver and the emulator, give what `emulator` gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tileproof.conformance.beside.record import recorder
from tileproof.kernels import manifest
from tileproof.kernels.registry import kernel
from tileproof.ops import cuda, emulated, plan, sparse_mla, sparse_mla_backward, steps
from tileproof.spec.machine.errors import TileproofError

from tests.kit.paths import ROOT

PROGRAM = ROOT / "tests/kit/cuda_calls.py"
CLEAR, MAIN, CONVERT = "tileproof_mla_clear", "tileproof_head64_d576", "tileproof_mla_bf16"


def call(seed: int, **other: Any) -> steps.Call:
    """Two tokens, 16 heads, 40 rows, 70 slots, a sink: all axes are padded."""
    torch.manual_seed(seed)
    q, kv = torch.randn(2, 16, 576).bfloat16(), torch.randn(40, 576).bfloat16()
    indices = torch.randint(-1, 41, (2, 70), dtype=torch.int32)
    length, sink = torch.tensor([70, 9], dtype=torch.int32), torch.randn(16)
    o, lse = sparse_mla(q, kv, indices, topk_length=length, sink=sink)
    dO = torch.randn(2, 16, 512).bfloat16()
    made = steps.Call(q, kv, o, dO, lse, indices, length, sink, 576**-0.5, "e", torch.bfloat16, False)
    return made._replace(**other)


def run(folder: Path, calls: list[tuple[str, steps.Call]]) -> tuple[recorder.Recorded, list[Any]]:
    """The program's results of calls, each with the mistake that is planted in it."""
    torch.save([(mistake, tuple(each)) for mistake, each in calls], folder / "calls.pt")
    done = recorder.record([sys.executable, str(PROGRAM), str(folder)], run=True, quiet=True)
    assert done.exit_code == 0 and not done.problem and not done.failed, (done.stderr, done.problem)
    return done, torch.load(folder / "results.pt", weights_only=False)


def same(known: tuple[torch.Tensor, ...], made: Any) -> list[bool]:
    """Whether dq, dkv and d_sink are the known results, bit for bit."""
    return [torch.equal(x, y) for x, y in zip(made, known, strict=True)]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images of head64, d_qk 576, and of what runs beside it."""
    folder, head64 = tmp_path_factory.mktemp("kernels"), kernel("head64")
    manifest.write(manifest.packaged(head64, head64.variant(d_qk=576), folder), folder)
    return folder


def test_launches_give_the_bits_of_the_emulator(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call has other addresses, the third int64 indices and no sink, the fourth more launches;
    the others are made by a launcher with a defect.
    """
    monkeypatch.setenv(cuda.FOLDER, str(kernels))
    wide = call(2, dkv_dtype=torch.float16, sink=None, topk_length=None)
    wide = wide._replace(indices=wide.indices.long() + (wide.indices < 0) * 2**40)
    right = [call(0), call(1), wide, call(3, deterministic=True, dkv_dtype=torch.float32)]
    wrong = ["not cleared", "o in the place of dO", "maps of another address", "maps of another address"]
    calls = [("", each) for each in right] + [(mistake, call(4)) for mistake in wrong]
    done, made = run(tmp_path, calls)
    assert not done.findings
    for each, results in zip(right, made, strict=False):
        assert same(emulated.backward(each), results) == [True] * 3
    known = emulated.backward(call(4))
    found = [all(same(known, results)) for results in made[len(right) :]]
    assert found == [False, False, True, False]  # the first call with a kept address is that address's
    launches = done.recording.launches
    entries = [launch.entry for launch in launches]
    assert entries[:4] == [CLEAR, MAIN, "tileproof_mla_d_sink", CONVERT]
    assert len(entries) == 4 + 4 + 3 + 5 + 3 + 3 * 4
    assert len({launch.stream for launch in launches}) == 1
    early = {launch.entry for launch in launches if launch.overlaps}
    assert early == {launch.entry for launch in launches} - {CLEAR, "tileproof_mla_expand"}


@pytest.mark.slow
def test_float16_has_kernels_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, head64 = tmp_path / "kernels", kernel("head64")
    manifest.write(manifest.packaged(head64, head64.variant(d_qk=576, f16=1), folder), folder)
    monkeypatch.setenv(cuda.FOLDER, str(folder))
    given = call(5, deterministic=True, dkv_dtype=torch.float16)
    given = given._replace(**{name: getattr(given, name).half() for name in ("q", "kv", "o", "dO")})
    done, (made,) = run(tmp_path, [("", given)])
    assert not done.findings and same(emulated.backward(given), made) == [True] * 3
    assert "tileproof_head64_d576_f16" in [launch.entry for launch in done.recording.launches]


def test_a_folder_of_another_version_is_named(kernels: Path) -> None:
    entry = plan.main_entry(64, 576, torch.bfloat16)
    image = manifest.image_in(kernels, entry.name, entry.layout)
    assert len(image) > 10_000
    with pytest.raises(TileproofError, match="lacks an entry"):
        manifest.image_in(kernels, "tileproof_head64_d512", entry.layout)
    with pytest.raises(TileproofError, match="another version"):
        manifest.image_in(kernels, entry.name, plan.beside_entry(CLEAR).layout)
    file = kernels / f"{entry.name}.fatbin"
    try:
        file.write_bytes(image[:-1])
        with pytest.raises(TileproofError, match="another version"):
            manifest.image_in(kernels, entry.name, entry.layout)
    finally:
        file.write_bytes(image)


def test_a_tensor_elsewhere_is_named() -> None:
    given = call(0)._asdict()
    given = {name: given[name] for name in ("q", "kv", "o", "dO", "lse", "indices")}
    with pytest.raises(TileproofError) as error:
        sparse_mla_backward(**given, backend="cuda")
    assert error.value.where == "q" and "compute capability 10.x" in error.value.expected
    assert error.value.found == "cpu"


def test_without_a_driver_the_extra_or_the_driver_is_named() -> None:
    code = (
        "import sys; sys.modules['cuda.bindings'] = None; import torch\n"
        "from tileproof.ops import cuda, plan\n"
        "cuda.load(plan.beside_entry('tileproof_mla_clear'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode and "pip install 'tileproof[cuda]'" in done.stderr
