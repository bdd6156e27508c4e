# SPDX-License-Identifier: Apache-2.0
"""Gated GEMM whose activation is nearly 0 and whose gate lifts it back into the range."""

import math

import numpy as np
import pytest

from cases import Draw
from cases.gemm.epilogue import WITHOUT_Z, gated
from cases.gemm.gemm import ACTIVATIONS
from harness import OPS, launch
from tools.oracle.numerics import round_to

GELU, SILU, GELU_TANH = 2, 3, 4  # the C ABI's values of activations
NAMES = {GELU: "gelu", SILU: "silu", GELU_TANH: "gelu_tanh"}
# Arguments where e^-x of the activation falls from 2^-90 to below the smallest number of f32, and beyond.
ARGUMENTS = {
    GELU: -np.linspace(11.0, 16.0, 321), SILU: -np.linspace(62.0, 130.0, 545), GELU_TANH: -np.linspace(8.5, 12.0, 225),
}  # fmt: skip
GATE, LEAST = 2.0**100, 2.0**-149  # of f32, the least


@pytest.mark.parametrize("activation", NAMES, ids=NAMES.values())
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_gates_lift_activations(library, dtype, activation):
    """With K = 1 the sums are the arguments and the gates themselves, so an activation must be as exact as f32."""
    op = f"gemm_gated_{dtype}"
    z = round_to(ARGUMENTS[activation], dtype)
    draw = Draw(OPS[op][1], op)
    problem = gated(draw, 1, z.size, 1, layout=1, activation=activation, alpha=1.0, null=(*WITHOUT_Z, "bias1", "bias2"))
    problem.arrays["a"].values = np.ones((1, 1))
    problem.arrays["b1"].values = z[:, None]
    problem.arrays["b2"].values = np.full((z.size, 1), GATE)
    outcome = launch(library, op, problem)
    assert outcome.status == 0, outcome.text
    if activation == GELU:  # 1 + erf would cancel
        factor = np.array([0.5 * x * math.erfc(-x / math.sqrt(2)) for x in z])
    elif activation == GELU_TANH:
        factor = z * np.exp(2 * math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))  # the logistic function here
    else:
        factor = ACTIVATIONS["silu"](z)
    allowed = np.abs(factor * GATE) * (2.0**-8 if dtype == "bf16" else 2.0**-19) + LEAST * GATE
    error = np.abs(outcome.values("d")[0].astype(float) - factor * GATE)
    worst = int(np.argmax(error / allowed))
    assert error[worst] <= allowed[worst], (
        f"z = {z[worst]}: {outcome.values('d')[0][worst]}, not {factor[worst] * GATE}"
    )
