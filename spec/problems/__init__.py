"""The problem types, one folder each: sizes and inputs, stages, tiling, what counts as valid."""
