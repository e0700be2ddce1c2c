"""What the tests of both whole kernels run: stages, four schedules, one problem with every kind of token."""

from __future__ import annotations

from tileproof.conformance.drivers.result import RunSchedule
from tileproof.spec.problems.sparse_mla_bwd.case import Case, Indices

STAGES = ("delta", "P", "S", "dP", "dS", "dQ", "dKV")
SCHEDULES = (RunSchedule("early"), RunSchedule("late"), RunSchedule("random", 1), RunSchedule("random", 2))
WHOLE = Case(
    576,
    s_kv=300,
    blocks=4,
    tokens=(Indices("permuted"), Indices("random", holes=((5, -1), (7, 300))), Indices("repeated")),
    lengths=(256, 130, 0),
    values="normal",
    poison=True,
    garbage_tail=True,
)
