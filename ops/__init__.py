"""The sparse MLA backward as an operator of torch: checked calls, backends, autograd, a module.

Needs the extra `tileproof[ops]`; no other part of the package imports it.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tileproof.ops needs torch, which is not installed: pip install 'tileproof[ops]'"
    ) from error

from tileproof.ops.api import fold_sink, sparse_mla, sparse_mla_backward
from tileproof.ops.conventions import backward_by_convention
from tileproof.ops.module import SparseMLA

__all__ = ["SparseMLA", "backward_by_convention", "fold_sink", "sparse_mla", "sparse_mla_backward"]
