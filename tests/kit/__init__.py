"""What several tests share: programs, runs of the kernels, oracles and values."""
