"""Stages that a kernel holds in registers only: where they are, and their dump."""
