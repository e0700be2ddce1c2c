"""Decoded programs on disk are those that decoding makes, and no other program is taken for them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from tileproof.emulator import decoded_store
from tileproof.emulator.errors import UnsupportedInstruction
from tileproof.emulator.memory import Memory
from tileproof.emulator.module import Module
from tileproof.emulator.program import Decoded

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n.global .align 4 .u32 kept[4] = {7, 8, 9, 10};\n"


def text(body: str, add: int = 1) -> str:
    """A kernel whose value is the sum of a variable of the module, a shared symbol's place and `add`s."""
    adds = "\n".join(f"  add.u32 %r1, %r1, {add};" for _ in range(40))
    return f"""{HEAD}
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  .shared .align 16 .b8 room[64];
  mov.u32 %r1, room;
  ld.global.u32 %r2, [kept+4];
  add.u32 %r1, %r1, %r2;
{adds}
  mov.u32 %r3, %tid.x;
  add.u32 %r1, %r1, %r3;
  {body}
  ld.param.u64 %rd1, [p];
  st.global.u32 [%rd1], %r1;
  ret;
}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, in which even small entries are kept."""
    monkeypatch.setenv("TILEPROOF_CACHE", str(tmp_path))
    monkeypatch.setattr(decoded_store, "MIN_CHARACTERS", 1)
    return tmp_path / "decoded"


def value(module: Module) -> int:
    memory, out = Memory(), np.zeros(1, np.uint32)
    buffer = memory.buffer(out, "out")
    assert not module.launch("k", grid=(1, 1, 1), block=(1, 1, 1), args=(buffer,), memory=memory).findings
    return int(out[0])


def plain(decoded: Decoded) -> dict[str, object]:
    own = {f.name: getattr(decoded, f.name) for f in fields(decoded) if f.name not in ("entry", "program")}
    file = own.pop("registers")
    return {
        **{name: item.tobytes() if isinstance(item, np.ndarray) else item for name, item in own.items()},
        "file": (file.place.tobytes(), file.size, file.widths),
    }


def test_a_stored_program_is_what_decoding_makes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Module.from_ptx(text("")).decode("k")
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(decoded_store, "Decoder", None)  # decoding again would fail
    again = Module.from_ptx(text(""))
    assert plain(again.decode("k")) == plain(made)
    assert value(again) == value(Module.from_ptx(text("")))


@pytest.mark.parametrize("what", ["text", "variables", "decoder"])
def test_what_decoding_reads_is_in_the_name(what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another text, variables at another address, or an emulator that decodes otherwise: decoded anew."""
    first = value(Module.from_ptx(text("")))
    if what == "decoder":
        monkeypatch.setattr(decoded_store, "_decoder", lambda: b"another")
    other = Module.from_ptx(
        text("", 2 if what == "text" else 1),
        **({"variables_at": 0x0900_0000_0000} if what == "variables" else {}),
    )
    assert value(other) == first + (40 if what == "text" else 0)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "turned", "empty"])
def test_a_damaged_file_is_decoded_again(damage: str, folder: Path) -> None:
    expected = value(Module.from_ptx(text("")))
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    turned = whole[:99] + bytes([whole[99] ^ 1]) + whole[100:]
    file.write_bytes({"cut": whole[:-5], "turned": turned, "empty": b""}[damage])
    assert value(Module.from_ptx(text(""))) == expected
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "decoded").write_text("a file where the folder should be")
    assert value(Module.from_ptx(text(""))) > 0


def test_nothing_is_stored_of_what_is_not_executed(folder: Path) -> None:
    with pytest.raises(UnsupportedInstruction):
        Module.from_ptx(text("txq.foo.b32 %r1, [%rd1];")).decode("k")
    assert not folder.exists()


def test_small_entries_are_not_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_store, "MIN_CHARACTERS", 1 << 16)
    assert value(Module.from_ptx(text(""))) > 0
    assert not folder.exists()
