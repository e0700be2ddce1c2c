"""Prints a hash over the cases and schedules of a seed: `python seed_hash.py SEED`, the package alone."""

import hashlib
import sys

from tileproof.conformance.cases import draws
from tileproof.conformance.check.property import schedules
from tileproof.spec.problems.sparse_mla_bwd.strategies import cases

seen = hashlib.sha256()
drawn = cases(576), schedules("all")
draws.run(lambda *example: seen.update(repr(example).encode()), *drawn, examples=100, seed=int(sys.argv[1]))
print(seen.hexdigest())
