"""Row sums of which an operand was read at other columns: each planted way is named, noise is not."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.diagnose.columns import explain_columns
from tileproof.conformance.diagnose.faults import Product

ROWS = np.arange(64)


def product() -> Product:
    """delta of 64 heads."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 64, 512))
    return Product("rowsum", a, b, ("o", "dO"))


def told(read, rows=ROWS) -> str:
    """What is said when operand dO was `read` in these rows."""
    right = product()
    found = right.value()
    found[rows] = (right.a * read(right.b)).sum(axis=1, keepdims=True)[rows]
    return explain_columns(right, found, right.bound(), (rows, np.arange(1)))


def chunks(change):
    """dO whose 16-byte chunks, (row, chunk), are those of `change`."""
    row, chunk = np.meshgrid(ROWS, np.arange(64), indexing="ij")

    def read(b):
        r, c = change(row, chunk)
        return b.reshape(64, 64, 8)[r % 64, c % 64].reshape(64, 512)

    return read


def in_shared(off):
    """Chunks `off` further in rows of 128 bytes with a swizzle, of one column tile."""

    def change(row, chunk):
        at = row * 8 + (chunk % 8 ^ row % 8) + off
        return at // 8, chunk // 8 * 8 + (at % 8 ^ at // 8 % 8)

    return chunks(change)


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (chunks(lambda r, c: (r, c ^ 3)), "operand dO came from columns c ^ 24, not c"),
        (chunks(lambda r, c: (r, c & ~31)), "operand dO came from the first of every 256 columns"),
        (chunks(lambda r, c: (r & ~12, c)), "operand dO came from the first 4 of every 16 rows"),
        (
            chunks(lambda r, c: (r & ~12, c & ~31)),
            "operand dO came from the first 4 of every 16 rows, the first of every 256 columns",
        ),
        (chunks(lambda r, c: (r, c & ~4)), "operand dO came from columns c without bit 32"),
        (
            chunks(lambda r, c: (r, np.where(c < 32, c ^ 1, c))),
            "columns 0..255 of operand dO came from columns c ^ 8",
        ),
        (in_shared(1), "operand dO came from 16 bytes further in shared memory"),
        (in_shared(8), "operand dO came from 128 bytes further in shared memory"),
        (in_shared(-64), "operand dO came from 1024 bytes before in shared memory"),
        (chunks(lambda r, c: (r, c ^ (r % 8) ^ (r % 7))), "operand dO is read with a different swizzle"),
        (
            chunks(lambda r, c: (r, (c // 8 & 4 | c & 3) * 8 + c % 8)),
            "column c lies in tile c / 64, but was read at its bits 0x4 and bits 0x3 of c / 8",
        ),
        (
            chunks(lambda r, c: (r, c // 8 * 8 + ((c ^ r) & 3 ^ r % 8))),
            "place c / 8 % 8 ^ r % 8 of its tile, but was read at its bits 0x3",
        ),
    ],
)
def test_columns_from_elsewhere(read, says):
    assert says in told(read)


def test_only_the_rows_of_one_warp():
    assert "16 bytes further" in told(in_shared(1), np.arange(16, 32))


def test_a_lane_that_reads_what_another_reads():
    right = product()
    chunk = np.arange(64)
    lanes = np.where(chunk % 32 == 31, chunk - 26, chunk)
    a, b = (operand.reshape(64, 64, 8)[:, lanes].reshape(64, 512) for operand in (right.a, right.b))
    found = (a * b).sum(axis=1, keepdims=True)
    says = explain_columns(right, found, right.bound(), (ROWS, np.arange(1)))
    assert says == "the columns of lane 31 of the warp are missing, those of lane 5 counted twice"


def test_noise_and_few_rows_have_no_cause():
    rng = np.random.default_rng(6)
    assert told(lambda b: b + rng.standard_normal(b.shape)) == ""
    assert told(lambda b: rng.permuted(b, axis=1)) == ""
    assert told(in_shared(1), np.arange(3)) == ""
    right = product()
    matmul = Product("matmul", right.a, right.b, right.names)
    assert explain_columns(matmul, matmul.value(), matmul.bound(), (ROWS, ROWS)) == ""
