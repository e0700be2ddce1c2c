"""The backward of CUTLASS example 77 (`cutlass-fmha-bwd`), compiled from the installed package."""
