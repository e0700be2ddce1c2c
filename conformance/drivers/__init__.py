"""Drivers: each executes a launch description and hands back what was observed, in the same form."""
