"""Explains logs: failed builds, and printf logs of runs that hung."""
