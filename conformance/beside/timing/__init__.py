"""How long a kernel takes: a discrete-event model over the emulator's run and ptxas's machine code."""
