# ruff: noqa: E501 - PTX lines are kept whole
"""The first column of an allocation, followed: what only addresses depend on is certified for all columns."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule

from tests.kit.column_programs import outcome, program
from tests.kit.ptx import CLUSTER_SYNC, alloc, dealloc, run, store

SLOT = 1088  # where the first column is
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [{0}], {{%t}};\ntcgen05.wait::st.sync.aligned;"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, [{0}];\ntcgen05.wait::ld.sync.aligned;"


# The address of the warp's lanes is in %r2, what its lanes add in %r3.
def used(setting: str, *, register: str = "%r2", columns: int = 64) -> str:
    """The CTA allocates; `setting` makes an address of %r100; each warp stores there, loads and shows it."""
    return f"""{alloc(columns)}
    shl.b32 %r3, %r101, 21;
    {setting}
    {ST.format(register)}
    {LD.format(register)}
    {store("%r1")}
    {dealloc(columns)}"""


def launched(body: str, schedule: Schedule | None = None, **how: object) -> RunResult:
    memory = Memory()
    out = memory.buffer(np.zeros(1024, np.uint32))
    made = {"threads": 64, "shared_bytes": 0x1000, "races": True, **how}
    return run(body, [out], memory=memory, schedule=schedule or Schedule("early"), **made)  # type: ignore[arg-type]


ADD = "add.u32 %r2, %r100, %r3;"
ADDRESSES = {
    "lanes and a constant": f"{ADD}\nadd.u32 %r2, %r2, 5;",
    "lanes by or": "or.b32 %r2, %r100, %r3;",
    "columns within a unit by or": f"{ADD}\nor.b32 %r2, %r2, 7;",
    "a step of a ring": "mov.u32 %r4, 3;\nmad.lo.u32 %r2, %r4, 4, %r100;\nadd.u32 %r2, %r2, %r3;",
    "a distance": f"add.u32 %r4, %r100, 40;\nsub.u32 %r4, %r4, %r100;\n{ADD}\nadd.u32 %r2, %r2, %r4;",
    "as 64 bits": "cvt.u64.u32 %rd1, %r100;\nadd.u64 %rd1, %rd1, 9;\ncvt.u32.u64 %r2, %rd1;\nadd.u32 %r2, %r2, %r3;",
    "packed and unpacked": "mov.b64 %rd1, {%r100, %r3};\nmov.b64 {%r4, %r5}, %rd1;\nadd.u32 %r2, %r4, %r5;",
    "chosen": "setp.eq.u32 %p1, %r101, 0;\nadd.u32 %r4, %r100, 8;\nselp.b32 %r2, %r4, %r100, %p1;\nadd.u32 %r2, %r2, %r3;",
    "under a condition": "setp.eq.u32 %p1, %r101, 0;\nmov.u32 %r4, %r100;\n@%p1 add.u32 %r4, %r4, 16;\nadd.u32 %r2, %r4, %r3;",
    "from another lane": f"{ADD}\nand.b32 %r4, %t, 31;\nsetp.ne.u32 %p1, %r4, 4;\n@%p1 mov.u32 %r2, 0;\n"
    "shfl.sync.idx.b32 %r2, %r2, 4, 31, -1;",
    "through shared memory": f"{ADD}\nmad.lo.u32 %r4, %t, 8, 2048;\nst.shared.v2.b32 [%r4], {{%r3, %r2}};\n"
    "bar.sync 0;\nld.shared.v2.b32 {%r5, %r2}, [%r4];",
    "a comparison that all columns pass": f"{ADD}\nsetp.gt.u32 %p1, %r100, 511;\n@%p1 trap;",
    "bits that no column has": f"{ADD}\nand.b32 %r5, %r2, 0xc000001f;\nadd.u32 %r2, %r2, %r5;",
    "the word is written again": f"{ADD}\nbar.sync 0;\nsetp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.b32 [{SLOT}], 7;\nbar.sync 0;\n"
    f"ld.shared.b32 %r6, [{SLOT}];\n{store('%r6')}",
}


@pytest.mark.parametrize("setting", ADDRESSES.values(), ids=ADDRESSES)
def test_addresses_may_depend_on_it(setting: str) -> None:
    result = launched(used(setting))
    assert not result.errors and result.certified, result.certificate
    assert launched(used(setting), Schedule("early", environment=1)).certified


OTHER = {  # what depends on the first column otherwise: the lines, and the instruction that is named
    "a branch": (f"{ADD}\nsetp.eq.u32 %p1, %r100, 0;\n@!%p1 trap;", "setp.eq.u32"),
    "an output": (f"{ADD}\n{store('%r100')}", "st.global.b32"),
    "an output, by another way": (f"{ADD}\nshr.u32 %r4, %r100, 5;\n{store('%r4')}", "shr.u32"),
    "an address of shared memory": (f"{ADD}\nst.shared.b32 [%r100+2048], 1;", "st.shared.b32"),
    "an address to load from": (
        f"{ADD}\nst.shared.b32 [2048], 1;\nbar.sync 0;\nadd.u32 %r6, %r100, 2048;\nld.shared.b32 %r4, [%r6];",
        "ld.shared.b32",
    ),
    "a cell": (f"{ADD}\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%r100}};", "tcgen05.st.sync.aligned.32x32b.x1.b32"),
    "a result in place of the other operand": (
        f"{ADD}\nmov.u32 %r4, 40;\nmin.u32 %r4, %r100, %r4;\n{store('%r4')}",
        "min.u32",
    ),
    "twice": ("add.u32 %r2, %r100, %r100;\nadd.u32 %r2, %r2, %r3;", "add.u32"),
    "a column by or": (f"{ADD}\nor.b32 %r2, %r2, 32;", "or.b32"),
    "a constant": ("mov.u32 %r2, %r3;", "tcgen05.st.sync.aligned.32x32b.x1.b32"),
    "a constant in one lane": (
        f"{ADD}\nand.b32 %r4, %t, 31;\nsetp.eq.u32 %p1, %r4, 4;\n@%p1 mov.u32 %r2, %r3;",
        "tcgen05.st.sync.aligned.32x32b.x1.b32",
    ),
    "another lane's number": (f"{ADD}\nshfl.sync.idx.b32 %r5, %t, %r100, 31, -1;", "shfl.sync.idx.b32"),
    "a sum over lanes": (f"{ADD}\nredux.sync.add.u32 %r5, %r100, -1;", "redux.sync.add.u32"),
    "an addend": (f"{ADD}\nst.shared.b32 [2048], 0;\nbar.sync 0;\nred.shared.add.u32 [2048], %r100;", "red.shared.add.u32"),
    "the word by halves": (f"{ADD}\nld.shared.u16 %h1, [{SLOT}];", "ld.shared.u16"),
    "a part of the word": (f"{ADD}\nbar.sync 0;\nst.shared.u8 [{SLOT + 3}], 0;", "st.shared.u8"),
    "a constant in lanes that come apart": (
        f"{ADD}\nsetp.lt.u32 %p1, %t, 48;\n@%p1 bra MEET;\nmov.u32 %r2, %r3;\nMEET:",
        "tcgen05.st.sync.aligned.32x32b.x1.b32",
    ),
    "the word by an atomic": (f"{ADD}\nbar.sync 0;\natom.shared.or.b32 %r5, [{SLOT}], 0;", "atom.shared.or.b32"),
    "the word by a copy": (
        f"{ADD}\nfence.proxy.async.shared::cta;\nsetp.eq.u32 %p1, %t, 0;\n"
        f"@%p1 cp.async.bulk.global.shared::cta.bulk_group [%a0], [{SLOT}], 16;\n"
        "@%p1 cp.async.bulk.commit_group;\n@%p1 cp.async.bulk.wait_group 0;\nbar.sync 0;",
        "cp.async.bulk.global.shared::cta.bulk_group",
    ),
    "a high half": (f"{ADD}\nmov.b64 %rd1, {{%r3, %r100}};", "mov.b64"),
    "half of it": (f"{ADD}\ncvt.u16.u32 %h1, %r100;", "cvt.u16.u32"),
    "a carry": (f"{ADD}\nadd.cc.u32 %r5, %r100, 1;", "add.cc.u32"),
}  # fmt: skip


@pytest.mark.parametrize(("setting", "named"), OTHER.values(), ids=OTHER)
def test_nothing_else_may(setting: str, named: str) -> None:
    result = launched(used(setting))
    assert result.certificate is not None and not result.certified
    texts = [d for d in result.certificate.doubts if "first column" in d.text]
    assert texts and all(d.reason == "order-decides" for d in texts)
    assert any(d.instruction == named for d in texts), [str(d) for d in texts]


def test_a_whole_allocation_has_one_first_column() -> None:
    """512 columns begin at column 0: a constant address is right, and so is a computed address."""
    for setting in (ADD, "mov.u32 %r2, %r3;", f"{ADD}\n{store('%r100')}"):
        assert launched(used(setting, columns=512)).certified


def test_the_columns_of_another_allocation() -> None:
    """The second allocation lies behind the first in this run only."""
    two = f"{alloc(64, '%r102', SLOT + 4)}\n{used('{0}')}\n{dealloc(64, '%r102')}"
    assert launched(two.replace("{0}", ADD)).certified
    assert launched(two.replace("{0}", "add.u32 %r2, %r102, %r3;")).certified
    result = launched(two.replace("{0}", "add.u32 %r2, %r102, %r3;\nadd.u32 %r2, %r2, 64;"))
    assert not result.certified and "another allocation" in str(result.certificate.doubts)  # type: ignore[union-attr]
    across = two.replace("{0}", "add.u32 %r2, %r102, %r3;").replace(
        LD.format("%r2"), "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r4}, [%r2+63];"
    )
    result = launched(across)
    assert not result.certified and "ends in another" in str(result.certificate.doubts)  # type: ignore[union-attr]


def test_the_word_of_another_cta() -> None:
    """Each CTA of a cluster has its own columns."""
    from_peer = (
        f"mov.u32 %r4, {SLOT};\nmov.u32 %r5, %cluster_ctarank;\nxor.b32 %r5, %r5, 1;\n"
        f"mapa.shared::cluster.u32 %r4, %r4, %r5;\n{CLUSTER_SYNC}\nld.shared::cluster.u32 %r6, [%r4];\n"
        f"{CLUSTER_SYNC}\n"
    )
    certificate = launched(used(f"{CLUSTER_SYNC}\n{ADD}"), cluster=2).certificate
    assert certificate is not None  # both CTAs store the same values to the same words
    assert all("write the same bytes" in doubt.text for doubt in certificate.doubts)
    result = launched(used(f"{from_peer}\nadd.u32 %r2, %r6, %r3;"), cluster=2)
    assert "another CTA" in str(result.certificate.doubts)  # type: ignore[union-attr]


@pytest.mark.parametrize("shared", [0x1000, 226 * 1024])
def test_where_nobody_fits_beside_the_first_allocation_has_one_first_column(shared: int) -> None:
    result = launched(used("mov.u32 %r2, %r3;"), shared_bytes=shared)
    assert result.certified is (shared > 0x1000)


def test_sampled_programs_agree_at_other_first_columns() -> None:
    found = Counter(outcome(program(random.Random(seed))) for seed in range(40))
    assert found["contradicted"] == 0 and found["certified"] and found["refused"], found


def test_a_reason_has_a_schedule_with_another_first_column() -> None:
    result = launched(used(OTHER["a constant"][0]))
    found = [d.reversed_by for d in result.certificate.doubts if "first column" in d.text]  # type: ignore[union-attr]
    assert found and set(found) == {"early:environment=1"}
    assert launched(used(OTHER["a constant"][0]), schedule=Schedule.parse(found[0])).errors
