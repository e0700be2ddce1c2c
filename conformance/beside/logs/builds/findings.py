"""From diagnostics to findings: places in the user's files, causes, repeated errors merged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from tileproof.conformance.beside.logs.builds import (
    rules_copy,
    rules_mma,
    rules_ranks,
    rules_tma,
    rules_tmem,
)
from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.consequences import (
    broken,
    declared,
    follows,
    may_belong,
    near,
    own_mismatch,
    same_call,
    scope,
    statement_words,
    trail,
    undefined,
    words_read_on,
)
from tileproof.conformance.beside.logs.builds.cute import int_tuple, layout_of, text_of
from tileproof.conformance.beside.logs.builds.diagnostics import Parsed
from tileproof.conformance.beside.logs.builds.evidence import Evidence, gather
from tileproof.conformance.beside.logs.builds.frames import SourcePlace
from tileproof.conformance.beside.logs.builds.messages import Diagnostic
from tileproof.conformance.beside.logs.builds.operand import ROLES
from tileproof.conformance.beside.logs.builds.python_errors import by_compiler
from tileproof.conformance.beside.logs.builds.rules_text import by_message, traits

# Files of CUTLASS, the CUDA toolkit, the C++ library and PyTorch: not the user's.
_LIBRARY = re.compile(
    r"(?:^|/)cute/(?:algorithm|arch|atom|container|numeric|util)/|(?:^|/)cute/[a-z_]+\.hpp$"
    r"|(?:^|/)cutlass/(?:arch|atom|conv|coord|detail|device|epilogue|experimental|gemm|layout|pipeline|platform|reduction"
    r"|thread|transform|util)/|(?:^|/)include/cutlass/|(?:^|/)cutlass/[a-z_0-9]+\.h(?:pp)?$"
    r"|^/usr/(?:include|lib)|/c\+\+/\d+|/cuda[^/]*/(?:include|targets)|/targets/[^/]+/include|/nvidia/\w+/include/"
    r"|(?:^|/)(?:cccl|cub|thrust|libcudacxx|crt|cooperative_groups)/|(?:^|/)cuda/std/"
    r"|(?:^|/)(?:(?:mma|copy)_(?:traits_|atom)?(?:sm\d+\w*)?|tensor_impl|layout_composed|int_tuple|tuple_algorithms)\.hpp$"
    r"|/torch/include/|(?:^|/)(?:ATen|c10)/|/pybind11/"
)
SOURCE_BYTES = 4 << 20
MAX_FOLLOWERS = 50


@dataclass
class BuildFinding:
    """One cause, with all its errors.

    at: the innermost place in the user's files. others: the places of further errors with the same cause.
    callers: the places that led to `at`, each outermost last. chains: the user's places of each instantiation
    trail, outermost first, and the library's where the error arose.
    errors: number of compiler errors in this finding; instantiations: different instantiation trails among
    them; follow: errors that only follow from it; followers: the different places and messages.
    """

    cause: BuildCause
    message: str
    diagnostic: Diagnostic
    evidence: Evidence
    at: SourcePlace | None
    others: list[SourcePlace] = field(default_factory=list)
    callers: list[tuple[SourcePlace, ...]] = field(default_factory=list)
    chains: list[tuple[SourcePlace, ...]] = field(default_factory=list)
    errors: int = 0
    follow: int = 0
    followers: list[tuple[SourcePlace | None, str]] = field(default_factory=list)
    trails: set[object] = field(default_factory=set)
    arguments: list[str] = field(default_factory=list)

    @property
    def understood(self) -> bool:
        """Whether a rule knew the cause."""
        return self.weight > 1

    @property
    def weight(self) -> int:
        """The information in it: 0 nothing, 1 an assertion's words, 2 a call that fits nothing, 3 a cause."""
        return {"unknown": 0, "interleaved": 0, "assertion": 1, "no-overload": 2}.get(self.cause.code, 3)


def is_library(file: str) -> bool:
    """Whether a file belongs to CUTLASS, the toolkit, the C++ library or PyTorch rather than to the user."""
    return _LIBRARY.search(file.replace("\\", "/")) is not None


def own_places(chain: tuple[SourcePlace, ...]) -> list[SourcePlace]:
    """The places of a chain in the user's files."""
    return [place for place in chain if not is_library(place.file)]


