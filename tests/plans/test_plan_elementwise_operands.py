# SPDX-License-Identifier: Apache-2.0
"""Checks of elementwise plans on operands: shapes, aliases, gradients. No kernel runs."""

import pytest

import baracuda as bk
from fakes import SHAPE, FakeLibrary, apart, launch, plan_of, raw

Unary, Binary, Ternary = bk.UnaryKind, bk.BinaryKind, bk.TernaryKind


@pytest.mark.parametrize(
    ("view", "error", "text"),
    [
        (raw((4, 3)), bk.InvalidProblemError, r"a has shape \(4, 3\), expected shape = \(3, 4\)"),
        (raw((4,)), bk.InvalidProblemError, r"a has shape \(4,\)"),
        (raw((2, 4)), bk.InvalidProblemError, r"a has shape \(2, 4\)"),
        (raw(SHAPE, bk.i32), bk.InvalidProblemError, "a has dtype i32, expected f32"),
        (raw(SHAPE, address=0), bk.InvalidProblemError, "a is NULL"),
        (raw(SHAPE, address=4098), bk.MisalignedOperandError, "a is at 0x1002"),
        (None, bk.InvalidProblemError, "a is None"),
        (raw(SHAPE, length=11), bk.BufferTooSmallError, "a with shape .* of 11"),
        (raw((1, 4), length=3), bk.BufferTooSmallError, "a with shape .* of 3"),
        (raw(SHAPE, strides=(8, 1), length=19), bk.BufferTooSmallError, "of 19"),
        (raw(SHAPE, device="cpu"), bk.InvalidProblemError, "a is in cpu memory"),
    ],
)  # fmt: skip
def test_bad_inputs(view, error, text):
    plan = plan_of("Binary", Binary.ADD, SHAPE)
    b = raw(SHAPE, address=8 << 20)
    with pytest.raises(error, match=f"binary_add: .*{text}") as caught:
        launch(plan, view, b, raw(SHAPE, address=9 << 20))
    assert caught.value.symbol == "binary_add"
    assert not plan.library.calls


@pytest.mark.parametrize("name", ["short, broadcast", "exact, padded"])
def test_reach_counts_not_elements(name):
    x = {
        "short, broadcast": raw(SHAPE, strides=(0, 0), length=1),
        "exact, padded": raw(SHAPE, strides=(8, 1), length=20),
    }[name]
    launch(plan_of("Unary", Unary.NEG, SHAPE), x, raw(SHAPE, address=9 << 20))


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (raw((1, 4), address=9 << 20), r"y has shape \(1, 4\)"),
        (raw(SHAPE, strides=(0, 1), address=9 << 20), "its cells overlap"),
        (raw(SHAPE, readonly=True, address=9 << 20), "y is read-only"),
        (raw(SHAPE, address=(1 << 20) + 4), "y overlaps a"),
        (raw(SHAPE, strides=(1, 3)), "y overlaps a, must be identical with it or apart"),
    ],
)  # fmt: skip
def test_bad_outputs(y, text):
    a, b = apart(2)
    with pytest.raises(bk.InvalidProblemError, match=f"binary_add: .*{text}"):
        launch(plan_of("Binary", Binary.ADD, SHAPE), a, b, y)


def test_ldexp_takes_i32_exponents():
    a, y = apart(2, dtype=bk.f16)
    b = raw(SHAPE, bk.i32, 9 << 20)
    assert launch(plan_of("Binary", Binary.LDEXP, SHAPE, element=bk.f16), a, b, y)[0] == "binary_ldexp_f16"
    with pytest.raises(bk.InvalidProblemError, match="b has dtype f16, expected i32"):
        launch(plan_of("Binary", Binary.LDEXP, SHAPE, element=bk.f16), a, a, y)
    backward = plan_of("BinaryBackward", Binary.LDEXP, SHAPE, element=bk.f16)
    assert launch(backward, a, b=b, da=y)[0] == "binary_ldexp_backward_f16"
    with pytest.raises(bk.InvalidProblemError, match="db is given, but binary_ldexp_backward has no such gradient"):
        launch(backward, a, b=b, da=y, db=raw(SHAPE, bk.f16, 8 << 20))
    with pytest.raises(bk.InvalidProblemError, match="b is None"):
        launch(backward, a, da=y)


