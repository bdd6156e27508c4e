# SPDX-License-Identifier: Apache-2.0
"""Selection by a mask or by the elements: masked_fill, masked_select, masked_scatter, nonzero; and one_hot."""

import math

import numpy as np

from tools.oracle.numerics import bits_type, decode, itemsize

from ..elementwise.common import flat_calls, flat_maker, flat_problems, strided_calls, strided_maker, strided_problems
from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .copies import index_array, pointers, some_indices

I32_MAX = 2**31 - 1


def mask_of(draw, shape, share=0.5, strides=None):
    """0 or any other byte."""
    some = draw.rng.integers(1, 256, shape)
    return draw.array(np.where(draw.rng.random(shape) < share, some, 0), "u8", strides)


# --- masked_fill ------------------------------------------------------------------------------------------------------


def mask(draw, param, shape, kind, strides):
    return mask_of(draw, shape, 0.5, strides) if param.name == "mask" else None


def fill_bits(draw):
    """The bits of some value, below bits that are ignored."""
    low = int(draw.values((1,), "special").bits().astype(np.uint64)[0])
    bits = 8 * itemsize(draw.dtype)
    whole = (0x5A5A5A5A5A5A5A5A >> bits << bits if bits < 64 else 0) | low & (2**bits - 1)
    return whole - 2**64 if whole >= 2**63 else whole


def half_of_bits(k):
    """The bits of one half of a 16-byte value."""
    return lambda draw: int(np.frombuffer(draw.values((1,), "special").bits().tobytes(), np.int64)[k])


def fill_reference(problem):
    a, dtype = problem.arrays, problem.arrays["src"].dtype
    pattern = np.array([problem.scalars["fill_bits"], problem.scalars.get("fill_bits_high", 0)], np.int64)
    value = decode(pattern.view(np.uint8)[: itemsize(dtype)].view(bits_type(dtype)), dtype)[0]
    return {"out": Expected(np.where(a["mask"].values != 0, value, a["src"].values))}


def fill_backward_reference(problem):
    dout = problem.arrays["dout"].values
    return {"dsrc": Expected(np.where(problem.arrays["mask"].values != 0, np.zeros_like(dout), dout))}


def pointwise(row, reference, first, output, **scalars):
    def full(slots):
        return slots["T"] in ("f32", "u8", "c64")

    of_views = row.replace("{T}", "{T}_strided")
    flat, strided = flat_maker(row, mask, **scalars), strided_maker(of_views, mask, **scalars)
    about = {"reference": reference, "tolerance": {output: "exact"}, "full": full}
    return (
        Case(row=row, problems=flat_problems(flat), **about, **flat_calls(row, brief=("n33", "special"))),
        Case(
            row=of_views, problems=strided_problems(strided, (first, "mask"), (output,)), **about,
            **strided_calls(of_views),
        ),
    )  # fmt: skip


# --- masked_select, masked_scatter ------------------------------------------------------------------------------------


def select(draw, numel, most=None, share=0.5, kind="normal", null=()):
    chosen = mask_of(draw, (numel,), share)
    most = int(np.count_nonzero(chosen.values)) if most is None else most
    arrays = {
        "src": draw.values((numel,), kind), "mask": chosen, "out": draw.values((most,)),
        "counter": draw.output((1,), dtype="i64"),
    }  # fmt: skip
    return Problem({"numel": numel, "max_selected": most}, arrays, null=null)


def select_reference(problem):
    found = problem.arrays["src"].values[problem.arrays["mask"].values != 0]
    out = problem.arrays["out"].values.copy()
    count = min(len(found), len(out))
    out[:count] = found[:count]
    expected = {"out": Expected(out), "counter": Expected(np.array([len(found)]))}
    return {name: each for name, each in expected.items() if name not in problem.null}


def select_backward(draw, numel, most=None, share=0.5, kind="normal", null=()):
    one = select(draw, numel, most, share, kind)
    most = one.scalars["max_selected"]
    arrays = {"dout": draw.values((most,), kind), "mask": one.arrays["mask"], "dsrc": draw.output((numel,))}
    return Problem(one.scalars, arrays, null=null)


def spread_out(old, source, chosen):
    value, indices = old.copy(), np.flatnonzero(chosen)[: len(source)]
    value[indices] = source[: len(indices)]
    return value


def select_backward_reference(problem):
    dout, chosen = problem.arrays["dout"].values, problem.arrays["mask"].values
    return {"dsrc": Expected(spread_out(np.zeros(len(chosen), dout.dtype), dout, chosen))}


def masked_scatter(draw, numel, most=None, share=0.5, kind="normal", null=()):
    one = select(draw, numel, most, share, kind)
    most = one.scalars["max_selected"]
    arrays = {"source": draw.values((most,), kind), "mask": one.arrays["mask"], "out": draw.values((numel,))}
    return Problem({"numel": numel, "source_numel": most}, arrays, null=null)


