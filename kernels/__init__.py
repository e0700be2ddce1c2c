"""Kernels as the rest of the project sees them: variants, builds, launches, planted defects, CUDA sources."""
