"""Mutants: defects planted on purpose, each with what must be found."""