def user_path(diagnostic: Diagnostic) -> tuple[SourcePlace, ...]:
    """The places in the user's files that led to an error, innermost first."""
    places = [diagnostic.place, *(frame.place for frame in diagnostic.frames)]
    if diagnostic.tool == "ptxas":
        return ()
    found: list[SourcePlace] = []
    for place in places:
        if place is not None and not is_library(place.file) and place not in found:
            found.append(place)
    return tuple(found)


class UserSources:
    """Reads lines of the user's source files, looked for from here and from the log's folder."""

    def __init__(self, log: Path | None = None) -> None:
        self._folders = [Path(), *([log.parent] if log is not None else [])]
        self._files: dict[str, list[str]] = {}

    def line(self, place: SourcePlace | None) -> str:
        """The text of a source line, "" when it cannot be read."""
        if place is None or place.line < 1:
            return ""
        if place.file not in self._files:
            self._files[place.file] = self._read(place.file)
        lines = self._files[place.file]
        return lines[place.line - 1].strip()[:200] if place.line <= len(lines) else ""

    def _read(self, file: str) -> list[str]:
        for folder in self._folders:
            try:
                path = folder / file
                if path.is_file() and path.stat().st_size <= SOURCE_BYTES:
                    return path.read_text(errors="replace").splitlines()
            except (OSError, ValueError):
                continue
        return []


def findings(parsed: Parsed, sources: UserSources) -> list[BuildFinding]:
    """The findings of a log, in the order in which their first errors stand."""
    grouper = _Grouper(sources)
    for diagnostic in parsed.diagnostics:
        grouper.take(diagnostic)
    return grouper.found


class _Grouper:
    """Assign each error to a finding: a new finding, the finding with its cause, or the finding that it
    follows from."""

    def __init__(self, sources: UserSources) -> None:
        self.found: list[BuildFinding] = []
        self._sources = sources
        self._seen: dict[object, BuildFinding] = {}
        self._by_path: dict[object, list[tuple[Diagnostic, BuildFinding]]] = {}
        self._by_call: dict[object, BuildFinding] = {}
        self._unknown: dict[object, BuildFinding] = {}
        self._lost: dict[object, tuple[Diagnostic, BuildFinding]] = {}
        self._by_cause: dict[object, BuildFinding] = {}

    def take(self, diagnostic: Diagnostic) -> None:
        """Counts one error."""
        key = diagnostic.tool, diagnostic.text, diagnostic.place, trail(diagnostic)
        if key in self._seen:
            self._seen[key].errors += 1
            return
        path = user_path(diagnostic)
        self._seen[key] = finding = self._group(diagnostic, path)
        if path:
            self._by_path.setdefault(path, []).append((diagnostic, finding))
        if name := undefined(diagnostic):
            self._unknown.setdefault((scope(diagnostic)[0], name), finding)
        self._lost |= {(scope(diagnostic), name): (diagnostic, finding) for name in declared(diagnostic)}

    def _group(self, diagnostic: Diagnostic, path: tuple[SourcePlace, ...]) -> BuildFinding:
        first, before = self._before(diagnostic, path)
        if broken(diagnostic) and not own_mismatch(diagnostic):
            outer = before or self._outer(path) or self._of_variable(diagnostic)
            outer = outer or next((each for each in reversed(self.found) if _one_compile(each, path)), None)
            if outer is not None:
                return _follow(outer, diagnostic)
        if before is not None and follows(diagnostic, first, before.trails):
            return _follow(before, diagnostic)
        if (lost := self._by_name(diagnostic)) is not None:
            return _follow(lost, diagnostic)
        made = _finding(diagnostic, path, self._sources)
        if not same_call(first, diagnostic):
            before = None
        if before is not None and before.weight > made.weight and not made.understood:
            return _follow(before, diagnostic)
        same: tuple[object, ...] = made.cause.code, made.cause.operand, made.cause.key or made.cause.what
        if made.cause.code == "unknown":  # the same words at another place are another mistake
            same += (diagnostic.place,)
        if same in self._by_cause:
            return _merge(self._by_cause[same], made)
        if before is not None and made.weight > before.weight:
            _replace(before, made)
            self._by_cause[same] = before
            return before
        if before is not None and _tells_no_more(before, made):
            return _follow(before, diagnostic)
        # A helper that is called once checks its operands in several ways: one call, one finding.
        call = made.evidence.atom, path[1:]
        if made.understood and all(call) and call in self._by_call:
            self._by_cause[same] = self._by_call[call]
            return _add_misfit(self._by_call[call], made)
        self._by_cause[same] = made
        self._by_call.setdefault(call, made)
        self.found.append(made)
        return made

    def _before(
        self, diagnostic: Diagnostic, path: tuple[SourcePlace, ...]
    ) -> tuple[Diagnostic, BuildFinding | None]:
        """The first error at the same place of the user's, in the same statement, and its finding."""
        if path:
            found = self._by_path.get(path, ())
            return next((each for each in found if may_belong(each[0], diagnostic)), (diagnostic, None))
        last = self._assembler(diagnostic)
        return (diagnostic if last is None else last.diagnostic), last

    def _by_name(self, diagnostic: Diagnostic) -> BuildFinding | None:
        """The finding of an error that left a name unknown, on which this error depends."""
        name = undefined(diagnostic)
        if name:
            first, finding = self._lost.get((scope(diagnostic), name), (diagnostic, None))
            return finding if near(first, diagnostic) else None
        keys = ((scope(diagnostic)[0], word) for word in words_read_on(diagnostic))
        return next((self._unknown[key] for key in keys if key in self._unknown), None)

    def _of_variable(self, diagnostic: Diagnostic) -> BuildFinding | None:
        """The finding of an error that left a variable of this statement without a type."""
        found = [self._lost.get((scope(diagnostic), word)) for word in statement_words(diagnostic)]
        some = [each for each in found if each is not None and near(each[0], diagnostic)]
        return max(some, key=lambda each: each[0].line)[1] if some else None

    def _outer(self, path: tuple[SourcePlace, ...]) -> BuildFinding | None:
        """The finding of an error at a place that led to this error."""
        return next((self._by_path[(at,)][0][1] for at in path[::-1] if (at,) in self._by_path), None)

    def _assembler(self, diagnostic: Diagnostic) -> BuildFinding | None:
        """The last finding of ptxas, which names no source line: its errors of one file come together."""
        last = self.found[-1] if self.found else None
        if last is None or not diagnostic.tool == last.diagnostic.tool == "ptxas":
            return None
        return last if diagnostic.is_error and last.diagnostic.is_error else None


