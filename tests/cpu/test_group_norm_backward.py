# SPDX-License-Identifier: Apache-2.0
"""Gradients of group norm on the CPU: the number of threads decides between one pass and two, with equal bits."""

import functools

import pytest

import tolerances
from cases import CASES, Draw
from cases.norm import channels as norm_channels
from cases.norm import group as norm_group
from harness import OPS, launch
from harness.outcomes import check_outcome

OF_ITEM = 1
# [N, C, S] and groups: one group for many threads; groups of one channel, of several, of more than a block, of too many
# for one thread; more items than are added at a time.
FIRST = [((5, 12, 300), 1), ((3, 6, 513), 6), ((2, 24, 256), 4), ((2, 130, 257), 1), ((35, 6, 260), 3)]
LAST = [((5, 12, 70), 1), ((3, 6, 13), 6), ((2, 640, 33), 32), ((2, 300, 9), 1), ((35, 40, 12), 8), ((2, 8, 3000), 2)]
NULLS = [(), ("gamma",), ("dgamma",), ("dgamma", "dbeta")]


def check(library, set_threads, op, make):
    row, slots = OPS[op]
    case = CASES[row.name]
    for null in NULLS:
        problem = make(Draw(slots, "groups"), null=null)
        expected = case.reference(problem)
        found = []
        for threads in (1, 2, 3, 8):
            set_threads(threads)
            found.append(launch(library, op, problem))
            check_outcome(library, case, op, problem, found[-1], None, expected)
        for outcome in found[1:]:
            for name, bits in found[0].bits.items():
                tolerances.check_bits(f"{op}: {name}", outcome.bits[name], bits, outcome.dtypes[name])


@pytest.mark.parametrize(("shape", "groups"), FIRST, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_channels_first(library, set_threads, dtype, shape, groups):
    make = functools.partial(norm_channels.backward, shape=shape, groups=groups, kind=OF_ITEM)
    check(library, set_threads, f"group_norm_backward_{dtype}", make)
    check(library, set_threads, f"group_norm_wide_backward_{dtype}", functools.partial(make, is_wide=True))


@pytest.mark.parametrize(("shape", "groups"), LAST, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_channels_last(library, set_threads, dtype, shape, groups):
    make = functools.partial(norm_group.backward, shape=shape, groups=groups)
    check(library, set_threads, f"group_norm_channels_last_backward_{dtype}", make)
