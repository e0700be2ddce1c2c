"""A fuzzer of everything that the engine decodes from a kernel's bytes, under sanitizers: `make fuzz`."""