def test_conditions_and_flags():
    a, b, y = apart(3)
    for dtype, op in (
        (bk.bool_, "where_f32"),
        (bk.u8, "where_f32"),
        (bk.u32, "where_u32cond_f32"),
        (bk.i64, "where_i64cond_f32"),
    ):
        assert launch(plan_of("Where", SHAPE), raw(SHAPE, dtype, 9 << 20), a, b, y)[0] == op
    with pytest.raises(bk.InvalidProblemError, match="cond has dtype i32, expected bool or u8 or u32 or i64"):
        launch(plan_of("Where", SHAPE), raw(SHAPE, bk.i32, 9 << 20), a, b, y)
    with pytest.raises(bk.InvalidProblemError, match="cond has dtype u32, expected bool or u8"):
        launch(plan_of("WhereBackward", SHAPE), raw(SHAPE, bk.u32, 9 << 20), a, y)
    for dtype in (bk.bool_, bk.u8):
        assert launch(plan_of("BinaryCmp", 0, SHAPE), a, b, raw(SHAPE, dtype, 9 << 20))[0] == "binary_cmp_eq_f32"
    with pytest.raises(bk.InvalidProblemError, match="y has dtype f32, expected bool or u8"):
        launch(plan_of("BinaryCmp", 0, SHAPE), a, b, y)


@pytest.mark.parametrize(
    ("name", "fields", "element", "views", "allowed"),
    [
        ("Unary", (Unary.GELU, SHAPE), bk.f32, ("x", "x"), True),
        ("UnaryBackward", (Unary.GELU, SHAPE), bk.f32, ("dy", "x", None, "dy"), True),
        ("UnaryBackward", (Unary.GELU, SHAPE), bk.f32, ("dy", "x", None, "x"), True),
        ("UnaryParamBackward", (Unary.ELU, SHAPE, 1), bk.f32, ("dy", "x", "x"), True),
        ("Binary", (Binary.ADD, SHAPE), bk.f32, ("a", "b", "b"), True),
        ("BinaryBackward", (Binary.MUL, SHAPE), bk.f32, ("dy", "a", "b", "b", "a"), True),
        ("BinaryBackward", (Binary.MUL, SHAPE), bk.f32, ("dy", "a", "b", "c", "c"), False),
        ("BinaryCmp", (0, SHAPE), bk.u8, ("a", "b", "a"), True),
        ("Ternary", (Ternary.FMA, SHAPE), bk.f32, ("a", "b", "c", "c"), True),
        ("TernaryBackward", (Ternary.FMA, SHAPE), bk.f32, ("dy", "a", "b", "c", "a", "b", "dy"), True),
        ("Where", (SHAPE,), bk.u8, ("a", "b", "c", "a"), True), ("Where", (SHAPE,), bk.u8, ("a", "b", "c", "c"), True),
        ("WhereBackward", (SHAPE,), bk.f32, ("u8", "dy", "dy"), True),
        ("Affine", (SHAPE, 2), bk.f32, ("x", "x"), True), ("PRelu", (SHAPE, -1), bk.f32, ("x", "w", "x"), True),
        ("PReluBackward", (SHAPE, -1), bk.f32, ("dy", "x", "w", "x", "v"), True),
        ("PReluBackward", (SHAPE, -1), bk.f32, ("dy", "x", "w", "y", "w"), False),
        ("GatedActivationBackward", (0, (3, 8), 1), bk.f32, ("wide", "dy", "wide"), True),
    ],
)  # fmt: skip
def test_aliases(name, fields, element, views, allowed):
    names = ["x", "y", "a", "b", "c", "dy"]
    made = {n: raw(SHAPE, element, (k + 1) << 20) for k, n in enumerate(names)}
    made |= {"u8": raw(SHAPE, bk.u8, 20 << 20), "w": raw((1,), element, 21 << 20), "v": raw((1,), element, 22 << 20)}
    made |= {"wide": raw((3, 8), element, 23 << 20), None: None}
    plan = plan_of(name, *fields, element=element)
    if allowed:
        launch(plan, *[made[view] for view in views])
    else:
        with pytest.raises(bk.InvalidProblemError, match="overlaps"):
            launch(plan, *[made[view] for view in views])


def test_aliases_of_other_widths():
    """y may alias x only where elements have one size."""
    x = raw(SHAPE)
    launch(plan_of("Cast", SHAPE, bk.i32), x, raw(SHAPE, bk.i32))
    for target in (bk.f16, bk.f64):
        with pytest.raises(bk.InvalidProblemError, match="cast: y overlaps x"):
            launch(plan_of("Cast", SHAPE, target), x, raw(SHAPE, target))
    with pytest.raises(bk.InvalidProblemError, match="where: y overlaps cond"):
        launch(plan_of("Where", SHAPE), raw(SHAPE, bk.u8), *apart(2)[1:], raw(SHAPE, address=9 << 20), raw(SHAPE))


def test_broadcast_inputs_are_no_aliases():
    a, b = apart(2)
    with pytest.raises(bk.InvalidProblemError, match="y overlaps a"):
        launch(plan_of("Binary", Binary.ADD, SHAPE), raw((1, 4)), b, a)


# --- gradients --------------------------------------------------------------------------------------------------------


