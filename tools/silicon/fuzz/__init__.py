"""Random CUDA kernels whose PTX runs on the emulator, on a card and in a reading of the machine code."""
