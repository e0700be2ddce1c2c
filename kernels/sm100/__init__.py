"""The CUDA kernels for SM100 (CuTe C++), and what their launches have in common."""
