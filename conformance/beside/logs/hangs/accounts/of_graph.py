"""The trace of a log that the built-in wordings read: its histories as steps."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LoggedStep, LogTrace, StepKind
from tileproof.conformance.beside.logs.hangs.histories import History, Wait
from tileproof.conformance.beside.logs.hangs.log import Actor, Log, LogEvent, ctas_of


def trace_of(log: Log, histories: dict[Actor, History]) -> LogTrace:
    """The steps of each actor, and the counts of initialised barriers.

    A barrier lies in the CTA of the actor unless the line names another; an arrival without a printed mask is
    in its own CTA. Barriers of threads and of the cluster have no accounts.
    """
    trace = LogTrace(headless=log.head_missing)
    for actor, history in histories.items():
        trace.lines_of[actor] = history.last_line
        steps = [*history.steps, *(event for some in history.copies.values() for event in some)]
        made = (_step(log, step) for step in steps if _event(step).scope == "mbarrier")
        trace.steps[actor] = sorted(made, key=lambda step: step.line)
    for (group, cta, barrier, stage), count in log.counts.items():
        trace.inits[Copy(group, log.name(barrier), stage, cta)] = count
    return trace


def _event(step: Wait | LogEvent) -> LogEvent:
    return step.event if isinstance(step, Wait) else step


def _step(log: Log, step: Wait | LogEvent) -> LoggedStep:
    event = _event(step)
    copy = copy_of(log, event)
    if isinstance(step, Wait):
        k = event.k
        return LoggedStep(
            event.line, "wait", (copy,), event.phase, k, passed=step.passed, end=step.end, turn=k
        )
    reached = ctas_of(event.to)
    to = tuple(copy._replace(owner=cta) for cta in reached) or (copy,)
    kind: StepKind = "copy" if event.kind == "copy" else "arrive"
    return LoggedStep(event.line, kind, to, None, event.k, event.count, event.size, turn=event.k)


def copy_of(log: Log, event: LogEvent) -> Copy:
    """The barrier of an event, in the CTA that owns it."""
    stage = -1 if event.stage is None else event.stage
    return Copy(event.actor.group, log.name(event.barrier), stage, event.cta)
