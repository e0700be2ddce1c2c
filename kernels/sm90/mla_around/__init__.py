"""The kernels around the sparse MLA backward: delta, clear and convert of dKV, d_sink."""
