# SPDX-License-Identifier: Apache-2.0
"""A byte-level tokenizer by byte pair encoding (Gage 1994; Sennrich, Haddow and Birch 2016).

Token t < 256 is the byte t; each later token is a pair of earlier ones, the most frequent pair of the text when it was
added. Pairs never cross the borders of chunks: words with a blank before them, numbers, punctuation, white space. Every
sequence of bytes has an encoding, and decodes to itself.
"""

from __future__ import annotations

import collections
import heapq
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

BYTES = 256
# The last blank before a word belongs to the word; every byte is in one chunk.
CHUNK = re.compile(rb" ?[A-Za-z\x80-\xff]+| ?[0-9]+| ?[^\sA-Za-z0-9\x80-\xff]+|\s+(?=\s)|\s+")
Pair = tuple[int, int]


class Tokenizer:
    """merges[k] is the pair that token 256 + k stands for."""

    def __init__(self, merges: Sequence[Pair]) -> None:
        self.merges = [(int(first), int(second)) for first, second in merges]
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self.tokens = [bytes([value]) for value in range(BYTES)]
        for first, second in self.merges:
            self.tokens.append(self.tokens[first] + self.tokens[second])
        self._known: dict[bytes, list[int]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
        found: list[int] = []
        for chunk in CHUNK.findall(text):
            tokens = self._known.get(chunk)
            if tokens is None:
                tokens = self._known[chunk] = self._encode_chunk(chunk)
            found += tokens
        return np.array(found, np.int64)

    def decode(self, tokens: Iterable[int]) -> bytes:
        return b"".join([self.tokens[token] for token in tokens])

    def _encode_chunk(self, chunk: bytes) -> list[int]:
        """Merge the pair that was added first, until none is known."""
        tokens = list(chunk)
        while len(tokens) > 1:
            rank, pair = min([(self._rank.get(pair, len(self.tokens)), pair) for pair in itertools.pairwise(tokens)])
            if pair not in self._rank:
                break
            tokens = _merged(tokens, pair, BYTES + rank)
        return tokens


def train_tokenizer(text: bytes, size: int) -> Tokenizer:
    """A tokenizer of at most `size` tokens. Of pairs that occur equally often the smallest is added first."""
    chunks = collections.Counter(CHUNK.findall(text))
    words = [(list(chunk), count) for chunk, count in chunks.items() if len(chunk) > 1]
    counts: dict[Pair, int] = collections.defaultdict(int)
    holders: dict[Pair, set[int]] = collections.defaultdict(set)  # words that had the pair when it was counted
    for k, (tokens, count) in enumerate(words):
        for pair in itertools.pairwise(tokens):
            counts[pair] += count
            holders[pair].add(k)
    queue = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(queue)
    merges: list[Pair] = []
    while queue and BYTES + len(merges) < size:
        negative, best = heapq.heappop(queue)
        if counts[best] != -negative:  # an old entry: the pair has another one
            continue
        if negative > -2:
            break
        token = BYTES + len(merges)
        merges.append(best)
        changed: set[Pair] = set()
        for k in holders.pop(best):
            tokens, count = words[k]
            made = _merged(tokens, best, token)
            if len(made) == len(tokens):
                continue
            for pair in itertools.pairwise(tokens):
                counts[pair] -= count
                changed.add(pair)
            for pair in itertools.pairwise(made):
                counts[pair] += count
                holders[pair].add(k)
                changed.add(pair)
            words[k] = (made, count)
        for pair in changed:
            if counts[pair] > 0:
                heapq.heappush(queue, (-counts[pair], pair))
    return Tokenizer(merges)


def _merged(tokens: list[int], pair: Pair, token: int) -> list[int]:
    """`tokens` with each pair replaced, from the left."""
    made: list[int] = []
    k, last = 0, len(tokens) - 1
    while k <= last:
        if k < last and tokens[k] == pair[0] and tokens[k + 1] == pair[1]:
            made.append(token)
            k += 2
        else:
            made.append(tokens[k])
            k += 1
    return made
