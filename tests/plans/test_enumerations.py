# SPDX-License-Identifier: Apache-2.0
"""Descriptors take members of their own enumeration alone: the same number means another op in another enumeration."""

import dataclasses
import enum

import numpy as np
import pytest

import baracuda as bk
from baracuda._library.members import DESCRIPTIONS
from baracuda.kinds import IntEnum
from fakes import PLANS, FakeLibrary, example_descriptor
from naming import Tries

pytestmark = pytest.mark.unsanitized("descriptors refuse what is wrong before a library is called")

ENUMERATIONS = [kind for kind in vars(bk).values() if isinstance(kind, type) and issubclass(kind, enum.IntEnum)]
FIELDS = [(name, field) for name in PLANS for field in dataclasses.fields(example_descriptor(name))]
CHOICES = [(name, field) for name, field in FIELDS if "enumeration" in field.metadata]


def named(pairs):
    return pytest.mark.parametrize(("name", "field"), pairs, ids=[f"{name}-{field.name}" for name, field in pairs])


def refusal(name, **change):
    """The error of selecting a plan with a changed descriptor."""
    descriptor = dataclasses.replace(example_descriptor(name), **change)
    with pytest.raises(bk.BaracudaError) as caught:
        getattr(bk, f"{name}Plan").select(None, descriptor, library=FakeLibrary())
    return caught.value


def test_every_enumeration_of_a_descriptor_is_among_those_tried():
    used = {field.metadata["enumeration"] for _, field in CHOICES}
    assert used >= {bk.UnaryKind, bk.BinaryKind, bk.BinaryCmpKind, bk.TernaryKind, bk.GatedActivationKind}
    assert used <= set(ENUMERATIONS)
    for name, field in FIELDS:
        assert not issubclass(type(getattr(example_descriptor(name), field.name)), enum.IntEnum) or (
            "enumeration" in field.metadata or field.type == "ElementKind"
        )


def some_of(kind, number):
    """The first member and, for the field of this number, another one: all fields together try all members."""
    members = list(kind)
    return dict.fromkeys((members[0], members[number % len(members)]))


@named(FIELDS)
def test_members_of_other_enumerations_are_refused(name, field):
    """They are also refused as an extent, a parameter or a dtype: members of an enumeration pass for integers."""
    own = field.metadata.get("enumeration", bk.ElementKind if field.type.startswith("ElementKind") else None)
    number = FIELDS.index((name, field))
    with Tries() as tries:
        for kind in ENUMERATIONS:
            for member in some_of(kind, number) if kind is not own else ():
                with tries(f"{kind.__name__}.{member.name}"):
                    error = refusal(name, **{field.name: member})
                    assert type(error) is bk.InvalidProblemError
                    assert f"{field.name} is " in error.text
                    assert f"{kind.__name__}.{member.name}" in error.text


@named(CHOICES)
def test_other_values_are_refused(name, field):
    kind = field.metadata["enumeration"]
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    first = next(iter(kind))
    for value in ("gelu", first.name, first.name.lower(), 5000, -1, 0.0, True, None, np.bool_(False), object(), b"ADD"):
        if value is None and field.default is None:
            continue  # it may be left out
        error = refusal(name, **{field.name: value})
        assert type(error) is bk.InvalidProblemError
        assert error.text.endswith(f": {field.name} is {value!r}, must be {article} {kind.__name__}")


@named(CHOICES)
def test_values_of_members_are_taken(name, field):
    kind = field.metadata["enumeration"]
    for member in kind:
        for value in (member, int(member), np.int64(member)):
            found = field.metadata["check"](field.name, value)
            assert found is member


def test_the_text_names_both():
    with pytest.raises(bk.InvalidProblemError, match=r"^binary_op: kind is BinaryCmpKind\.EQ, must be a BinaryKind$"):
        bk.BinaryPlan.select(None, bk.BinaryDescriptor(bk.BinaryCmpKind.EQ, (4,), element=bk.f32))


@pytest.mark.parametrize("name", PLANS)
def test_descriptors_of_other_plans_are_refused(name):
    """A gradient's descriptor derives from the forward op's, but stands for another op."""
    with Tries() as tries:
        for other in PLANS:
            with tries(other):
                if other != name:
                    with pytest.raises(bk.InvalidProblemError, match=f"must be {name}Descriptor"):
                        getattr(bk, f"{name}Plan").select(None, example_descriptor(other), library=FakeLibrary())


@pytest.mark.parametrize("kind", [k for k in ENUMERATIONS if issubclass(k, IntEnum)], ids=lambda kind: kind.__name__)
def test_members_say_what_they_stand_for(kind):
    """Each member has a one-line description, and no two are equal."""
    lines = [member.description for member in kind]
    assert all(len(line) > 0 and "\n" not in line for line in lines)
    assert len(set(lines)) == len(lines)
    assert set(DESCRIPTIONS.get(kind.__name__, ())) <= {member.name for member in kind}


def test_ops_are_described_by_the_table():
    assert bk.UnaryKind.GELU.description.startswith("x ")
    assert "cosh" in bk.UnaryKind.COSH.description or "hyperbolic" in bk.UnaryKind.COSH.description
    assert bk.BinaryKind.ADD.description == "a + b"
    assert bk.SegmentKind.SEGMENT_MAX_BACKWARD.description
