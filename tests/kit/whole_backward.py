"""What the tests of both whole kernels run: stages, four schedules, one problem with every kind of token."""

from __future__ import annotations

from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase

STAGES = ("delta", "P", "S", "dP", "dS", "dQ", "dKV")
SCHEDULES = (Schedule("early"), Schedule("late"), Schedule("random", 1), Schedule("random", 2))
WHOLE = SparseCase(
    576,
    s_kv=300,
    blocks=4,
    tokens=(Indices("permuted"), Indices("random", holes=((5, -1), (7, 300))), Indices("repeated")),
    lengths=(256, 130, 0),
    values="normal",
    poison=True,
    garbage_tail=True,
)
