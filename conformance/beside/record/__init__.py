"""Launches of a CUDA host program, recorded by a runtime that stands in for the real one, as emulator
launches.
"""
