# SPDX-License-Identifier: Apache-2.0
"""The byte-level tokenizer."""

import collections
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baracuda.demo.tokenizer import BYTES, CHUNK, Tokenizer, train_tokenizer

TEXT = b"low lower lowest newer newest wider\n" * 3 + "größte, naïve 12 1234 (x==y)\r\n\t\n".encode()
TRAINED = train_tokenizer(TEXT, 300)


@given(st.binary(max_size=200) | st.text(alphabet="lowernst \n\t12ö", max_size=80).map(str.encode))
def test_decodes_to_what_was_encoded(data):
    assert TRAINED.decode(TRAINED.encode(data)) == data
    assert b"".join(CHUNK.findall(data)) == data


def test_every_byte_has_a_token():
    data = bytes(range(256))
    assert Tokenizer([]).encode(data).tolist() == list(range(256))
    assert TRAINED.decode(range(256)) == data


def test_merges_are_the_most_frequent_pairs():
    """Each merge is a most frequent pair of what the merges before it leave."""
    for number, merge in enumerate(TRAINED.merges):
        before = Tokenizer(TRAINED.merges[:number])
        pairs = collections.Counter()
        for chunk in CHUNK.findall(TEXT):
            tokens = before.encode(chunk).tolist()
            pairs.update(itertools.pairwise(tokens))
        assert pairs[merge] == max(pairs.values())
        assert merge == min(pair for pair, count in pairs.items() if count == pairs[merge])


def test_training_stops_where_no_pair_repeats():
    assert len(train_tokenizer(b"abc", 1000)) == BYTES
    assert len(train_tokenizer(b"", 1000)) == BYTES
    assert train_tokenizer(b"aaaa aaaa", 1000).decode([BYTES]) == b"aa"


@pytest.mark.parametrize("size", [256, 257, 270])
def test_the_size_is_a_limit(size):
    assert len(train_tokenizer(TEXT, size)) == size
