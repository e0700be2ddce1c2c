"""Explains a failed build: reads compiler output, CuTe types and all, and says what does not fit."""
