"""A plain matrix product D = alpha A B^T + beta C, or with a bias and a bf16 output."""
