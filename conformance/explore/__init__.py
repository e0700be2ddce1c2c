"""Exploration: a kernel under many schedules."""
