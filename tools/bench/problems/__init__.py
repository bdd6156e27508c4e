"""The benchmark problems of all families. An op whose workspace only makes it faster is measured without one, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tools.bench.problems import attention, elementwise, embedding, gemm, image, segment, shape_layout
from tools.bench.record import Bench, row_named

# Rows that no problem is for, with the reason. None may be without one.
UNMEASURED: dict[str, str] = {**gemm.UNMEASURED}


def benches(backend: str, only: str = "", numel: int = 1 << 16, pointwise: bool = False) -> Iterator[Bench]:
    """Those of a backend whose name contains `only`; `pointwise` leaves the elementwise ones, of `numel` elements."""
    if not pointwise:
        others = (elementwise.lerp, attention.benches, embedding.benches, gemm.benches, image.benches, segment.benches)
        for family in (*others, shape_layout.benches):
            for bench in family(backend):
                for each in (bench, *_variants(bench)):
                    if only in each.name:
                        yield each
    yield from (bench for bench in elementwise.benches(backend, numel) if only in bench.name)


def _variants(bench: Bench) -> Iterator[Bench]:
    if bench.workspace and row_named(bench.row).deterministic == "yes":
        yield dataclasses.replace(bench, name=f"{bench.name}, no workspace", workspace=False)


def measured(backend: str) -> set[str]:
    """The rows that some problem is for."""
    return {bench.row for bench in benches(backend)}
