"""Lets the tests of this folder import its helper module (pytest imports tests in importlib mode)."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

# Tiles are small; on a busy machine torch's threads wait for each other ten times longer than they work.
torch.set_num_threads(1)
