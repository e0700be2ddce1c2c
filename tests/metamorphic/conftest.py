"""Lets these tests import the kit of the corpus and the runs of head128."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "corpus"), str(TESTS / "kernels")]
