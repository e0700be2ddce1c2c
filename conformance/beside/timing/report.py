"""The report of `tileproof time`: clocks per k-block with their interval, and what uses them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import mean

from tileproof.conformance.beside.timing.critical import critical_path
from tileproof.conformance.beside.timing.model import Played
from tileproof.conformance.beside.timing.noise import SEEDS, Noise, nearest, noise_of
from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.rounds import BLOCKS, TokenRounds
from tileproof.conformance.beside.timing.shape import USUAL, LaunchShape
from tileproof.conformance.beside.timing.simulate import Timed
from tileproof.conformance.drivers.plan_names import barrier_name, role_of
from tileproof.spec.machine.timing import CASES, Case, Timing
from tileproof.spec.plan import KernelPlan

_MOST = 8  # rows of a list
WHOLE = BLOCKS  # k-blocks of a whole CTA or cluster


@dataclass(frozen=True)
class Interval:
    """Clocks, or what follows from them, in the three cases."""

    best: float
    likely: float
    worst: float

    def __str__(self) -> str:
        low, _, high = sorted((self.best, self.likely, self.worst))
        return f"{self.likely:,.0f} ({low:,.0f} to {high:,.0f})"

    def span(self) -> str:
        """The interval without the likely value."""
        return f"{min(self.best, self.worst):,.0f} to {max(self.best, self.worst):,.0f}"


@dataclass(frozen=True)
class Share:
    """Clocks per k-block of something named."""

    name: str
    clocks: float


@dataclass(frozen=True)
class RoleTime:
    """One role, the mean over its warps, clocks per k-block: issuing, waiting by cause, and the rest, in
    which an instruction's stall count passes."""

    role: str
    warps: int
    issues: float
    waits: tuple[Share, ...]
    stalls: float


@dataclass(frozen=True)
class LaunchTime:
    """A launch of query tokens of equal length in rounds over the whole card."""

    rounds: TokenRounds
    ms: Interval
    tflops: Interval

    def __str__(self) -> str:
        low, _, high = sorted((self.ms.best, self.ms.likely, self.ms.worst))
        ms = f"{self.ms.likely:.2f} ms ({low:.2f} to {high:.2f})"
        return f"{self.tflops}, {ms}: {self.rounds}"

    def span(self) -> str:
        """The interval without the likely value."""
        low, high = sorted((self.ms.best, self.ms.worst))
        return f"{self.tflops.span()}, {low:.2f} to {high:.2f} ms: {self.rounds}"


