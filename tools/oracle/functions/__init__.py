# SPDX-License-Identifier: Apache-2.0
"""The entries of all functions: a module a header of native/elementwise, FUNCTIONS its list."""

import importlib
import pkgutil

from ..function import Binary, Gated, Ternary, Truth, Unary

_MODULES = [importlib.import_module(f".{m.name}", __name__) for m in pkgutil.iter_modules(__path__)]
_ALL = [entry for module in _MODULES for entry in module.FUNCTIONS]


def _named(kind):
    found = {entry.name: entry for entry in _ALL if isinstance(entry, kind)}
    assert len(found) == sum(isinstance(entry, kind) for entry in _ALL), f"two entries of one {kind.__name__} function"
    return found


UNARY, BINARY, TRUTH, TERNARY, GATED = map(_named, (Unary, Binary, Truth, Ternary, Gated))