def test_unwanted_gradients_are_null():
    dy, a, b, da, db = apart(5)
    plan = plan_of("BinaryBackward", Binary.MUL, SHAPE)
    assert launch(plan, dy, a, b, da=da)[1]["db"] == 0
    assert launch(plan, dy, a, b, db=db)[1]["da"] == 0
    strided = raw(SHAPE, strides=(8, 2))
    op, args = launch(plan, strided, a, b, db=raw((1, 4), address=9 << 20))
    assert (op, args["stride_dy"], args["stride_da"], args["stride_db"]) == (
        "binary_mul_backward_f32_strided", [8, 2], [4, 1], [0, 1],
    )  # fmt: skip
    for name, fields, views, text in [
        ("BinaryBackward", (Binary.MUL, SHAPE), (dy, a, b), "da and db are both None"),
        ("BinaryBackward", (Binary.ADD, SHAPE), (dy,), "da and db are both None"),
        ("BinaryParamBackward", (Binary.LERP, SHAPE, 1), (dy,), "da and db are both None"),
        ("TernaryBackward", (Ternary.CLAMP, SHAPE), (dy, a, b, da), "da and db and dc are all None"),
        ("WhereBackward", (SHAPE,), (raw(SHAPE, bk.bool_), a), "da and db are both None"),
        ("PReluBackward", (SHAPE, 0), (dy, a, raw((3,))), "dx and dweight are both None"),
    ]:
        with pytest.raises(bk.InvalidProblemError, match=text):
            launch(plan_of(name, *fields), *views)


def test_operands_that_no_gradient_reads_may_be_none():
    dy, a, b, c, out = apart(5)
    assert launch(plan_of("BinaryBackward", Binary.SUB, SHAPE), dy, da=out)[0] == "binary_sub_backward_f32"
    for kind, needed in ((Ternary.FMA, "a"), (Ternary.ADDCMUL, "c"), (Ternary.ADDCDIV, "c")):
        plan, given = plan_of("TernaryBackward", kind, SHAPE, 0.1), {"a": a, "b": b, "c": c, "db": out}
        for unread in {"a", "b", "c"} - {needed}:
            assert launch(plan, dy, **given)[1][unread] == given[unread].ptr
            args = launch(plan, dy, **given | {unread: None})[1]
            assert args[unread] == 0
            assert args.get("scale", 0.1) == 0.1
        with pytest.raises(bk.InvalidProblemError, match=f"{needed} is None, but ternary_"):
            launch(plan, dy, **given | {needed: None})
    with pytest.raises(bk.InvalidProblemError, match="c is None"):
        launch(plan_of("TernaryBackward", Ternary.CLAMP, SHAPE), dy, a, b, da=out)


def test_a_summed_gradient_is_no_input():
    dy, a, da = apart(3)
    plan = plan_of("BinaryBackward", Binary.MUL, SHAPE)
    row = raw((1, 4), address=9 << 20)
    with pytest.raises(bk.InvalidProblemError, match="db overlaps b, but is a sum over broadcast axes"):
        launch(plan, dy, a, row, da, row)
    launch(plan, dy, a, row, a, raw((1, 4), address=10 << 20))


def test_workspace_of_sums():
    """The plan cannot know which gradients are summed; the operands say so."""
    library = FakeLibrary(size=1000)
    plan = plan_of("BinaryBackward", Binary.MUL, SHAPE, library=library)
    dy, a, b, da, db = apart(5)
    whole, summed = plan.args_type(dy, a, b, da, db), plan.args_type(dy, a, b, da, raw((1, 4), address=9 << 20))
    assert plan.workspace_size == 0
    assert bk.workspace(plan) is None
    assert plan.workspace_size_for(whole) == 0
    assert plan.workspace_size_for(summed) == 1000
    kind, args = library.calls[-1][1:]
    assert (kind, len(args), list(args[-1])) == ("workspace_size", 8, [0, 1])
    for workspace, taken in ((None, 0), ((20 << 20, 0), 0), ((20 << 20, 1000), 1000)):
        plan.run(None, workspace, summed)
        assert library.calls[-1][2][-2] == taken
    with pytest.raises(bk.WorkspaceTooSmallError):
        plan.run(None, (20 << 20, 999), summed)
    plan.run(None, (20 << 20, 1000), whole)
    assert library.calls[-1][2][-2] == 0
    capped = bk.BinaryBackwardPlan.select(
        None, plan.descriptor, bk.PlanPreference(max_workspace_bytes=999), library=library
    )
    assert capped.workspace_size_for(summed) == 0
    prelu = plan_of("PReluBackward", SHAPE, 1)
    assert prelu.workspace_size == 1000
    prelu.run(None, None, prelu.args_type(dy, a, raw((4,)), da, raw((4,), address=9 << 20)))