def masked_scatter_reference(problem):
    a = problem.arrays
    return {"out": Expected(spread_out(a["out"].values, a["source"].values, a["mask"].values))}


SELECTIONS = {  # numel, options
    "one": (1, {"share": 1}), "n3": (3, {}), "n16": (16, {}), "plain": (301, {}), "n4096": (4096, {}),
    "n4097": (4097, {}), "none": (5000, {"share": 0, "most": 7}), "all": (5000, {"share": 1}),
    "few": (40003, {"share": 0.001}), "fewer": (9000, {"most": 301}), "more": (9000, {"most": 6001}),
    "no_slot": (9000, {"most": 0}), "special": (777, {"kind": "special"}), "large": (150001, {}),
    "n16384": (16384, {}), "n16385": (16385, {}), "all_of_some": (40003, {"share": 1}),
}  # fmt: skip


def selections(make):
    return {name: lambda d, n=n, k=k: make(d, n, **k) for name, (n, k) in SELECTIONS.items()}


def selection_bad(extent, arrays):
    return (
        Bad("negative", 2, r"numel is -2", {"numel": -2}, can=2),
        Bad("negative_extent", 2, rf"{extent} is -3", {extent: -3}, can=2),
        Bad("negative_beside_0", 2, rf"{extent} is -3", {"numel": 0, extent: -3}, can=2),
        Bad("far", 2, rf"{extent} is {2**60}", {extent: 2**60}, can=2),
        *pointers(arrays),
    )  # fmt: skip


# --- nonzero ----------------------------------------------------------------------------------------------------------


def nonzero(draw, shape, most=None, share=0.5, kind="normal", x=None, null=()):
    shape, strides = tuple(shape), strides_for(shape, **x or {})
    given = np.asarray(draw.values(shape, kind).values)
    given = draw.array(np.where(draw.rng.random(shape) < share, given, np.zeros_like(given)), strides=strides)
    most = int(np.count_nonzero(given.values)) if most is None else most
    table = draw.integers((most, len(shape)), dtype=draw.index)
    arrays = {"x": given, "out_coords": table, "counter": draw.output((1,), dtype=draw.index)}
    host = {"shape": shape, "stride_x": strides}
    return Problem({"numel": math.prod(shape), "rank": len(shape), "max_nz": most}, arrays, host, null)


def nonzero_reference(problem):
    x, table = problem.arrays["x"].values, problem.arrays["out_coords"].values.copy()
    found = np.argwhere(x != 0)
    count = min(len(found), len(table))
    table[:count] = found[:count]
    expected = {"out_coords": Expected(table), "counter": Expected(np.array([len(found)]))}
    return {name: each for name, each in expected.items() if name not in problem.null}


PERMUTED = {"order": (2, 0, 1)}
TABLES = {  # shape, options
    "rank0": ((), {"share": 1}), "one": ((1,), {"share": 1}), "row": ((1003,), {}), "plain": ((3, 5, 7), {}),
    "rows": ((64, 80), {}), "rank8": ((2, 1, 3, 2, 1, 2, 2, 3), {}), "none": ((50, 90), {"share": 0, "most": 4}),
    "all": ((41, 103), {"share": 1}), "few": ((201, 203), {"share": 0.001}), "fewer": ((91, 97), {"most": 301}),
    "more": ((91, 97), {"most": 9001}), "no_slot": ((91, 97), {"most": 0}), "special": ((31, 29), {"kind": "special"}),
    "permuted": ((13, 15, 17), {"x": PERMUTED}), "flipped": ((13, 15, 17), {"x": {"flip": (0, 2)}}),
    "gaps": ((90, 91), {"x": {"gap": 2, "pad": 3}}), "broadcast": ((9, 11, 8), {"x": {"broadcast": (1,)}}),
    "large": ((301, 409), {}),
}  # fmt: skip
NONZERO_BAD = (
    Bad("negative", 2, r"numel is -2", {"numel": -2}, can=2),
    Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
    Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
    Bad("most_negative", 2, r"max_nz is -5", {"max_nz": -5}, can=2),
    Bad("null_shape", 2, r"shape is NULL", host={"shape": None}, can=2),
    Bad("null_stride_x", 2, r"stride_x is NULL", host={"stride_x": None}, can=2),
    Bad("shape_negative", 2, r"shape\[2\] is -7", host={"shape": (3, 5, -7)}, can=2),
    Bad("count_wrong", 2, r"numel is 17\b", {"numel": 17}, can=2),
    Bad("empty_wrong", 2, r"numel is 0\b", {"numel": 0}, can=2),
    Bad("far", 2, rf"stride_x\[1\] is {2**61}", host={"stride_x": (1, 2**61, 1)}, can=2),
    Bad("overflow", 2, r"shape", {"rank": 8}, {"shape": (I32_MAX,) * 8, "stride_x": (0,) * 8}, can=2),
    Bad("empty_null_counter", 2, r"counter is NULL", {"numel": 0}, {"shape": (3, 0, 7)}, null=("counter",)),
    *pointers(("x", "out_coords", "counter")),
)


