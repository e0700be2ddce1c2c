"""Orders of words: what Python numbers is what the generated C++ enumerations number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tileproof.emulator import codes, enumerations, hang, isa, program, trace
from tileproof.emulator.isa import (
    async_copy,
    atomics,
    convert,
    fences,
    mbarrier,
    memory,
    sync,
    tcgen05,
    tcgen05_mma,
    tensormap,
    warp,
)
from tileproof.spec.machine import schedule
from tileproof.spec.machine.kinds import FORMATS

assert isa
FRONT = Path(enumerations.__file__).parent
FILE = """
Way = Literal["late", "late-newest"]
WAYS = enumeration("Way", Way, names="Oldest Newest", bits=8)
def unrelated(): enumeration("Inner", "x")
PLACES = enumeration("Place", "%tid.x shared::cta 16x64b")
"""


def enums(folder: Path) -> dict[str, list[str]]:
    """Enumerators by enumeration, as a C++ compiler reads the headers."""
    text = "\n".join(path.read_text() for path in folder.glob("*.hpp"))
    return {name: body.split(", ") for name, body in re.findall(r"enum class (\w+) : \w+ \{ (.*?) \};", text)}


def test_words_enumerators_and_types(tmp_path: Path) -> None:
    (tmp_path / "ways.py").write_text(FILE)
    try:
        enumerations.generate([tmp_path], tmp_path / "out")
    finally:
        enumerations.ENUMERATIONS.pop("Way", None)
        enumerations.ENUMERATIONS.pop("Place", None)
    assert enums(tmp_path / "out") == {"Way": ["Oldest", "Newest"], "Place": ["TidX", "SharedCta", "k16x64b"]}
    text = (tmp_path / "out" / "ways.hpp").read_text()
    assert "Way : uint8_t" in text and "Place : int32_t" in text


def test_python_and_the_engine_number_alike(tmp_path: Path) -> None:
    enumerations.generate([FRONT, FRONT / "isa"], tmp_path)
    made = enums(tmp_path)
    assert made.keys() == enumerations.ENUMERATIONS.keys()
    for words, enum, word, name in (
        (schedule.POLICIES, "Policy", "pct", "Pct"),
        (schedule.BASES, "CompletionOrder", "early", "FirstOldest"),
        (schedule.KINDS, "ActorKind", "s", "Stores"),
        (hang.WAITS, "Wait", "copies", "CopyGroup"),
        (trace.KINDS, "Event", "tmem-ld", "TmemLoad"),
        (trace.OBJECTS, "Object", "bulk groups", "Bulk"),
        (codes.SEVERITIES, "Severity", "error", "Error"),
        (tuple(program.SPECIALS), "Special", "%cluster_nctaid.y", "ClusterNctaidY"),
        (memory.STATE_SPACES, "Space", "shared::cluster", "SharedCluster"),
        (tcgen05._SHAPES, "TmemShape", "16x128b", "k16x128b"),
        (fences.FENCES, "Fence", "after_thread_sync", "AfterThreadSync"),
        (atomics.OPERATIONS, "Reduction", "cas", "Cas"),
        (atomics.TYPES, "AtomicType", "bf16x2", "Bf16x2"),
        (async_copy.MODES, "TensorMode", "im2col_no_offs", "Im2colNoOffs"),
        (tensormap.FIELDS, "MapField", "elemtype", "Elemtype"),
        (trace.ENGINES, "TraceEngine", "TMEM store", "TMEMStore"),
        (tcgen05_mma._USAGE, "CollectorUsage", "lastuse", "Lastuse"),
        (tuple(FORMATS), "Format", "mxf4nvf4.4X", "Mxf4nvf4x4"),
        (tcgen05._COPIES, "TmemCopies", "warpx4", "Warpx4"),
        (convert.ROUNDINGS, "Round", "rzi", "Rzi"),
        (mbarrier.SIGNALS, "Signal", "expect_tx", "ExpectTx"),
        (mbarrier.MBARRIER_SCOPES, "MbarrierScope", "default", "Default"),
        (sync.SHUFFLES, "Shuffle", "idx", "Idx"),
        (sync.VOTES, "Vote", "ballot", "Ballot"),
        (warp._OPERATIONS, "WarpReduction", "min", "Min"),
    ):
        assert list(words).index(word) == made[enum].index(name), enum
        assert len(words) == len(made[enum]), enum


def test_the_formats_are_the_spec_s() -> None:
    assert tuple(FORMATS) == tcgen05_mma.MMA_FORMATS


def test_words_go_along_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "ways.py").write_text(
        'WAYS = enumeration("Way", ("", "the late one"), names="No Late", spelled=True)'
    )
    try:
        enumerations.generate([tmp_path], tmp_path / "out")
    finally:
        enumerations.ENUMERATIONS.pop("Way", None)
    assert 'kWayWords[] = {"", "the late one"};' in (tmp_path / "out" / "ways.hpp").read_text()


def test_an_order_stands_once() -> None:
    for path in (FRONT / "engine").glob("*.[ch]pp"):
        again = re.findall(r"enum(?: class)? (\w+)", path.read_text())
        assert not set(again) & enumerations.ENUMERATIONS.keys(), path.name


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("a a", {}),
        ("", {}),
        ("a b", {"names": "A"}),
        ("a b", {"names": "A A"}),
        ("a-b a_b", {}),
        ("a", {"bits": 7}),
    ],
)
def test_orders_that_cannot_be_distinguished(words: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Frob"):
        enumerations.enumeration("Frob", words, **options)  # type: ignore[call-overload]
    assert "Frob" not in enumerations.ENUMERATIONS


def test_an_enumeration_has_one_declaration() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        enumerations.enumeration("Policy", "early late")
