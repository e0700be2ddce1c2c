"""Layout contracts: whether the operands of a tcgen05.mma fit it, and if not, why."""

from tileproof.spec.machine.contracts.check import check, fits
from tileproof.spec.machine.contracts.form import MmaForm
from tileproof.spec.machine.contracts.load import check_load
from tileproof.spec.machine.contracts.misfit import CODES, Misfit
from tileproof.spec.machine.contracts.view import OperandView

__all__ = ["CODES", "Misfit", "MmaForm", "OperandView", "check", "check_load", "fits"]
