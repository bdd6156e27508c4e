# SPDX-License-Identifier: Apache-2.0
"""Philox against the vectors that its authors published (Random123, kat_vectors), in the oracle and in C++."""

import subprocess

import numpy as np
import pytest

from harness.launch import ROOT
from tools.oracle.philox import blocks, uniform

KNOWN = {  # counter, key: words
    ((0,) * 4, (0,) * 2): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)): (
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1,
    ),
}  # fmt: skip
PROGRAM = """
#include <cstdio>
#include "core/random/philox.h"

int main() {
    unsigned long long c[2], k;
    while (std::scanf("%llx %llx %llx", &k, &c[0], &c[1]) == 3) {
        const bk::PhiloxBlock b = bk::philox_block(k, c[0], c[1]);
        std::printf("%x %x %x %x\\n", b.word[0], b.word[1], b.word[2], b.word[3]);
    }
}
"""


@pytest.mark.parametrize("known", KNOWN)
def test_the_oracle_has_the_published_words(known):
    counter, key = known
    assert tuple(blocks(key, np.array([counter], np.uint64))[0]) == KNOWN[known]


def test_the_kernels_generator_has_the_published_words(tmp_path):
    source, program = tmp_path / "philox.cpp", tmp_path / "philox"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-std=c++17", "-O1", "-I", ROOT / "native", source, "-o", program], check=True)
    wide = [[low | high << 32 for low, high in zip(words[::2], words[1::2])] for c, k in KNOWN for words in [(*k, *c)]]
    given = "\n".join(" ".join(f"{word:x}" for word in line) for line in wide)
    found = subprocess.run([program], input=given, capture_output=True, text=True, check=True).stdout.split("\n")
    assert [tuple(int(w, 16) for w in line.split()) for line in found if line] == list(KNOWN.values())


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_uniform_numbers_do_not_depend_on_where_a_call_begins(dtype):
    whole = uniform(5, 0, 64, dtype)
    assert np.all((whole > 0) & (whole < 1)) and abs(whole.mean() - 0.5) < 0.15
    for offset in range(7):
        np.testing.assert_array_equal(uniform(5, offset, 20, dtype), whole[offset : offset + 20])
