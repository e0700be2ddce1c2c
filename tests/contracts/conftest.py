"""Lets the tests of this folder import its helper modules (pytest imports tests in importlib mode)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
