"""Compares the emulator with sentryward on a single cluster."""
