"""Settings of the operator's tests."""

import torch

# The tests run on every worker: more threads would only wait for each other.
torch.set_num_threads(1)
