"""Observation: from what a driver captured to stage tiles with coordinates."""
