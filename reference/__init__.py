"""The float64 reference: one function per stage, the tiled walk, the rounding model, the autograd oracle."""