@dataclass(frozen=True)
class TimeReport:
    """The likely case, per k-block of one CTA in steady state, but for `clocks`, `fixed`, `tflops` and
    `whole`: the TFLOPS of `WHOLE` k-blocks with what stands around them and the start of the CTA. `noise` is
    that of the likely clocks, which are a mean; the rest is from the run that is nearest to it.
    """

    kernel: str
    arch: str
    alone: bool
    k_blocks: tuple[int, int]
    clocks: Interval
    noise: Noise
    fixed: Interval
    tflops: Interval | None
    whole: Interval | None
    launch: LaunchTime | None
    roles: tuple[RoleTime, ...]
    units: tuple[Share, ...]
    critical: tuple[Share, ...]
    shape: LaunchShape = USUAL
    far: tuple[str, ...] = ()
    """What of the shape is far from every row of the model."""

    def as_dict(self) -> dict[str, object]:
        """As JSON takes it."""
        return asdict(self)

    def warnings(self) -> list[str]:
        """What the launch has that no row of the model tests."""
        return [f"warning: far from every row of the model, use the interval: {what}" for what in self.far]

    def lines(self) -> list[str]:
        """The report as text."""
        where = "one CTA or cluster alone on the card" if self.alone else "every SM busy with the same"
        out = [
            f"{self.kernel}, {self.arch}, {where}",
            f"clocks per k-block  {self.clocks.span()}, likely {self.clocks.likely:,.0f}",
            f"noise of the likely value  {self.noise}",
            f"clocks before, between and after k-blocks  {self.fixed}",
        ]
        if self.tflops is not None:
            out.append(f"TFLOPS of MMAs in steady state  {self.tflops}")
        if self.whole is not None:
            told = self.whole.span() if self.far else str(self.whole)
            out.append(f"TFLOPS of CTAs of {self.shape.blocks} k-blocks, their start included  {told}")
        if self.launch is not None:
            what = f"a launch of {self.shape.tokens:,} tokens of {self.shape.blocks} k-blocks"
            told = self.launch.span() if self.far else str(self.launch)
            out.append(f"TFLOPS of {what}  {told}")
        out += self.warnings()
        out += ["", "role                    warps   issues   stalls    waits  for"]
        for role in self.roles:
            total = sum(share.clocks for share in role.waits)
            longest = ", ".join(f"{share.name} {share.clocks:,.0f}" for share in role.waits[:3])
            out.append(
                f"{role.role:22s} {role.warps:6d} {role.issues:8,.0f} {role.stalls:8,.0f} {total:8,.0f}"
                f"  {longest}"
            )
        out += ["", "unit                              clocks  share"]
        for unit in self.units:
            out.append(f"{unit.name:30s} {unit.clocks:9,.0f}  {unit.clocks / self.clocks.likely:5.0%}")
        out += ["", "critical path, clocks per k-block"]
        out += [f"{share.clocks:9,.0f}  {share.name}" for share in self.critical]
        return out


