"""Drawn mutants: wrong kernels made at random from PTX and source, and how many of them the checks find."""
