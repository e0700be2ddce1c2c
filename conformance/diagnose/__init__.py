"""Diagnosis: which known mistake reproduces the values of a wrong tile."""
