"""The cause that a rule finds for an error: a stable code, a sentence, and what would fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.builds.evidence import Evidence
from tileproof.conformance.beside.logs.builds.frames import Frame
from tileproof.conformance.beside.logs.builds.messages import Diagnostic
from tileproof.spec.machine.contracts import CODES as CONTRACT_CODES

CODES = {
    **CONTRACT_CODES,
    "layout": "layouts, inferred by a Python compiler or given to it, that do not agree",
    "rank": "a tensor with more or fewer modes than the operation takes",
    "dynamic": "an extent that must be known at compile time",
    "divide": "a tile that does not divide its layout",
    "copy-values": "the size of a copy atom against its operands",
    "copy-type": "the element type of a copy atom against the tensor's",
    "tmem-copy": "a tcgen05.ld or .st against the tensor-memory layout",
    "tma-box": "the tile of a tensor map against its shared-memory layout",
    "tma-major": "the contiguous mode of a tensor map against its tile",
    "bulk-size": "the bytes of a bulk copy",
    "cluster": "the cluster's shape against the MMA's CTA pair",
    "no-overload": "no function takes these arguments",
    "ambiguous-name": "a name in two namespaces",
    "undefined": "a name that no included header declares",
    "missing-header": "a header that is on no include path",
    "relaxed-constexpr": "a constexpr host function in device code",
    "host-function": "a host function in device code",
    "traits": "an operation whose traits are not included or do not exist",
    "arch": "an instruction that the compiled target does not have",
    "shared-memory": "more shared memory than a CTA has",
    "registers": "too few registers",
    "link": "a symbol that the linker does not find, or finds twice",
    "compiler": "the compiler itself failed",
    "interleaved": "an error interleaved with the output of another compile",
    "launch": "an error of a launch, from the run after the build",
    "assertion": "a static assertion that matches no rule",
    "unknown": "an error that matches no rule",
}


@dataclass(frozen=True)
class BuildCause:
    """Why: `code` is a key of CODES; `operand` A, B, C, MMA or ""; `what` one sentence; `fits` what would.

    `edits`: the same as C++ or as a flag, (what is replaced, by what); all of them together are one remedy.
    Two errors with one code, operand and `key` (`what`, where it is "") have one cause.
    """

    code: str
    what: str
    fits: str = ""
    operand: str = ""
    also: tuple[str, ...] = ()
    key: str = ""
    edits: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        assert self.code in CODES, self.code


@dataclass
class ErrorCase:
    """An error with the facts from its trail; `text` is the message and the source that the compiler
    showed."""

    diagnostic: Diagnostic
    evidence: Evidence
    text: str = field(init=False)

    def __post_init__(self) -> None:
        echo = self.diagnostic.echo[:1] if self.diagnostic.frames or "assert" in self.diagnostic.text else []
        self.text = "\n".join([self.diagnostic.text, *echo])

    @property
    def frames(self) -> list[Frame]:
        """The instantiation trail, innermost first."""
        return self.diagnostic.frames

    def frame(self, *names: str) -> Frame | None:
        """The innermost frame of one of these functions or classes."""
        return next((frame for frame in self.frames if frame.name in names), None)
