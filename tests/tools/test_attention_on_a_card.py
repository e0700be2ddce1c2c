"""The tool that judges PyTorch's kernels on a card, with the CPU's own; without a card the others say so."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.kernels.host.torch_cuda import probe
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


def test_a_feature_that_ends_the_process_is_refused_and_the_others_are_tried() -> None:
    serve = (
        "import json, os, sys\n"
        "for name in sys.argv[3:]:\n"
        "    if name == 'bad': os.abort()\n"
        "    print(json.dumps('no' if name == 'refused' else ''), flush=True)\n"
    )
    found = probe.tried("any", "bf16", ["a", "bad", "refused", "b"], (sys.executable, "-c", serve))
    assert found == {"a": "", "bad": "the operator ends its process (exit code -6)", "refused": "no", "b": ""}
