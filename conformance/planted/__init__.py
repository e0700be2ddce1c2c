"""Planted defects: hand-written wrong kernels, each with the finding that must report it."""
