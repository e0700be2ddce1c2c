"""Drivers: each executes a launch file and returns a run's result in the same form."""
