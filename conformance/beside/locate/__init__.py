"""Finds stages that a kernel holds only in registers, and dumps them."""
