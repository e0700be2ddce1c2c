"""The vocabulary of kernels' printf logs: the meanings of a token, independent of a line's wording.

Nothing here is specific to a log. A token is a field's keyword (`CTA`, `kb`, `parity`), a keyword with its
number (`WG3`, `cta1`), a verb (`waiting`, `WAIT_DONE`, `committed`), a barrier's or role's name, or nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.forms import CLUSTER, NAMED, SYNCTHREADS, TMEM
from tileproof.conformance.beside.logs.hangs.languages import GERMAN, GERMAN_FIELDS

# Keywords without case, underscores or hyphens.
FIELDS: dict[str, str] = {
    **dict.fromkeys(("cta", "ctas", "ctaid", "ctarank", "ctaidx", "clusterctarank", "ctaidincluster"), "cta"),
    **dict.fromkeys(("block", "blk", "blocks", "blks", "blockidx", "blockid", "bid"), "block"),
    "rank": "rank",
    **dict.fromkeys(("cluster", "clusterid", "clusteridx", "token", "tok"), "group"),
    **dict.fromkeys(("wg", "warpgroup", "wgid", "wgidx", "warpgroupid", "warpgroupidx"), "wg"),
    **dict.fromkeys(("warp", "warpid", "warpidx", "wid", "w"), "warp"),
    **dict.fromkeys(("tid", "thread", "threadidx", "threadid", "thr", "t"), "thread"),
    **dict.fromkeys(("k", "kb", "kblock", "kblk", "kidx", "kiter", "ktile", "kt"), "k"),
    **dict.fromkeys(("iter", "iteration", "it", "i", "j", "loop", "step"), "iteration"),
    **dict.fromkeys(("tile", "tileidx"), "tile"),
    **dict.fromkeys(("phase", "parity", "ph", "phasebit", "paritybit", "par", "p"), "phase"),
    **dict.fromkeys(("stage", "slot", "buf", "buffer", "stg"), "stage"),
    **dict.fromkeys(("lane", "laneid"), "ignored"),
    **dict.fromkeys(("bytes", "txbytes", "expectbytes", "txcount", "nbytes", "size"), "bytes"),
    **dict.fromkeys(("role", "who", "actor"), "role"),
    "tx": "bytes",
    "b": "bytes",
    **dict.fromkeys(
        ("targetcta", "targetctas", "target", "dstcta", "dstctas", "destcta", "tocta", "toctas"), "target"
    ),
    **dict.fromkeys(("barriercta", "barcta", "mbarcta", "ownercta", "owner", "peercta", "at"), "target"),
    **dict.fromkeys(("mask", "ctamask", "dstmask", "targetmask", "multicastmask", "mcmask"), "mask"),
    **dict.fromkeys(("idx", "index"), "stage"),
    **dict.fromkeys(("col", "cols", "columns", "ncols", "threads", "nthreads"), "ignored"),
    **GERMAN_FIELDS,
}
NEEDS_SIGN = {  # too short to be a keyword unless '=' or ':' follows
    *("w", "t", "i", "j", "p", "step", "size", "b", "idx", "index", "at", "target", "owner", "who", "actor"),
}
BETWEEN = {
    ":",
    "=",
    "#",
    "(",
    "[",
    "-",
    ".",
    "x",
    "rank",
    "id",
    "idx",
    "index",
    "number",
    "no",
    "bit",
    '"',
    "'",
}


def _listed(words: str) -> list[str]:
    return words.split()


VERBS: dict[str, str] = {
    **dict.fromkeys(
        _listed(
            "wait waits waiting sleep sleeps sleeping blocked blocks blocking spin spins spinning stuck "
            "polling trywait timeout acquire acquires acquiring"
        ),
        "wait",
    ),
    **dict.fromkeys(
        _listed(
            "unblocked unblocks done pass passed passes complete completed completes finished acquired "
            "ok satisfied got resumed woke continues continued proceeds proceeded returned end ended "
            "success succeeded through cleared over true"
        ),
        "done",
    ),
    "waited": "waited",
    **dict.fromkeys(
        _listed(
            "issue issues issued issuing copy copies copied copying tma_load tma_copy tma_issue bulk_copy"
        ),
        "copy",
    ),
    **dict.fromkeys(
        _listed("begin begins beginning start starts starting pre before enter entering about"), "begin"
    ),
    **dict.fromkeys(_listed("after leave leaves leaving left exit post"), "after"),
    **dict.fromkeys(
        _listed(
            "arrive arrives arrived arriving arrival signal signals signaled signalled signaling signalling "
            "commit commits committed committing posted posts posting expect expects release releases "
            "released releasing notify notifies notified notifying publish publishes published publishing"
        ),
        "arrive",
    ),
    **dict.fromkeys(_listed("not never incomplete unfinished without failed false"), "not"),
    **GERMAN,
}
PREPOSITIONS = {
    *("on", "for", "at", "the", "of", "to", "from", "until", "its", "try", "test", "parity"),
    *("auf", "an", "der", "des", "in", "name"),
}
JOINS = {",", ";", "|", "&", "then", "and", ">"}
BARRIER_WORDS = {"bar", "mbar", "barrier", "mbarrier"}
STATES = _listed(
    "ready free full empty done avail available consumed produced filled used valid loaded written freed "
    "released finished drained"
)
ROLES = set(
    _listed(
        "producer consumer loader load mma umma tma softmax epilogue epi scheduler sched correction store "
        "storer exporter export math compute reducer prefetch gather issuer"
    )
)
NOISE = set(
    _listed(
        "info debug warning warn error trace dbg kernel gpu cuda device host print printf log pip ninja a an "
        "is was are be in by with from this that it s ms us ns stdout stderr event state status name now "
        "addr address ptr pointer still tx bytes all none data thing me them phase local cluster finish step"
    )
)

STATEMENT = {
    "is",
    "was",
    "are",
    "all",
    "not",
    "it",
    "kernel",
}  # first word of an identifier that is not a name: `all_done`

_FILLER = {
    "and",
    "sync",
    "cluster",
    "multicast",
    "local",
    "remote",
    "tx",
    "async",
    "umma",
    "tma",
    "tcgen05",
    "elect",
}
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# A CTA that is not the actor's: of a barrier, or of an arrival.
_OTHER_CTA = re.compile(r"(?:m?bar|m?barrier|owner|owning|peer|dst|dest|to|target)(?:cta|block|blk|rank)s?")
_NUMBERED = re.compile(r"([A-Za-z_]*[A-Za-z])_?(\d+)$")
_BAR_PREFIX = re.compile(
    r"^(?:s_|smem_)?m?[Bb](?:ar(?:rier)?|AR(?:RIER)?)s?(?:_+|(?=[A-Z]))|^MBAR(?:RIER)?_+"
)
_BAR_SUFFIX = re.compile(r"(?:_+[Mm]?[Bb]ar(?:rier)?s?|_+M?BAR(?:RIER)?S?|(?<=[a-z0-9])M?Bar(?:rier)?)$")


def bare(name: str) -> str:
    """A barrier's name without `bar_`, `mbar_`, `_barrier` and the like."""
    short = _BAR_SUFFIX.sub("", _BAR_PREFIX.sub("", name))
    return short or name


