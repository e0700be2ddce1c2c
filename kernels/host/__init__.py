"""Kernels that are Python functions, judged by the host driver."""
