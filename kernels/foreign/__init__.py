"""Python of a user, run in a process of its own that returns data."""
