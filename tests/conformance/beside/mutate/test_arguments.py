"""Arguments for equivalent mutants: of one place and operator, and no longer than the source is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tileproof.conformance.beside.mutate.arguments import FILE_NAME, argued, arguments
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec.machine.errors import TileproofError

SOURCE = "sm100/delta.cuh"
CLAIM = """
[[argument]]
kernels = ["{kernel}"]
file = "sm100/delta.cuh"
at = "{at}"
operator = ["remove-sync", "scope"]
opcode = "mbarrier"
what = "acquire"
because = "so it is"
{more}
"""


def claim(folder: Path, more: str = "", at: str = "do_ready.wait_own(0);", name: str = "head64"):
    """The arguments of a file with one claim."""
    path = folder / FILE_NAME
    path.write_text(CLAIM.format(kernel=name, at=at, more=more))
    return arguments(kernel("head64"), (path,))


def drawn(
    operator: str = "scope", what: str = "acquire is relaxed", line: int = 0, opcode: str = "mbarrier.try"
):
    """A mutant of the line with the wait, or so many lines behind it."""
    target = kernel("head64")
    lines = target.sources[SOURCE].split("\n")
    at = next(n for n, text in enumerate(lines, 1) if "do_ready.wait_own(0);" in text) + line
    return Drawn(0, operator, what, (("barrier.cuh", 3), (target.image.prefix + SOURCE, at)), opcode)


def test_a_claim_covers_its_place_operator_opcode_and_words(tmp_path):
    known = claim(tmp_path)
    assert argued(known, drawn(), True) == "so it is" == argued(known, drawn("remove-sync"), True)
    for other in (drawn("parity"), drawn(line=1), drawn(what="release is relaxed"), drawn(opcode="fence")):
        assert argued(known, other, True) == ""


def test_runs_that_differ_are_covered_only_where_the_claim_says_so(tmp_path):
    assert argued(claim(tmp_path), drawn(), False) == ""
    assert argued(claim(tmp_path, "differs = true"), drawn(), False) == "so it is"


def test_a_claim_about_another_kernel_is_none(tmp_path):
    assert claim(tmp_path, name="another") == ()


@pytest.mark.parametrize(
    ("more", "at", "says"),
    [
        ("", "nothing.wait(0);", "does not fit the text"),
        ("", "int", "does not fit the text"),
        ("since = 3", "do_ready.wait_own(0);", "not an argument"),
        ("because", "do_ready.wait_own(0);", "cannot be read"),
    ],
)
def test_a_stale_or_wrong_claim_is_named(tmp_path, more, at, says):
    with pytest.raises(TileproofError, match=says):
        claim(tmp_path, more, at)


def test_the_claims_about_our_kernels_fit_their_sources():
    files = {path for one in kernels().values() for path in one.equivalent}
    assert files
    for one in kernels().values():
        for known in arguments(one, one.equivalent):
            assert len(known.because) > 40, "a claim gives its reason"


def test_every_claim_is_read_by_the_kernels_that_it_names():
    """A kernel that does not name the file has no claims, and nothing else would tell."""
    for path in {path for one in kernels().values() for path in one.equivalent}:
        named = {name for row in tomllib.loads(path.read_text())["argument"] for name in row["kernels"]}
        assert named <= {kernel.name for kernel in kernels().values() if path in kernel.equivalent}, path


def reformatted(text: str) -> str:
    """The source as another formatter may break it: after every comma, semicolon and bracket."""
    return "\n".join(
        line if line.lstrip().startswith(("#", "//")) or "//" in line or '"' in line or line.endswith("\\")
        else re.sub(r"([,;({])[ \t]*", r"\1\n      ", line)
        for line in text.split("\n")
    )  # fmt: skip


def test_claims_hold_in_sources_that_are_formatted_in_another_way_and_have_new_neighbours():
    for one in kernels().values():
        for path in one.equivalent:
            again = {name: "// another\n\n" + reformatted(text) for name, text in one.sources.items()}
            image = SimpleNamespace(prefix=one.image.prefix)
            other = cast(Kernel, SimpleNamespace(name=one.name, sources=again, image=image))
            were, are = arguments(one, (path,)), arguments(other, (path,))
            assert [known.because for known in were] == [known.because for known in are]
            for old, new in zip(were, are, strict=True):
                stood, stands = (
                    re.sub(
                        r"\s+", "", "".join(text.split("\n")[known.lines.start - 1 : known.lines.stop - 1])
                    )
                    for known, text in (
                        (old, one.sources[old.path.removeprefix(one.image.prefix)]),
                        (new, again[new.path.removeprefix(one.image.prefix)]),
                    )
                )
                assert stands in stood, new.because  # on fewer, narrower lines
