"""The Python interface: `tileproof.run`, `tileproof.judge`, and the pytest plugin."""
