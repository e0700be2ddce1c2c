"""The measure of `explain` on hang logs: emulator runs with planted hangs, printed, reworded, damaged,
scored.
"""
