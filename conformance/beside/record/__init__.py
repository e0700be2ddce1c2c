"""Launches of a CUDA host program, recorded by a stand-in for the CUDA runtime, as emulator
launches.
"""
