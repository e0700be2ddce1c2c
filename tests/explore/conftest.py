"""Lets these tests import their helper module and the emulator tests' (pytest imports in importlib mode)."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "emulator"):
    sys.path.insert(0, str(folder))
