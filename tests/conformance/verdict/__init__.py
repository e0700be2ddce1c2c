"""Tests of the verdict contract."""
