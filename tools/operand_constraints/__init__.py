"""The MMA contracts against nvcc: operand combinations, and the verdicts on them."""
