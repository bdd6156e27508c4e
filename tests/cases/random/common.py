# SPDX-License-Identifier: Apache-2.0
"""Problems and bad calls of arrays of random numbers."""

import math

import numpy as np

from ..model import Array, Bad, Idle, Problem

SEED = 0x123456789ABCDEF
SIZES = (1, 2, 3, 4, 5, 8, 9, 31, 33, 255, 1000, 1024, 1025, 4097, 20011)
# Streams from an offset within a block, far behind, and over the end of the counter; seeds that fill the key.
STREAMS = {
    "odd_offset": {"offset": 1}, "other_offset": {"offset": 6}, "third_offset": {"offset": 7},
    "far_offset": {"offset": 2**40 + 4}, "wrapped": {"offset": 2**64 - 20}, "seed_0": {"seed": 0},
    "last_seed": {"seed": 2**64 - 1},
}  # fmt: skip
STATE = (2**64 - 12345, 2**33 + 2)


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def state_of(given):
    """A state in device memory, and whether it is NULL."""
    values = np.array([signed(v) for v in (STATE if given is None else given)], np.int64)
    return {"state": Array("i64", (2,), values)}, ("state",) if given is None else ()


def made(draw, numel, *, state=None, seed=SEED, offset=0, **scalars):
    arrays, null = state_of(state)
    arrays["y"] = draw.output((numel,))
    return Problem({"numel": numel, **scalars, "seed": seed, "offset": offset}, arrays, null=null)


def stream_of(problem, each):
    """(seed, offset) of a problem of numbers of `each` words, by value or from the block of its state."""
    seed, offset = problem.scalars["seed"], problem.scalars["offset"]
    if "state" in problem.null:
        return seed, offset
    state = [int(v) % 2**64 for v in problem.arrays["state"].values]
    return state[0], (state[1] * (4 // each) + offset) % 2**64


def problems(scalars, variants=None):
    """Problems of every size and stream with the scalars, and those of `variants`, other scalars by name."""
    table = {f"n{n}": lambda d, n=n: made(d, n, **scalars) for n in SIZES}
    for name, stream in STREAMS.items():
        table[name] = lambda d, stream=stream: made(d, 133, **scalars, **stream)
    table["state"] = lambda d: made(d, 133, state=STATE, **scalars)
    table["state_offset"] = lambda d: made(d, 133, state=STATE, offset=2**64 - 5, **scalars)
    for name, changed in (variants or {}).items():
        table[name] = lambda d, changed=changed: made(d, 1003, **(scalars | changed))
    return table


BRIEF = ("n33", "n1025", "odd_offset", "state")
IDLE = (Idle("numel_0", {"numel": 0}),)


def bad_calls(*wrong, has_state=True):
    """`wrong` are (scalars, pattern of the text)."""
    return (
        Bad("negative", 2, r"numel is -1", {"numel": -1}, can=2),
        Bad("bytes_overflow", 2, rf"numel is {2**63 - 1}", {"numel": 2**63 - 1}, can=2),
        Bad("null_y", 2, r"y is NULL", null=("y",)),
        Bad("odd_y", 1, r"y is 0x[0-9a-f]+", shift={"y": 1}),
        *([Bad("odd_state", 1, r"state is 0x[0-9a-f]+", shift={"state": 1})] if has_state else ()),
        *(
            Bad(f"wrong_{'_'.join(map(str, given.values()))}", 2, text, given, can=2)
            for given, text in wrong
        ),
    )  # fmt: skip


NO_NUMBERS = (math.nan, math.inf, -math.inf)
