# SPDX-License-Identifier: Apache-2.0
"""The benchmark problems of all families: a module for each, or a subfolder of modules. These have `benches(backend)`
and UNMEASURED, rows without a problem.

An op whose workspace only makes it faster is also measured without one. Some modules have `sweeps(backend)`, which
`--sweep` measures: the same problems along one extent.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Collection, Iterator

from baracuda._library.op_table import rows
from tools.bench.problems import elementwise
from tools.bench.record import Bench, Sweep, row_named

MODULES = [importlib.import_module(module.name) for module in pkgutil.walk_packages(__path__, f"{__name__}.")]
FAMILIES = [module for module in MODULES if module is not elementwise and hasattr(module, "benches")]
# Rows without a problem -> the reason. A test fails for a row that has neither.
UNMEASURED: dict[str, str] = {k: v for module in MODULES for k, v in getattr(module, "UNMEASURED", {}).items()}


def families() -> list[str]:
    return sorted({row.family for row in rows()})


def benches(
    backend: str, only: Collection[str] = (), numel: int = 1 << 16, of: Collection[str] = ()
) -> Iterator[Bench]:
    """Problems of a backend, filtered by names and families; elementwise ones have `numel` elements."""
    for bench in _all(backend, numel):
        named = not only or any(text in bench.name for text in only)
        if named and (not of or row_named(bench.row).family in of):
            yield bench


def _all(backend: str, numel: int) -> Iterator[Bench]:
    for family in (elementwise.lerp, *(module.benches for module in FAMILIES)):
        for bench in family(backend):
            yield from (bench, *_variants(bench))
    yield from elementwise.benches(backend, numel)


def sweeps(
    backend: str, only: Collection[str] = (), skip: Collection[str] = (), of: Collection[str] = ()
) -> Iterator[Sweep]:
    """Sweeps of a backend, filtered by names and families."""
    for module in MODULES:
        for sweep in module.sweeps(backend) if hasattr(module, "sweeps") else ():
            named = not only or any(text in sweep.name for text in only)
            if named and not any(text in sweep.name for text in skip) and (not of or sweep.family in of):
                yield sweep


def _variants(bench: Bench) -> Iterator[Bench]:
    if bench.also_without:
        yield dataclasses.replace(bench, name=f"{bench.name}, no workspace", workspace=False)


def measured(backend: str) -> set[str]:
    """Rows that have a problem."""
    return {bench.row for bench in benches(backend)}
