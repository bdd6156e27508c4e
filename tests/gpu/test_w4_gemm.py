# SPDX-License-Identifier: Apache-2.0
"""GEMM of many rows by 4-bit weights, which warpgroups compute on the chips that have them
(native/gemm/sm90/w4_sm90a.cu): tiles of 64 and 128 rows, one block and clusters of two, N and K that are not whole
tiles and stages."""

import pytest
from gpu_tools import right_on_two_streams

from cases import Draw
from cases.gemm.weights import awq, marlin
from harness import OPS

MARLIN, AWQ = "int4_marlin_gemm_f16", "int4_awq_gemm_f16"
FORMS = {  # K and the group size; a stage has K = 128
    (MARLIN, "groups"): lambda d, m, n: marlin(d, m, n, 1152),
    (MARLIN, "columns"): lambda d, m, n: marlin(d, m, n, 1040, -1),
    (MARLIN, "one_stage"): lambda d, m, n: marlin(d, m, n, 128),
    (AWQ, "groups"): lambda d, m, n: awq(d, m, n, 1152),
    (AWQ, "halves"): lambda d, m, n: awq(d, m, n, 1088, 64),
    (AWQ, "one_stage"): lambda d, m, n: awq(d, m, n, 128),
}
ROWS = (17, 64, 65, 200, 512)
SIZES = [(m, n) for m in ROWS for n in (192, 320)]  # two and three tiles of columns, the last one half
# Tiles of 128 rows: of one block, of two, and more than there are blocks.
SIZES += [(200, 4416), (512, 2240), (1100, 2240)]


@pytest.mark.parametrize(("m", "n"), SIZES)
@pytest.mark.parametrize(("op", "form"), FORMS)
def test_gemm(library, op, form, m, n):
    right_on_two_streams(library, op, FORMS[op, form](Draw(OPS[op][1], f"{op} {form} {m} {n}"), m, n))
