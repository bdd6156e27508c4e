# SPDX-License-Identifier: Apache-2.0
"""Copies of rows around the two limits between which the CPU library copies them block by block."""

import pytest

from cases.shape_layout import concat, repeat
from harness.on_threads import check_on_threads

BYTES = [508, 512, 516, 572, 576, 2000, 8188, 8192, 8196]


@pytest.mark.parametrize("row", BYTES)
def test_rows_of_one_array(library, set_threads, row):
    check_on_threads(library, set_threads, "repeat_f32", repeat.repeat, (7, row // 4), (21, row // 2))


@pytest.mark.parametrize("row", BYTES)
def test_rows_of_two_arrays(library, set_threads, row):
    columns = row // 2
    check_on_threads(library, set_threads, "concat2_bf16", concat.concat, (9, columns + 300), 1, columns)