# --- one_hot ----------------------------------------------------------------------------------------------------------


def one_hot(draw, numel, classes, spread="mixed"):
    count = -(-numel // classes)
    arrays = {
        "src": index_array(draw, some_indices(draw, (count,), classes, spread)), "out": draw.output((numel,)),
    }  # fmt: skip
    return Problem({"out_numel": numel, "num_classes": classes}, arrays)


def one_hot_reference(problem):
    src, numel, classes = problem.arrays["src"].values, problem.scalars["out_numel"], problem.scalars["num_classes"]
    hot = (src[:, None] == np.arange(classes)).reshape(-1)[:numel]
    return {"out": Expected(hot.astype(np.int64))}


CLASSES = (1, 2, 3, 4, 5, 7, 10, 15, 16, 17, 31, 32, 33, 100, 1000)

CASES = (
    *pointwise("masked_fill_{T}", fill_reference, "src", "out", fill_bits=fill_bits),
    *pointwise("masked_fill_{T} halves", fill_reference, "src", "out", fill_bits=half_of_bits(0),
               fill_bits_high=half_of_bits(1)),
    *pointwise("masked_fill_backward_{T}", fill_backward_reference, "dout", "dsrc"),
    Case(
        row="masked_select_{T}",
        problems=selections(select)
        | {"empty": lambda d: select(d, 0, 5), "empty_null": lambda d: select(d, 0, 0, null=("src", "mask", "out"))},
        reference=select_reference, tolerance={"out": "exact", "counter": "exact"}, plain="plain", large="large",
        bad=(*selection_bad("max_selected", ("src", "mask", "out", "counter")),
             Bad("empty_null_counter", 2, r"counter is NULL", {"numel": 0}, null=("counter",)),
             Bad("out_is_src", 2, r"out|src", alias={"out": "src"})),
        idle=(),
    ),
    Case(
        row="masked_select_backward_{T}", problems=selections(select_backward), reference=select_backward_reference,
        tolerance={"dsrc": "exact"}, plain="plain", large="large",
        bad=selection_bad("max_selected", ("dout", "mask", "dsrc")), idle=(Idle("nothing", {"numel": 0}),),
    ),
    Case(
        row="masked_scatter_{T}", problems=selections(masked_scatter), reference=masked_scatter_reference,
        tolerance={"out": "exact"}, plain="plain", large="large",
        bad=selection_bad("source_numel", ("source", "mask", "out")), idle=(Idle("nothing", {"numel": 0}),),
    ),
    Case(
        row="nonzero{I}_{T}",
        problems={name: lambda d, s=s, k=k: nonzero(d, s, **k) for name, (s, k) in TABLES.items()}
        | {"empty": lambda d: nonzero(d, (3, 0, 7), 5),
           "empty_null": lambda d: nonzero(d, (3, 0, 7), 0, null=("x", "out_coords"))},
        reference=nonzero_reference, tolerance={"out_coords": "exact", "counter": "exact"}, plain="plain",
        large="large", bad=NONZERO_BAD, idle=(),
    ),
    Case(
        row="one_hot{I}_{T}",
        problems={f"c{c}": lambda d, c=c: one_hot(d, 61 * c, c) for c in CLASSES}
        | {
            "one": lambda d: one_hot(d, 1, 1, "inside"), "part": lambda d: one_hot(d, 33, 10),
            "outside": lambda d: one_hot(d, 70, 7, "outside"), "large": lambda d: one_hot(d, 2003 * 37, 37),
        },
        reference=one_hot_reference, tolerance={"out": "exact"}, plain="c5", large="large",
        bad=(
            Bad("negative", 2, r"out_numel is -2", {"out_numel": -2}, can=2),
            Bad("no_classes", 2, r"num_classes is 0", {"num_classes": 0}, can=2),
            Bad("negative_classes", 2, r"num_classes is -3", {"num_classes": -3}, can=2),
            Bad("empty_no_classes", 2, r"num_classes is 0", {"out_numel": 0, "num_classes": 0}, can=2),
            Bad("far", 2, rf"out_numel is {2**60}", {"out_numel": 2**60}, can=2), *pointers(("src", "out")),
        ),
        idle=(Idle("nothing", {"out_numel": 0}),),
    ),
)  # fmt: skip
