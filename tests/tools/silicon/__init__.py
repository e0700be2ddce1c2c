"""Tests of tools/silicon that need no card."""
