"""Observation: from captures of a driver to stage tiles with coordinates."""
