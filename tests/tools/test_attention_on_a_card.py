"""The tool that judges PyTorch's kernels on a card, with the CPU's own; without a card the others say so."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.silicon import attention


def test_a_right_kernel_passes_and_every_control_is_found() -> None:
    result = attention.judged("torch-cpu-flash", 3, 0, 60.0)
    assert result["failing"] == {} and result["examples"] > 3
    assert result["controls"] == dict.fromkeys(("LSE", "O", "dQ", "dK", "dV"), True)


def test_without_the_engine_the_check_starts() -> None:
    code = (
        "import sys; sys.modules['tileproof.emulator'] = None\nfrom tileproof.tools.silicon import attention"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
@pytest.mark.parametrize("name", ["torch-efficient", "torch-flash-f16", "torch-cudnn"])
def test_without_a_card_it_is_refused(name: str) -> None:
    target = kernel(name)
    with pytest.raises(TileproofError, match="no CUDA card"):
        on_own_driver(target, target.variants[0])
