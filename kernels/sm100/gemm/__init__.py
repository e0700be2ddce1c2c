"""A product with a bias and bf16 output: TMA into a ring of stages, tcgen05.mma, one CTA per tile of D."""
