"""The specification: problems and their stages, plans of kernels, the rules of the machine."""
