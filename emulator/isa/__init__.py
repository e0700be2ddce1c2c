"""Decoders of PTX instructions, a file per family; importing this package fills the registry."""

import importlib
import pkgutil

for _family in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_family.name}")
