"""`Module.inspect` and `tileproof inspect`: what a module holds, and every form that is not executed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tileproof.emulator import Module, PtxError, UnsupportedInstruction

PTX = """
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry first(.param .u64 out, .param .align 64 .b8 block[192], .param .u32 unread) .reqntid 64
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
    .shared .align 8 .b8 tile[96];
    ld.param.u64 %rd0, [out];
    ld.param.v2.u32 {%r1, %r2}, [block+128];
    mov.b64 %rd1, block;
    ld.param.u32 %r3, [%rd1+136];
    bar.sync 1, 64;
    mov.u32 %r4, 3;
    barrier.sync %r4, 64;
    mov.u32 %r5, 4;
    add.u32 %r5, %r5, %r1;
    bar.sync %r5, 64;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    REFUSED
    st.global.u32 [%rd0], %r1;
    ret;
}
.visible .entry second(.param .align 64 .b8 map[128])
{
    .reg .b64 %rd<3>;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd1, %rd0;
    prefetch.tensormap [%rd1];
    ret;
}
"""
CLEAN = PTX.replace("REFUSED", "")
TEX = "tex.1d.v4.f32.s32 {%r5,%r6,%r7,%r8}, [%rd0, {%r1}];"
# Two forms, one of them twice; ptxas has the second, nobody the first.
BROKEN = PTX.replace("REFUSED", f"add.frob.u32 %r5, %r1, %r2;\n {TEX}\n {TEX}")


def test_what_a_kernel_holds() -> None:
    found = Module.from_ptx(CLEAN).inspect()
    assert (found.version, found.target, found.runs) == ("8.8", "sm_100a", True)
    first, second = found.entries
    out, block, unread = first.parameters
    assert (out.offset, out.bytes, out.read, out.address_taken) == (0, 8, ((0, 8),), False)
    assert (block.offset, block.align, block.read, block.address_taken) == (64, 64, ((128, 140),), False)
    assert unread.read == () and not unread.address_taken
    assert (first.static_shared, first.dynamic_shared, second.dynamic_shared) == (96, True, True)
    assert (first.named_barriers, first.computed_barriers) == ((1, 3, 4), True)
    assert first.cta_groups == (1,) and first.directives == {"reqntid": (64,)}
    assert second.parameters[0].address_taken and second.named_barriers == ()


def test_barrier_numbers_in_registers() -> None:
    """nvcc moves a literal to a register first; what else is written there makes it computed."""
    (first, _) = Module.from_ptx(CLEAN.replace("add.u32 %r5, %r5, %r1;", "mov.u32 %r5, 6;")).inspect().entries
    assert (first.named_barriers, first.computed_barriers) == ((1, 3, 4, 6), False)


def test_a_second_body_of_one_name() -> None:
    with pytest.raises(PtxError, match="a second body of entry second"):
        Module.from_ptx(CLEAN + CLEAN[CLEAN.index(".visible .entry second") :])


def test_every_form_that_is_not_executed_is_reported_with_count_and_lines() -> None:
    module = Module.from_ptx(BROKEN)
    first, second = module.inspect().entries
    assert [(f.form, f.count) for f in first.not_executed] == [("add.frob.u32", 1), ("tex.1d.v4.f32.s32", 2)]
    lines = BROKEN.splitlines()
    for form in first.not_executed:
        assert all(form.form in lines[n - 1] for n in form.lines)
    assert second.runs and not first.runs and not module.inspect().runs
    with pytest.raises(UnsupportedInstruction):  # a launch names the first of them only
        module.decode("first")


def command(*words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tileproof.conformance.cli", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_command(tmp_path: Path) -> None:
    clean, broken = tmp_path / "clean.ptx", tmp_path / "broken.ptx"
    clean.write_text(CLEAN)
    broken.write_text(BROKEN)
    done = command("inspect", str(clean))
    assert done.returncode == 0 and "every instruction is executed" in done.stdout
    done = command("inspect", str(broken), "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 2 and not data["runs"] and data["entries"][1]["runs"]
    assert data["entries"][0]["not_executed"][1]["count"] == 2
    assert command("inspect", str(broken), "--entry", "second").returncode == 0
    done = command("inspect", str(broken), "--entry", "third")
    assert done.returncode == 2 and "no such kernel" in done.stderr
    done = command("inspect", str(tmp_path / "none.ptx"))
    assert done.returncode == 2 and "there is no such file" in done.stderr


def test_the_command_that_errors_name_exists() -> None:
    done = command("instructions", "tcgen05.alloc", "--json")
    (row,) = json.loads(done.stdout)
    assert done.returncode == 0 and row["instruction"] == "tcgen05.alloc" and row["ISA"]
    done = command("instructions", "race-unordered", "--findings")
    assert done.returncode == 0 and "race-unordered" in done.stdout
    assert command("instructions", "frobnicate").returncode == 2
