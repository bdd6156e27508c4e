# SPDX-License-Identifier: Apache-2.0
"""Losses over random shapes, modes, dtypes and targets; the case table holds the references."""

from hypothesis import given
from hypothesis import strategies as st

from cases import Draw
from cases.loss import ctc, elementwise, weighted
from harness import FLOATS
from harness.strategies import bounded, indices, kinds, offsets, run, seeds
from tools.oracle.losses import LOSSES

EVERY = (None, "full")  # workspaces
dtypes, modes = st.sampled_from(FLOATS), st.integers(0, 2)
# the rows of cross entropy, and whether each has the loss and the gradient
CROSS_ENTROPY = {
    "loss_cross_entropy_weighted{I}_{T}": (True, False),
    "loss_cross_entropy_weighted_backward{I}_{T}": (False, True),
    "loss_cross_entropy_with_gradient{I}_{T}": (True, True),
}


@bounded
@given(st.data(), st.sampled_from(list(CROSS_ENTROPY)), dtypes, indices, modes, seeds, offsets)
def test_cross_entropy(library, data, row, dtype, index, mode, seed, offset):
    """Any number of items, classes and positions, gaps, class weights, label smoothing, z-loss, and ignored targets."""
    extents = {name: data.draw(st.integers(1, most)) for name, most in (("rows", 40), ("columns", 300), ("inner", 4))}
    options = {name: data.draw(st.booleans()) for name in ("weighted", "scaled")}
    forward, backward = CROSS_ENTROPY[row]
    problem = weighted.made(
        Draw({"T": dtype, "I": index}, seed), mode=mode, gap=data.draw(st.integers(0, 5)), forward=forward,
        smoothing=data.draw(st.sampled_from([0.0, 0.1, 1.0])), z=data.draw(st.sampled_from([0.0, 1e-2])),
        share=data.draw(st.sampled_from([0.0, 0.2, 0.9])), backward=backward, **extents,
        **(options if row.startswith("loss_cross_entropy_with") else {"weighted": options["weighted"]}),
    )  # fmt: skip
    run(library, row, {"T": dtype, "I": index}, problem, offset, EVERY if forward else (None,))


@bounded
@given(st.data(), st.booleans(), dtypes, indices, modes, seeds, offsets)
def test_ctc(library, data, backward, dtype, index, mode, seed, offset):
    """Any lengths, feasible or not, and targets in either form, some of which are no classes."""
    row = f"loss_ctc_ragged{'_backward' * backward}{{I}}_{{T}}"
    extents = [data.draw(st.integers(least, most)) for least, most in ((0, 12), (1, 6), (1, 9), (0, 7))]
    form = data.draw(st.sampled_from(["padded", "concatenated"]))
    problem = ctc.made(
        Draw({"T": dtype, "I": index}, seed), *extents, mode, zero=int(data.draw(st.booleans())), ragged=form,
        blank=data.draw(st.integers(0, extents[2] - 1)), infeasible=data.draw(st.booleans()), backward=backward,
    )  # fmt: skip
    run(library, row, {"T": dtype, "I": index}, problem, offset, EVERY if backward else (None,))


@bounded
@given(st.sampled_from(list(LOSSES)), st.booleans(), dtypes, modes, st.integers(1, 3000), kinds, seeds, offsets)
def test_elementwise(library, name, backward, dtype, mode, n, kind, seed, offset):
    """Any number of elements, reduced by none, mean or sum, with ordinary and special operands."""
    kind = "normal" if mode else kind
    problem = elementwise.made(
        Draw({"T": dtype}, seed), name, n, mode, dict.fromkeys(LOSSES[name].inputs, kind), backward=backward
    )  # fmt: skip
    row = f"loss_{name}{'_backward' * backward}_{{T}}"
    run(library, row, {"T": dtype}, problem, offset, (None,) if backward else EVERY)
