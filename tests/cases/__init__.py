# SPDX-License-Identifier: Apache-2.0
"""The case table: one Case a row of the op tables, of the modules here and in subfolders that have CASES. model.py
explains fields."""

import importlib
import pkgutil

from .model import Array, Bad, Case, Draw, Expected, Idle, Problem, strides_for

MODULES = [importlib.import_module(module.name) for module in pkgutil.walk_packages(__path__, f"{__name__}.")]
CASES: dict[str, Case] = {case.row: case for module in MODULES for case in getattr(module, "CASES", ())}

__all__ = [
    "CASES", "Array", "Bad", "Case", "Draw", "Expected", "Idle", "Problem",
    "strides_for",
]  # fmt: skip
