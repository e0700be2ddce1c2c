"""A launch file on the emulator: checked against its PTX, placed in memory, run; skeletons for bare PTX."""
