"""PyTorch's own flash attention on the CPU, forward and backward."""
