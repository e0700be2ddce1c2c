"""The check: generated cases, run on both builds of the kernel under test, judged and diagnosed."""
