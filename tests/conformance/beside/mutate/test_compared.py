"""Mutants of sources that are one instruction less, or one elsewhere, in the compiled PTX."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.mutate.compared import change

from tests.kit.mutate import TEXT, code

FENCE = "\tfence.proxy.async.shared::cta;\n"
STORE = "\tst.shared.b32 \t[%r4+64], %r3;\n"


def moved(text: str, line: str, before: str) -> str:
    left = text.replace(line, "")
    assert left != text and before in left
    return left.replace(before, line + before)


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        (TEXT.replace(FENCE, ""), "remove-sync"),
        (moved(TEXT, FENCE, STORE), "move"),
        (moved(TEXT, STORE, "\t.loc\t1 20 5\n\t.loc"), "move"),
        (TEXT.replace("\t.loc\t1 31 5\n", "\t.loc\t1 99 5\n"), None),  # places say nothing
        (TEXT.replace("fma.rn.f32 \t%f6", "fma.rz.f32 \t%f6"), None),
        (TEXT.replace(FENCE, "").replace("128;", "64;"), None),
        (TEXT.replace(FENCE, "").replace(".align 16", ".align 32"), None),  # something else too
        (TEXT.replace(FENCE, FENCE + FENCE), None),
        # What headers leave that make the same instructions: scopes, and variables that nothing names.
        (TEXT.replace(FENCE, "").replace(STORE, f"\t{{\n{STORE}\t}}\n"), "remove-sync"),
        (".global .align 1 .b8 left[1];\n" + TEXT.replace(FENCE, ""), "remove-sync"),
        (".global .align 4 .u32 kept = 1;\n" + TEXT.replace(FENCE, ""), None),
    ],
)
def test_one_instruction_less_or_elsewhere(text, operator):
    read = code()
    found = change(read, text)
    assert (found and found[0]) == operator
    if found is not None:
        became = code(read.changed(found[1]))
        assert [(a.opcode, a.operands) for a in became.code] == [
            (b.opcode, b.operands) for b in code(text).code
        ]
