# SPDX-License-Identifier: Apache-2.0
"""The elementwise family: a module for each group of op tables, and common.py."""

import importlib
import pkgutil

from ..model import Case

MODULES = {
    name: importlib.import_module(f".{name}", __name__)
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "common")
}
CASES: tuple[Case, ...] = tuple(case for module in MODULES.values() for case in module.CASES)

__all__ = ["CASES", "MODULES"]
