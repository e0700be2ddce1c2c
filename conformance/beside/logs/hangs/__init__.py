"""Diagnosis of a hang from the printf log of a real run: reading, wait-for graph, causes, rendering."""
