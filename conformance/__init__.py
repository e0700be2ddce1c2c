"""Conformance: generates problems, runs a kernel, and judges every stage of every tile against the spec."""