def _one_compile(finding: BuildFinding, path: tuple[SourcePlace, ...]) -> bool:
    """Whether an error may be of the same compile as a finding: its source is not known to differ."""
    own = [place.file for chain in finding.chains for place in own_places(chain)[:1]]
    return not (own and path) or path[-1].file in own


def _follow(finding: BuildFinding, diagnostic: Diagnostic) -> BuildFinding:
    finding.follow += 1
    said = user_place(diagnostic), _message(diagnostic)
    if said not in finding.followers and len(finding.followers) < MAX_FOLLOWERS:
        finding.followers.append(said)
    return finding


def user_place(diagnostic: Diagnostic) -> SourcePlace | None:
    """The innermost place of an error in the user's files, else its own."""
    path = user_path(diagnostic)
    return path[0] if path else diagnostic.place


def _replace(before: BuildFinding, made: BuildFinding) -> None:
    """Give a finding the more specific cause of a later error at its place."""
    before.follow += before.errors
    before.followers.append((before.at, before.message))
    before.errors = made.errors
    before.cause, before.message, before.arguments = made.cause, made.message, made.arguments
    before.diagnostic, before.evidence, before.trails = made.diagnostic, made.evidence, made.trails
    before.chains = made.chains


def _tells_no_more(before: BuildFinding, made: BuildFinding) -> bool:
    """Whether an error at the place of another adds nothing to it.

    One mistake of a call makes CuTe fail in several of its layers, of which the first is the nearest. Without
    trails they are two mistakes on one line; ptxas names no line, but repeats itself for each operand.
    """
    if before.diagnostic.frames and made.diagnostic.frames:
        return True
    return made.diagnostic.tool == "ptxas" and before.cause.code == made.cause.code


def _merge(into: BuildFinding, made: BuildFinding) -> BuildFinding:
    into.errors += made.errors
    into.trails |= made.trails
    known = [own_places(chain) for chain in into.chains]
    into.chains += [chain for chain in made.chains if own_places(chain) not in known]
    if made.at == into.at:
        into.callers += [caller for caller in made.callers if caller not in into.callers]
    elif made.at is not None and made.at not in into.others:
        into.others.append(made.at)
    return into


def _add_misfit(into: BuildFinding, made: BuildFinding) -> BuildFinding:
    into.errors += made.errors
    into.trails |= made.trails
    said = made.cause.what + (f"; what fits: {made.cause.fits}" if made.cause.fits else "")
    if said not in into.cause.also:
        into.cause = replace(into.cause, also=(*into.cause.also, said), key=into.cause.key or into.cause.what)
    return into


