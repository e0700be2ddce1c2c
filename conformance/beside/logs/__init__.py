"""Logs of others: failed builds, and printf logs of runs that hung."""
