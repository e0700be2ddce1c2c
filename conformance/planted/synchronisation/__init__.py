"""Planted races and hangs, each with the finding that must name its root."""
