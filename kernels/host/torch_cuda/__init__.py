"""PyTorch's attention kernels on a CUDA card: memory-efficient, flash and cuDNN, forward and backward."""
