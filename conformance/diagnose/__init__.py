"""Diagnosis: finds the known mistake that reproduces the values of a wrong tile."""
