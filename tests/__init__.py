"""The tests: one folder per folder of the project, one per room; what they share is in `tests.kit`."""
