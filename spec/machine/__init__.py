"""What an SM100 does, as data and small functions: layouts, descriptors, TMA, MMAs, tensor memory, clocks."""
