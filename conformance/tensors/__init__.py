"""Dumped tensors: read, named, and compared stage by stage, without the kernel that made them."""
