"""A plain matrix product: TMA into a ring of three stages, mma.sync, one CTA per tile of D."""
