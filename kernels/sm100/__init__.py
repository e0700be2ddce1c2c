"""The CUDA kernels for SM100 (CuTe C++), and the shared code of their launches."""
