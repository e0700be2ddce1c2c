"""Runs Python code of a user in a separate process that returns data."""
