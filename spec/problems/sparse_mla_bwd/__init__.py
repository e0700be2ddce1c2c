"""Sparse MLA attention backward with one KV head."""
