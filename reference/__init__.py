"""The float64 reference: one function a stage, the tiled walk, the rounding model and the autograd oracle."""
