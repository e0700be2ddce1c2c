"""Rewrites lines whose layout tells what the lines alone do not; both readings take the result."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.general.rows import Rows
from tileproof.conformance.beside.logs.hangs.lines.arrows import with_actors_first
from tileproof.conformance.beside.logs.hangs.lines.clocks import without_clocks
from tileproof.conformance.beside.logs.hangs.lines.coded import with_meanings
from tileproof.conformance.beside.logs.hangs.lines.flags import with_flags
from tileproof.conformance.beside.logs.hangs.lines.headings import under_headings
from tileproof.conformance.beside.logs.hangs.lines.intervals import with_both_times
from tileproof.conformance.beside.logs.hangs.lines.labels import with_labels
from tileproof.conformance.beside.logs.hangs.lines.lanes import by_lane
from tileproof.conformance.beside.logs.hangs.lines.legend import with_names
from tileproof.conformance.beside.logs.hangs.lines.pipelines import with_sides
from tileproof.conformance.beside.logs.hangs.lines.polls import with_results
from tileproof.conformance.beside.logs.hangs.lines.ranks import with_ranks
from tileproof.conformance.beside.logs.hangs.lines.returned import with_begins
from tileproof.conformance.beside.logs.hangs.lines.spans import with_ends
from tileproof.conformance.beside.logs.hangs.lines.syncs import with_syncs


def prepared(rows: Rows, seen: bool = False) -> Rows:
    """The lines, each with its actor, its barrier's name, its labels and what it begins or ends.

    `seen`: another source shows the open waits.
    """
    events = with_ranks(
        by_lane(
            with_meanings(
                with_both_times(with_actors_first(with_flags(with_sides(with_syncs(without_clocks(rows))))))
            )
        )
    )
    lines = under_headings(with_begins(with_ends(events), seen))
    return with_results(with_labels(with_names(lines)))
