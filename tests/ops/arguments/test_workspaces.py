# SPDX-License-Identifier: Apache-2.0
"""Workspaces of the sizes that the reference ABI fixes, and shorter ones than an op would like."""

from cases import CASES, Draw
from harness import OPS, itemsize, launch, workspace_size
from harness.outcomes import check_outcome
from naming import each_row

MOST = 1 << 16  # elements of a problem


def accumulator(slots):
    return 8 if slots["T"] == "f64" else 4


def of_segments(scalars, slots):
    """One count per segment."""
    return 4 * scalars["num_segments"]


def of_groups(scalars, slots):
    """Two sums per group, f32 whatever the dtype."""
    items, channels = scalars["n_extent"], scalars["c_extent"]
    return 8 * (channels if scalars["group_kind"] == 0 else items * scalars["num_groups"])


def of_elements(scalars, slots):
    """One value of T per summand, unless the loss is not reduced."""
    elements = scalars["numel"] if "numel" in scalars else scalars["n_rows"]
    return elements * itemsize(slots["T"]) if scalars["reduction_mode"] else 0


def of_samples(scalars, slots):
    return scalars["batch_size"] * accumulator(slots)


def of_states(scalars, slots):
    return scalars["batch_size"] * (2 * scalars["max_target_len"] + 1) * accumulator(slots)


def of_weights(scalars, slots):
    """The dense form of 2:4 sparse weights."""
    return scalars["m"] * scalars["k"] * itemsize(slots["T"])


def of_splits(scalars, slots):
    """f16 partial sums of each slice of split-K, in whole tiles of 128 rows."""
    return scalars["split_k_iters"] * -(-scalars["M"] // 128) * 128 * scalars["OC"] * 2


LOSSES = (
    "mse", "l1", "smooth_l1", "huber", "bce", "bce_with_logits", "kl_div", "poisson_nll", "gaussian_nll",
    "margin_ranking", "hinge_embedding", "nll", "cross_entropy", "cross_entropy_soft", "cosine_embedding",
    "triplet_margin", "multi_margin", "multilabel_margin", "multilabel_soft_margin",
)  # fmt: skip
# The rows whose workspace size the reference ABI specifies; its other rows take 0 bytes.
SPECIFIED = {f"loss_{loss}_{{T}}": of_elements for loss in LOSSES} | {
    "loss_ctc_{T}": of_samples, "loss_ctc_backward_{T}": of_states,
    "batch_norm_backward_{T}": of_groups, "group_norm_backward_{T}": of_groups,
    "unsorted_segment_mean{I}_{T}": of_segments, "segment_mean_backward{I}_{T}": of_segments,
    "unsorted_segment_mean_backward{I}_{T}": of_segments,
    "gemm_{T}_sparse24_gemm": of_weights, "int4_awq_gemm_{T}": of_splits,
}  # fmt: skip


def problems_of(case, op, names):
    for name in names:
        problem = case.problems[name](Draw(OPS[op][1], name))
        if problem.longest <= MOST:
            yield name, problem


def check(library, op, name, problem, nbytes, expected, **options):
    """The results are those that a call without a workspace promises."""
    case = CASES[OPS[op][0].name]
    outcome = launch(library, op, problem, workspace=nbytes, **options)
    assert outcome.status == 0, f"{name}, {nbytes} bytes: {outcome.text}"
    check_outcome(library, case, op, problem, outcome, None, expected)


def test_every_specified_row_is_there():
    assert SPECIFIED.keys() <= CASES.keys()


@each_row([op for op, (row, _) in OPS.items() if row.name in SPECIFIED])
def test_takes_the_workspace_of_the_reference(library, op):
    """The op needs no more than the reference's bytes, aligned as an allocation is, whatever else this library could
    use."""
    row, slots = OPS[op]
    case = CASES[row.name]
    for name, problem in problems_of(case, op, case.names(slots)):
        nbytes = SPECIFIED[row.name](problem.scalars, slots)
        if nbytes:
            check(library, op, name, problem, nbytes, case.reference(problem))


NEEDED = [op for op, (row, _) in OPS.items() if row.workspace.startswith("needed: ")]


@each_row(NEEDED)
def test_a_needed_workspace(library, op):
    """Status 4 without the workspace that a problem needs, as its size tells; nothing is written.

    The matrices of linear algebra's cases fit a GPU's shared memory.
    """
    row, slots = OPS[op]
    case = CASES[row.name]
    needing = 0
    for name in case.names(slots):
        problem = case.problems[name](Draw(slots, name))
        if workspace_size(library, op, problem) > 0:
            needing += 1
            for nbytes in (None, 0, 100):
                outcome = launch(library, op, problem, workspace=nbytes)
                assert outcome.status == 4, f"{name}: {outcome.text}"
                assert outcome.text.startswith(f"{op}: workspace has {nbytes or 0} bytes"), outcome.text
    fits = library.backend == "cuda" and row.family == "linalg"
    assert needing or fits, "no problem of the case needs a workspace"


@each_row([op for op, (row, _) in OPS.items() if row.workspace and op not in NEEDED and row.name != "loss_ctc_{T}"])
def test_a_shorter_workspace_is_not_refused(library, op):
    """A shorter workspace counts as none, or is used as far as it goes."""
    row, slots = OPS[op]
    case = CASES[row.name]
    names = case.names(slots)
    for name, problem in problems_of(case, op, dict.fromkeys((case.plain, case.large, *names))):
        needed = workspace_size(library, op, problem)
        if needed > 1:
            expected = case.reference(problem)
            for nbytes in sorted({1, needed // 2, needed - 1}):
                check(library, op, name, problem, nbytes, expected, workspace_offset=3)
            return


def test_sizes_of_the_reference_in_numbers(library):
    """Some sizes of the reference's documentation in numbers, so that not only formulas are tested."""
    ctc = {"batch_size": 2, "max_target_len": 2}
    assert of_states(ctc, {"T": "f32"}) == 40
    assert of_weights({"m": 1024, "k": 1024}, {"T": "f16"}) == 2_097_152
    assert of_splits({"split_k_iters": 8, "M": 3, "OC": 64}, {}) == 131_072
