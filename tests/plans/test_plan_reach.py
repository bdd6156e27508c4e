# SPDX-License-Identifier: Apache-2.0
"""Every row of the op table is reached by a plan, so that Python can run every op."""

import collections
import dataclasses
import itertools
import re

import pytest

import baracuda as bk
from baracuda._library.op_table import ops
from fakes import PLANS, FakeLibrary, args_of, example_descriptor, raw

ELEMENTS = list(bk.ElementKind)
# Ops that no plan launches, with the reason.
UNUSED = {
    # These are called by code written for other libraries: plans use the twins that take f64 parameters.
    r"(unary_(powf|powi|threshold)|binary_lerp|ternary_addc(mul|div))(_backward)?_(f32|f16|bf16|f64)(_strided)?",
    r"((rms|layer)_norm|(log_)?softmax)(_backward)?_(f32|f16|bf16|f64)_strided",
    r"(flip|roll|permute)_.*_strided",
    r"loss_(smooth_l1|huber|gaussian_nll|margin_ranking|hinge_embedding)(_backward)?_f64",
    r"gumbel_softmax(_backward)?_f64",
    r"loss_(cosine_embedding|triplet_margin|multi_margin)(_backward)?_f64",
    r"((add_)?(rms|layer)|batch|group)_norm_f64",
    r"(add_(rms|layer)_norm_backward|batch_norm_(training|inference)|group_norm_channels_last|l2_normalize(_backward)?)_f64",
    # Plans of three directions launch these: tests/conv/test_plans.py.
    r"conv(_transpose)?_[123]d_.*",
    # The general forms behind conv1d, conv2d and conv3d.
    r"convolution_.*",
    # Plans launch these beside their own op.
    r"check_indices_.*",
    # Gradients of linear.
    r"linear_backward_.*",
    # The general forms behind the functions on arrays; fa2_sdpa is its _v2 without options.
    r"attention(_varlen)?(_backward)?_(f32|f16|bf16|f64)|fa2_sdpa_(f16|bf16)",
    r"(causal_conv1d|selective_scan)_general_.*|ssd_scan_.*|selective_state_update_.*",
    # The functions and plans of baracuda.random launch these: they count the numbers that they draw.
    r"random_.*|curand_.*|bernoulli|dropout(_seeded)?(_backward)?_(f32|f16|bf16|f64)",
    # argsort of any length has the plan of argsort; latent caches have a function; plans of int8 caches are tried by
    # tests/docs, since descriptors choose the element of a cache.
    r"argsort_.*_big|attention_paged_latent_.*|attention_paged_quantized_(f16|bf16)_i8|paged_kv_append_quantized_.*_i8",
    # Plans of products with GGUF blocks choose these by format; tests/quantize/test_mmvq_plans.py runs them.
    r"mmvq_.*",
    # The functions of baracuda.fft launch the first two; FftShiftNdPlan has shifts of one axis, too, and the functions
    # scale in the transform itself.
    r"fft_(cosine|convolve)_.*|i?fftshift_(4|8|16)|scale_inplace_.*",
    # The functions of baracuda.linalg launch these.
    r"linalg_(ormqr|householder_product|lu|ldl_factor|ldl_solve|solve_triangular|cholesky_solve|lu_solve)_[fc](32|64)",
    r"linalg_(det|slogdet|matrix_exp|matmul)_[fc](32|64)",
    # Steps of a fused linear cross entropy, for code that has a GEMM of its own.
    r"loss_flce_per_row_f64",
    r"loss_flce_(per_row_cast|inplace_scale|scalar_finalize|count_non_ignore).*",
}


def is_unused(op):
    return any(re.fullmatch(pattern, op) for pattern in UNUSED)


def descriptors(name):
    """Every function and dtype that the plan's descriptors can say, with as many parameters as it may take."""
    example = example_descriptor(name)
    fields = {field.name: field.metadata.get("enumeration") for field in dataclasses.fields(example)}
    choices = {
        "element": ELEMENTS,
        "params": [(1,), (1, 2)],
        "output_element": ELEMENTS,
        "kv_element": [bk.e4m3fn, bk.e5m2],
        "input_element": [bk.s8, bk.u8, bk.s4, bk.u4],
        "b_element": [bk.s8, bk.u8],
    }
    if name == "Nf4MmvqMultiM":
        choices["m"] = [1, 2, 4, 8]
    choices = {field: values for field, values in choices.items() if field in fields}
    choices |= {field: list(kind) for field, kind in fields.items() if kind is not None}
    for values in itertools.product(*choices.values()):
        yield dataclasses.replace(example, **dict(zip(choices, values)))


def views_for(plan, form, strided):
    """Operands of one form at made-up addresses, dense or with gaps between elements; None where there is none."""
    views = dict.fromkeys([operand.name for operand in plan.operands])
    epilogue = getattr(plan.descriptor, "epilogue", None)
    for k, operand in enumerate(plan.operands):
        if operand.name == "bias" and epilogue is not None and not epilogue.requires_bias:
            continue
        if kinds := form.kinds(operand.name):
            pointer = form.parameter(operand.name)
            has_gaps = strided and form.is_strided(pointer)
            strides = [2 * step for step in bk.contiguous_stride(operand.extents)] if has_gaps else None
            steps = form.strided.row.params if form.strided else ()
            has_rows = any(p.of == pointer.name and p.role == "pitch" for p in steps)
            if has_gaps and (has_rows or form.row.family == "attention"):
                strides[-1] = 1  # elements of a row are contiguous
            views[operand.name] = raw(operand.extents, kinds[-1], (k + 1) << 20, strides=strides)
    return views


def reached(name, library):
    """Ops that are launched for some descriptor and some operands."""
    plan_type = getattr(bk, f"{name}Plan")
    for descriptor in descriptors(name):
        kind = descriptor.mode if name == "DynamicRangeQuantize" else getattr(descriptor, "kind", None)
        output = getattr(descriptor, "output_element", getattr(descriptor, "input_element", None))
        if not plan_type.served(kind, descriptor.element, output):
            continue
        try:
            plan = plan_type.select(None, descriptor, library=library)
        except (bk.UnsupportedError, bk.InvalidProblemError):  # a function of another plan, or another number of params
            continue
        for form in plan._forms:
            for strided in (False, True) if form.strided else (False,):
                plan.run(None, (1 << 30, library.size), args_of(plan, **views_for(plan, form, strided)))
                yield library.launched()[0]


def test_every_op_is_reached():
    library = FakeLibrary()
    found = {op for name in PLANS for op in reached(name, library)}
    wanted = [op for name, op in ops().items() if not is_unused(name)]
    missing = collections.Counter(op.row.name for op in wanted if op.name not in found)
    assert not missing, "".join(f"\nno plan reaches {count} ops of the row [{row}]" for row, count in missing.items())
    assert found <= set(ops())
    assert not [op for op in found if is_unused(op)]


@pytest.mark.parametrize("pattern", sorted(UNUSED))
def test_exceptions_are_current(pattern):
    assert any(re.fullmatch(pattern, op) for op in ops())
