"""Comparison: observed tiles, rows and outputs against the reference, each within its derived bound."""
