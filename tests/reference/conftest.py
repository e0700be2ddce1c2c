"""Settings for the tests that run torch."""

import torch

# Tiles are small; on a busy machine torch's threads wait for each other ten times longer than they work.
torch.set_num_threads(1)
