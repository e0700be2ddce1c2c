"""Vectors: a released set of inputs with every stage in float64 and its bound, and two readers."""
