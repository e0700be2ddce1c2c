"""Kernels: variants, builds, launches, planted defects, CUDA sources."""
