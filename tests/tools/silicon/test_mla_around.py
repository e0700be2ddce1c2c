"""The kernels around the sparse MLA backward give the bytes on the emulator that an H100 gave."""

from __future__ import annotations

from pathlib import Path

from tileproof.kernels.sm90.mla_around import launches
from tileproof.tools import evidence
from tileproof.tools.silicon.mla_around import digests, main


def of_the_card() -> dict[str, str]:
    """SHA-256 of each output, by the name of its file."""
    lines = evidence.read_text("2026-11-24-h100-mla-around.txt").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines if line.endswith(".bin"))}


def test_the_emulator_gives_the_bytes_of_the_card(tmp_path: Path) -> None:
    found = digests()
    assert len(found) == 16 and found == of_the_card()
    assert main([str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.bin"))) == 16 and (tmp_path / "kernels.ptx").exists()


def test_another_rounding_has_other_bytes() -> None:
    found = digests(launches.built().ptx.replace("cvt.rn.f16x2", "cvt.rz.f16x2"))
    card = of_the_card()
    assert {name for name in card if found[name] != card[name]} == {
        f"f16-{number}.bin" for number in range(4)
    }
