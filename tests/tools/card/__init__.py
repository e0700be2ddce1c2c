"""Tests of tools/card."""
