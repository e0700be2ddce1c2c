"""The machine SM100 as data and small functions: layouts, descriptors, TMA, MMAs, tensor memory, clocks."""
