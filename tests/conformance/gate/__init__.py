"""Tests of the release gate."""