def _finding(diagnostic: Diagnostic, path: tuple[SourcePlace, ...], sources: UserSources) -> BuildFinding:
    texts = [sources.line(place) for place in path[:2]]
    evidence = gather(diagnostic, texts)
    case = ErrorCase(diagnostic, evidence)
    return BuildFinding(
        cause=_cause(case),
        message=_message(diagnostic),
        diagnostic=diagnostic,
        evidence=evidence,
        at=path[0] if path else None,
        callers=[path[1:]] if path[1:] else [],
        chains=[chain] if (chain := _chain(diagnostic, path)) else [],
        errors=1,
        trails={trail(diagnostic)},
        arguments=rules_ranks.arguments(case),
    )


def _chain(diagnostic: Diagnostic, path: tuple[SourcePlace, ...]) -> tuple[SourcePlace, ...]:
    """The user's places, outermost first, and the error's own place where that is a library's."""
    inner = () if diagnostic.place is None or diagnostic.place in path else (diagnostic.place,)
    return (*path[::-1], *inner)


def _message(diagnostic: Diagnostic) -> str:
    """The compiler's text, with the asserted expression where the assertion has no text of its own."""
    if diagnostic.text.rstrip(".").endswith("static assertion failed") and diagnostic.echo:
        return f"{diagnostic.text}: {diagnostic.echo[0]}"
    return diagnostic.text


_RULES = (
    by_compiler,
    by_message,
    traits,
    rules_mma.swizzle_span,
    rules_tma.cluster,
    rules_tma.tma,
    rules_tmem.tensor_memory,
    rules_copy.copy,
    rules_ranks.ranks,
    rules_mma.mma,
)


def _cause(case: ErrorCase) -> BuildCause:
    if case.diagnostic.mixed:
        return BuildCause(
            "interleaved",
            (
                f"{case.diagnostic.text}: only this message is certain, because output of another compile is "
                f"mixed into it"
            ),
            "a log of a single job (make -j1) or of make --output-sync; ninja separates jobs",
        )
    for rule in _RULES:
        if (found := rule(case)) is not None:
            return found
    return _unknown(case)


def _unknown(case: ErrorCase) -> BuildCause:
    text = case.diagnostic.text
    values = _values(case)
    if re.search(
        r"[Dd]ivisibility|shape_div|must be divisible|[Nn]ot divisible|must be a multiple|does not divide",
        case.text,
    ):
        said = re.search(r'failed with "([^"]*)', text)
        what = (
            "an extent does not divide another extent"
            if said is None or len(said[1]) < 32
            else said[1].rstrip(".")
        )
        return BuildCause("divide", what + values, "extents that divide each other")
    if re.search(r"(?i)mismatched ranks|rank.mismatch|index out of range|too many modes", case.text):
        return BuildCause("rank", f"shapes or layouts of different ranks are combined{values}", "equal ranks")
    if "Dynamic owning tensors not supported" in text:
        return BuildCause(
            "dynamic",
            f"a tensor that owns its registers has extents known only at run time{values}",
            "constants for all extents (Int<4>{} or _4{} instead of 4)",
        )
    if re.search(r"no instance of (?:overloaded )?(?:function|constructor)|no matching function", text):
        return BuildCause(
            "no-overload",
            f"no function takes these arguments: {text}",
            "arguments that match one of the overloads",
        )
    if "assert" in text:
        return BuildCause("assertion", f"the assertion does not hold{values}", key=case.text)
    return BuildCause("unknown", text or "the log ends before the text of this error")


def _values(case: ErrorCase) -> str:
    """The facts in the trail about names in an assertion."""
    said: list[str] = []
    names = set(re.findall(r"[A-Za-z_]\w*", case.text))
    for frame in case.frames[:3]:
        for name, value in frame.args.items():
            if name in names or (len(said) < 4 and layout_of(value) is not None):
                layout = layout_of(value)
                meaning = str(layout) if layout is not None else text_of(int_tuple(value))
                if meaning != "?" and f"{name} = {meaning}" not in said:
                    said.append(f"{name} = {meaning}")
    return ": " + ", ".join(said[:6]) if said else ""


def operand_rows(evidence: Evidence) -> list[dict[str, str]]:
    """Each operand that is known, in words."""
    return [
        {"operand": role, "text": evidence.operands[role].text()}
        for role in ROLES
        if role in evidence.operands
    ]
