# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies of the property tests, and the comparison of a drawn problem with its reference."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cases import CASES, segment
from tolerances import check_bits

from . import FLOATS, NAN_POISON, OPS, claims_determinism, launch
from .outcomes import check_outcome

EXAMPLES = 60
MOST_CELLS = 4096
bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
dtypes, indices, seeds = st.sampled_from(FLOATS), st.sampled_from(["i32", "i64"]), st.integers(0, 2**32 - 1)
offsets, weights = st.integers(0, 9), st.floats(-2, 2, width=32)
RANKS = st.integers(0, 8)
kinds = st.sampled_from(["normal", "positive", "special"])
NAMES = {(row.name, frozenset(slots.items())): op for op, (row, slots) in OPS.items()}


@st.composite
def shapes(draw, rank=RANKS):
    shape, cells = [], 1
    for _ in range(draw(rank)):
        extent = draw(st.integers(1, max(1, min(40, MOST_CELLS // cells))))
        shape.append(extent)
        cells *= extent
    return tuple(shape)


@st.composite
def layouts(draw, rank, broadcast=False):
    axes = list(range(rank))
    layout = {
        "order": tuple(draw(st.permutations(axes))),
        "flip": tuple(a for a in axes if draw(st.booleans())),
        "gap": draw(st.integers(1, 3)),
        "pad": draw(st.integers(0, 3)),
    }
    if broadcast:
        layout["broadcast"] = tuple(a for a in axes if draw(st.integers(0, 3)) == 0)
    return layout


def run(library, row, slots, problem, offset, workspaces=(None,)):
    case, op = CASES[row], NAMES[row, frozenset(slots.items())]
    for workspace in workspaces:
        outcome = launch(library, op, problem, workspace=workspace, offset=offset, poison=NAN_POISON)
        check_outcome(library, case, op, problem, outcome, workspace)
        if claims_determinism(library, op, workspace):
            again = launch(library, op, problem, workspace=workspace, offset=offset)
            for name, bits in outcome.bits.items():
                check_bits(f"{op}: {name}", again.bits[name], bits, outcome.dtypes[name])


def segments_of(data):
    n, d, segments = data.draw(st.integers(1, 400)), data.draw(st.integers(1, 70)), data.draw(st.integers(1, 300))
    return min(n, 12000 // d), d, segments, data.draw(st.sampled_from(segment.DISTRIBUTIONS)), data.draw(kinds)


def bags_of(data):
    lengths = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=60))
    rows, dim, mode = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 40)), data.draw(st.sampled_from([0, 1]))
    padding, spread = data.draw(st.integers(-2, rows)), data.draw(st.sampled_from(segment.DISTRIBUTIONS))
    options = {"mode": mode, "padding": padding, "lengths": tuple(lengths), "spread": spread, "kind": data.draw(kinds)}
    return (len(lengths), rows, dim), options
