"""Triton kernels of the kinds that people write: right values and no error, and what is left out is found."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

import torch
from tileproof.triton import emulate

from tests.kit.outside import kinds_of_kernels as kernels

POLICIES = ("early", "random")


@pytest.mark.parametrize("policy", POLICIES)
def test_decode_attention_over_pages(policy: str) -> None:
    """Its lanes sum with `fma` in other orders: two roundings of one value, which is no error."""
    torch.manual_seed(0)
    sequences, heads, dim, page, most = 2, 2, 64, 16, 3
    q = torch.randn(sequences, heads, dim).half()
    keys, values = (torch.randn(8, page, heads, dim).half() for _ in range(2))
    pages = torch.randperm(8)[: sequences * most].reshape(sequences, most).int()
    lengths, out = torch.tensor([7, 33], dtype=torch.int32), torch.zeros(sequences, heads, dim)
    with emulate(races=True, policy=policy) as run:
        kernels.paged_decode[(sequences, heads)](
            q, keys, values, pages, lengths, out, dim**-0.5, HEADS=heads, DIM=dim, PAGE=page, MAX_PAGES=most
        )
    for at, length in enumerate(lengths.tolist()):
        k, v = (held[pages[at].long()].reshape(-1, heads, dim)[:length].float() for held in (keys, values))
        p = (torch.einsum("hd,nhd->hn", q[at].float(), k) * dim**-0.5).softmax(1)
        torch.testing.assert_close(out[at], torch.einsum("hn,nhd->hd", p, v), atol=1e-4, rtol=1e-4)
    assert "race-rounded-value" in {finding.code for finding in run.findings}


@pytest.mark.parametrize("policy", POLICIES)
def test_cross_entropy_in_place(policy: str) -> None:
    """All lanes read the target's logit; after the barrier one of them replaces it."""
    torch.manual_seed(1)
    logits, targets, loss = torch.randn(3, 300), torch.randint(0, 300, (3,)), torch.zeros(3)
    same = logits.clone().requires_grad_()
    with emulate(races=True, policy=policy):
        kernels.cross_entropy[(3,)](logits, targets, loss, 300, BLOCK=256)
    expected = torch.nn.functional.cross_entropy(same, targets, reduction="none")
    expected.sum().backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(logits, same.grad)


@pytest.mark.parametrize("policy", POLICIES)
def test_sums_under_a_lock(policy: str) -> None:
    x = torch.arange(6 * 100, dtype=torch.float32).reshape(6, 100)
    for locked in (True, False):
        out, locks = torch.zeros(2, 100), torch.zeros(4, dtype=torch.int32)
        with emulate(races=True, policy=policy, raises=False) as run:
            kernels.sums_by_group[(6,)](x, out, locks, 100, GROUPS=2, BLOCK=128, LOCKED=locked)
        if locked:
            assert not run.errors and torch.equal(out, torch.stack([x[0::2].sum(0), x[1::2].sum(0)]))
        else:
            assert "race-clusters" in {error.code for error in run.errors}


def test_a_histogram() -> None:
    torch.manual_seed(2)
    x, counts = torch.randint(0, 64, (1500,), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with emulate(races=True):
        kernels.histogram[(2,)](x, counts, 1500, BINS=64, BLOCK=1024)
    assert torch.equal(counts, torch.bincount(x, minlength=64).int())
