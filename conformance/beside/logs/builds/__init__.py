"""Explains a failed build: parses compiler output, including CuTe types, and reports what does not fit."""
