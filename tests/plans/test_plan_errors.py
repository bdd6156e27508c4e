# SPDX-License-Identifier: Apache-2.0
"""Errors of plans have no context: exceptions that the package caught do not come with them."""

import dataclasses

import pytest

import baracuda as bk
from fakes import PLANS, FakeLibrary, example_args, example_descriptor, example_plan, raw, view_of

INVALID = (object(), "text", b"bytes", -1, 10**400, 1.5, float("nan"), True, [], {}, int, (1, 2, 3), ("a",), iter(()))


class Failures:
    """Calls that may fail, and what they raised."""

    def __init__(self):
        self.errors = []

    def try_(self, function, *args, **named):
        try:
            function(*args, **named)
        except bk.BaracudaError as error:
            self.errors.append(error)

    def check(self, at_least):
        assert len(self.errors) >= at_least
        for error in self.errors:
            assert error.__context__ is None, repr(error.__context__)
            assert error.__cause__ is None


def bad_views(operand, view):
    """Views that an operand may never be, or only under some conditions."""
    size = view.dtype.itemsize
    return [
        None, raw(view.shape, bk.b1), raw((*view.shape, 2), view.dtype), raw(view.shape, view.dtype, 0),
        raw(view.shape, view.dtype, view.ptr, length=1), raw(view.shape, view.dtype, view.ptr, device="cpu"),
        raw(view.shape, view.dtype, view.ptr, readonly=True), raw(view.shape, view.dtype, view.ptr + size // 2),
        raw(view.shape, view.dtype, view.ptr, strides=[3 * s for s in view.strides]),
        raw(view.shape, view.dtype, view.ptr, strides=[0 for _ in view.strides]),
        raw(view.shape, view.dtype, view.ptr, strides=[2**61 for _ in view.strides]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_launches(name):
    plan, args, failures = example_plan(name), example_args(name), Failures()
    calls = (plan.run, plan.bind)
    for call in calls:
        for invalid in INVALID:
            failures.try_(call, None, None, invalid)
            failures.try_(call, invalid, None, args)
            failures.try_(call, None, invalid, args)
        for operand in plan.operands:
            for view in bad_views(operand, view_of(args, operand.name)):
                failures.try_(call, None, None, example_args(name, **{operand.name: view}))
                failures.try_(plan.can_implement, example_args(name, **{operand.name: view}))
                failures.try_(plan.workspace_size_for, example_args(name, **{operand.name: view}))
    plan.library.status = 2  # from here on C refuses
    for run in (lambda: plan.run(None, None, args), plan.bind(None, (1 << 30, 1 << 30), args)):
        for _ in range(2):
            failures.try_(run)
    failures.check(at_least=60)


@pytest.mark.parametrize("name", PLANS)
def test_selection(name):
    select, good, failures = getattr(bk, f"{name}Plan").select, example_descriptor(name), Failures()
    library = FakeLibrary()

    def changed(**fields):
        select(None, dataclasses.replace(good, **fields), library=library)

    for invalid in INVALID:
        failures.try_(select, invalid, good, library=library)
        failures.try_(select, None, invalid, library=library)
        failures.try_(select, None, good, invalid, library=library)
        failures.try_(select, None, good, library=invalid)
        failures.try_(select, None, good, library=library, backend=invalid)
        for field in dataclasses.fields(good):
            failures.try_(changed, **{field.name: invalid})
        for field in dataclasses.fields(bk.PlanPreference):
            failures.try_(select, None, good, bk.PlanPreference(**{field.name: invalid}), library=library)
    failures.check(at_least=60)


def test_an_operand_that_was_checked_before_fails_alike():
    """The first run of an Args object takes another code path than the second; both report the same error."""
    plan, args = example_plan("Binary"), example_args("Binary")
    texts = []
    plan.library.status = 5
    for _ in range(2):
        with pytest.raises(bk.InternalError) as caught:
            plan.run(None, None, args)
        assert caught.value.__context__ is None
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_errors_of_an_exporter_keep_their_cause():
    class Exporter:
        @property
        def __array_interface__(self):
            raise OSError("gone")

    with pytest.raises(bk.InvalidProblemError, match="gone") as caught:
        example_plan("Binary").run(None, Exporter(), example_args("Binary"))
    assert isinstance(caught.value.__cause__, OSError)