def key_of(name: str) -> str:
    """The normal form of a barrier's spellings: `bar_dq_ready`, `dqReady`, `DQ_READY`."""
    return bare(name).replace("_", "").lower()


@dataclass(frozen=True)
class Word:
    """The meaning of a token. `kind`: key, numbered, verbs, barrier, role, barrier word, noise, other."""

    kind: str
    field: str = ""
    number: int = 0
    verbs: tuple[str, ...] = ()
    name: str = ""
    short: bool = False


@dataclass
class Vocabulary:
    """Classifies tokens, each once. `barriers` and `roles`: names that a kernel plan adds."""

    barriers: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    own: dict[str, str] = field(default_factory=dict)  # words that the user defined, with their meaning
    _seen: dict[str, Word] = field(default_factory=dict)

    def word(self, token: str) -> Word:
        """Return the meaning of `token`."""
        found = self._seen.get(token)
        if found is None:
            found = self._classify(token)
            if len(self._seen) < 200_000:
                self._seen[token] = found
        return found

    def _classify(self, token: str) -> Word:
        low = token.lower()
        if low in self.own:
            return self._own(self.own[low])
        flat = low.replace("_", "")
        if key_of(token) in self.barriers and (low not in FIELDS or "_" in token):
            return Word("barrier", name=token)
        if low in self.roles:
            return Word("role", name=low)
        if token in (SYNCTHREADS, CLUSTER, TMEM) or token.startswith(NAMED):
            return Word("sync", name=token)
        if low in ("peer", "remote"):
            return Word("peer")
        if low in ("p0", "p1"):
            return Word("numbered", field="phase", number=int(low[1]))
        if _OTHER_CTA.fullmatch(flat):
            return Word("key", field="target")
        if flat in FIELDS:
            return Word("key", field=FIELDS[flat], short=flat in NEEDS_SIGN)
        if low in BARRIER_WORDS or flat in ("barriername", "mbarriername", "barname", "mbarname"):
            return Word("barrier word")
        numbered = _NUMBERED.match(token)
        if numbered:
            stem = numbered[1].replace("_", "").lower()
            if stem in FIELDS and (stem not in NEEDS_SIGN or stem == "w"):
                return Word("numbered", field=FIELDS[stem], number=int(numbered[2]))
        if low in VERBS:
            return Word("verbs", verbs=(VERBS[low],))
        parts = [part.lower() for part in _PARTS.findall(token)]
        if not parts:
            return Word("noise") if token.isascii() else Word("other", name=token)
        return self._compound(token, low, parts)

    def _own(self, meaning: str) -> Word:
        if meaning in ("wait", "done", "arrive", "not"):
            return Word("verbs", verbs=(meaning,))
        return Word("barrier word") if meaning == "barrier" else Word("key", field=meaning)

    def _compound(self, token: str, low: str, parts: list[str]) -> Word:
        """Identifiers of several parts: `wait_done`, `arrive_p_ready`, `kv_ready`, `mbarrier_try_wait`."""
        verbs = tuple(VERBS[part] for part in parts if part in VERBS)
        filler = BARRIER_WORDS | PREPOSITIONS | _FILLER
        if verbs and all(part in VERBS or part in filler for part in parts):
            return Word("verbs", verbs=verbs)
        # `wait_p_ready`, `p_ready_arrive`: the verb at one end, a barrier's name at the other.
        for first, last in ((1, len(parts)), (0, len(parts) - 1)):
            edge = parts[0] if first else parts[-1]
            rest = "_".join(parts[first:last])
            if VERBS.get(edge) in ("wait", "arrive") and rest and self._is_barrier(rest, parts[first:last]):
                return Word("barrier", verbs=(VERBS[edge],), name=rest)
        if self._is_barrier(token, parts):
            return Word("barrier", name=token)
        stem = re.sub(r"_?(?:warp|wg|warpgroup|thread|role)?_?(?:main|loop|body|fn)?_?\d*$", "", low)
        if stem in ROLES:
            return Word("role", name=low)
        if low in NOISE or low in PREPOSITIONS or low in JOINS:
            return Word("noise")
        return Word("other", name=token)

    def _is_barrier(self, token: str, parts: list[str]) -> bool:
        if key_of(token) in self.barriers:
            return True
        if bare(token) != token:
            return bare(token).lower() not in BARRIER_WORDS
        if re.fullmatch(r"(?:full|empty)_?\d*", token, re.IGNORECASE):
            return True
        words = [part for part in parts if not part.isdigit()]
        return len(words) > 1 and words[-1] in STATES and words[0] not in VERBS and words[0] not in STATEMENT
