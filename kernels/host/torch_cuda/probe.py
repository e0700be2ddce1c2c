"""Tries features on an operator in processes of their own, since some end the process (SIGSEGV) they run in.

    python -m tileproof.kernels.host.torch_cuda.probe OPERATOR FORM [FEATURE ...]

prints one JSON string for the plain problem and each feature: why it is refused, or "".
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence

from tileproof.spec.problems.dense_attention_bwd import features
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

PLAIN = "plain"
MODULE = "tileproof.kernels.host.torch_cuda.probe"


def case(name: str, form: str) -> DenseCase:
    """The problem that stands for a feature."""
    return DenseCase(form, m=8, n=8, d_qk=16, d_v=16) if name == PLAIN else features.sample(name, form)


def tried(
    operator: str, form: str, names: Sequence[str], command: Sequence[str] = (sys.executable, "-m", MODULE)
) -> dict[str, str]:
    """Why each is refused, "" where it is not; a process that ends is started again for what is left."""
    found: dict[str, str] = {}
    while left := [name for name in names if name not in found]:
        done = subprocess.run([*command, operator, form, *left], capture_output=True, text=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        found |= dict(zip(left, answers, strict=False))
        if len(answers) < len(left):
            found[left[len(answers)]] = f"the operator ends its process (exit code {done.returncode})"
    return found


def _answers(operator: str, form: str, names: Iterable[str]) -> None:
    from tileproof.kernels.host.torch_cuda.card import refusal

    for name in names:
        print(json.dumps(refusal(operator, case(name, form))), flush=True)


if __name__ == "__main__":
    _answers(sys.argv[1], sys.argv[2], sys.argv[3:])
