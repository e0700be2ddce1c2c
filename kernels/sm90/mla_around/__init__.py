"""The kernels around the sparse MLA backward: delta, clearing of dKV, its conversion to bf16 or f16."""