def report(
    kernel: str,
    few: tuple[int, Played],
    many: tuple[int, Played],
    timing: Timing,
    alone: bool,
    names: TimeNames,
    by_token: bool = False,
    shape: LaunchShape = USUAL,
) -> TimeReport:
    """From two runs with `few[0]` and `many[0]` k-blocks, whose difference is the steady state. `by_token`:
    the CTAs of a run are those of one query token, so that the time of a launch of many tokens can be
    computed."""
    blocks = many[0] - few[0]
    drawn = [
        tuple(run.clocks(timing, "likely", alone, order) for _, run in (few, many)) for order in range(SEEDS)
    ]
    steady = [(second.clocks - first.clocks) / blocks for first, second in drawn]
    a, b = drawn[nearest(steady)]
    noise = noise_of(steady)
    ends: dict[Case, tuple[float, float]] = {
        case: (few[1].clocks(timing, case, alone, 0).clocks, many[1].clocks(timing, case, alone, 0).clocks)
        for case in ("best", "worst")
    }
    ends["likely"] = mean(first.clocks for first, _ in drawn), mean(second.clocks for _, second in drawn)
    per = {case: (second - first) / blocks for case, (first, second) in ends.items()}
    macs = (many[1].result.counters.mma_macs - few[1].result.counters.mma_macs) / blocks
    sms = len({warp[:3] for warp in many[1].streams})
    clock = {case: float(getattr(timing.clock, case)) for case in CASES}
    busy = sms if alone else timing.sms
    speed = {case: 2 * macs / sms * busy * clock[case] / per[case] / 1000 for case in CASES}
    fixed = {case: ends[case][0] - few[0] * per[case] for case in CASES}
    around = {case: fixed[case] + float(getattr(timing.cta_start, case)) for case in CASES}
    length = {case: shape.blocks * per[case] for case in CASES}
    whole = {case: speed[case] * length[case] / (length[case] + around[case]) for case in CASES}
    launch = None
    if by_token and macs and not alone:
        rounds = TokenRounds(shape.tokens, timing.sms // sms)
        clocks = {case: rounds.clocks(per[case], around[case], blocks=shape.blocks) for case in CASES}
        ms = {case: clocks[case] / clock[case] * 1e-6 for case in CASES}
        flop = 2 * macs * shape.blocks * shape.tokens
        launch = LaunchTime(
            rounds, Interval(**ms), Interval(**{case: flop / ms[case] * 1e-9 for case in CASES})
        )
    return TimeReport(
        kernel, timing.arch, alone, (few[0], many[0]),
        _holding(per, noise),
        noise,
        Interval(**fixed),
        Interval(**speed) if macs else None,
        Interval(**whole) if macs else None,
        launch,
        roles_of(a, b, blocks, per["likely"], names),
        units_of(a, b, blocks),
        critical_of(a, b, blocks, names, many[1].source),
        shape,
        shape.far() if by_token else (),
    )  # fmt: skip


def _holding(per: dict[Case, float], noise: Noise) -> Interval:
    """The interval of the figures, and of the orders where it is the wider."""
    return Interval(min(per["best"], noise.smallest), per["likely"], max(per["worst"], noise.largest))


@dataclass(frozen=True)
class TimeNames:
    """What warps are called, and what they wait for."""

    role: Callable[[Warp], str]
    cause: Callable[[object], str]


def plan_names(plan: KernelPlan) -> TimeNames:
    """A plan's roles and barriers."""

    def cause(what: object) -> str:
        if isinstance(what, tuple) and what[0] == "mbarrier":
            return barrier_name(plan, what[3]) or f"mbarrier {what[3]:#x}"
        return str(what[0]) if isinstance(what, tuple) else str(what)

    return TimeNames(lambda warp: role_of(plan, warp[3]) or f"warp {warp[3]}", cause)


def roles_of(a: Timed, b: Timed, blocks: int, clocks: float, names: TimeNames) -> tuple[RoleTime, ...]:
    warps: Counter[str] = Counter()
    issued: Counter[str] = Counter()
    waits: dict[str, Counter[str]] = defaultdict(Counter)
    for sign, timed in ((1, b), (-1, a)):
        for warp in timed.ends:
            role = names.role(warp)
            warps[role] += sign == 1
            issued[role] += sign * timed.issued[warp]
            for span in timed.waits[warp]:
                waits[role][names.cause(span.cause)] += sign * (span.end - span.begin)  # type: ignore[assignment]
    out = []
    for role, count in warps.items():
        shares = tuple(
            Share(name, total / count / blocks)
            for name, total in waits[role].most_common()
            if total / count / blocks >= 1
        )
        issues = issued[role] / count / blocks
        out.append(
            RoleTime(
                role, count, issues, shares, max(0.0, clocks - issues - sum(share.clocks for share in shares))
            )
        )
    return tuple(out)


def units_of(a: Timed, b: Timed, blocks: int) -> tuple[Share, ...]:
    total: Counter[str] = Counter()
    places = len({cta for cta, _ in b.busy})
    for sign, timed in ((1, b), (-1, a)):
        for (_, unit), clocks in timed.busy.items():
            total[unit] += sign * clocks  # type: ignore[assignment]
    return tuple(Share(unit, clocks / blocks / max(1, places)) for unit, clocks in total.most_common())


def critical_of(
    a: Timed, b: Timed, blocks: int, names: TimeNames, source: Callable[[int], str]
) -> tuple[Share, ...]:
    """A window in the middle of the longer run, as long as its difference to the shorter run."""
    total: Counter[str] = Counter()
    begin = a.clocks / 2
    end = begin + b.clocks - a.clocks
    for piece in critical_path(b):
        clocks = min(piece.end, end) - max(piece.begin, begin)
        if clocks <= 0:
            continue
        place = source(piece.line).split(", ")[0]
        if piece.unit:
            who = f"{piece.unit}: {names.role(piece.warp)}'s {piece.what}"
        else:
            who = f"{names.role(piece.warp)} {piece.what}"
        total[f"{who}  {place}"] += clocks  # type: ignore[assignment]
    return tuple(
        Share(name, clocks / blocks) for name, clocks in total.most_common(_MOST) if clocks / blocks >= 1
    )
