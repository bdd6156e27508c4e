# SPDX-License-Identifier: Apache-2.0
"""Byte-level byte pair encoding (Sennrich, Haddow and Birch 2016; bytes as GPT-2 writes them), from a model's metadata.

A text is cut at special tokens, then into pretokens by the rules of the model; of a pretoken's bytes the adjacent pair
with the lowest rank is merged until no pair is known. Bytes for which the model has no token are dropped. A text
from outside may spell special tokens: only `encode(..., specials=True)` takes them as such, and `guard` marks text that
it must leave alone.
"""

from __future__ import annotations

import codecs
import heapq
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from baracuda.serve.errors import ModelFileError
from baracuda.serve.pretokens import splitter

CONTROL, USER_DEFINED = 3, 4  # types of special tokens in GGUF
GUARD = "\ufdd0"  # a noncharacter, which texts do not have: it separates what must not be read as a special token
_KNOWN_PRETOKENS = 1 << 16  # of the cache


def byte_letters() -> list[str]:
    """The letter of each byte in the strings of tokens: itself if it is printable, else one from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


class Tokenizer:
    """`tokens` by id, as strings of byte letters; special tokens are plain text. `merges` are pairs in their order."""

    def __init__(
        self, tokens: Sequence[str], merges: Iterable[tuple[str, str]], specials: Iterable[int], rules: str,
        bos: int | None = None, eos: Iterable[int] = (), adds_bos: bool = False,
    ) -> None:  # fmt: skip
        self.ids = {token: number for number, token in enumerate(tokens)}
        self.specials = {tokens[number]: number for number in specials}
        self.special_ids = frozenset(self.specials.values())
        self.bos, self.eos, self.adds_bos = bos, frozenset(eos), adds_bos
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._letters = byte_letters()
        values = {letter: byte for byte, letter in enumerate(self._letters)}
        self.bytes = [
            token.encode() if number in self.special_ids or not all(letter in values for letter in token)
            else bytes([values[letter] for letter in token])
            for number, token in enumerate(tokens)
        ]  # fmt: skip
        self._split = splitter(rules)
        longest_first = sorted((text for text in self.specials if text), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._known: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.bytes)

    def encode(self, text: str, *, specials: bool = False) -> list[int]:
        """Token ids. With `specials`, texts of special tokens outside guarded text are those tokens."""
        found: list[int] = []
        at = 0
        if specials and self._special is not None:
            for match in self._special.finditer(text):
                self._encode_text(text[at : match.start()], found)
                found.append(self.specials[match.group()])
                at = match.end()
        self._encode_text(text[at:], found)
        return found

    def guard(self, text: str) -> str:
        """The text with marks within the special tokens that it spells, which `encode` then reads as plain text."""
        text = text.replace(GUARD, "")
        if self._special is None:
            return text
        while self._special.search(text):  # breaking one may leave a shorter one
            text = self._special.sub(lambda match: GUARD.join(match.group()), text)
        return text

    def decode(self, tokens: Iterable[int], *, specials: bool = False) -> str:
        """The text of tokens, without special ones unless they are asked for."""
        kept = [self.bytes[token] for token in tokens if specials or token not in self.special_ids]
        return b"".join(kept).decode("utf-8", "replace")

    def _encode_text(self, text: str, found: list[int]) -> None:
        for pretoken in self._split(text.replace(GUARD, "")):
            tokens = self._known.get(pretoken)
            if tokens is None:
                tokens = self._merge([self._letters[byte] for byte in pretoken.encode("utf-8", "replace")])
                if len(self._known) < _KNOWN_PRETOKENS:
                    self._known[pretoken] = tokens
            found += tokens

    def _merge(self, parts: list[str]) -> list[int]:
        """Merge the first pair of lowest rank until none is known: a heap of pairs over a list, O(n log n)."""
        n = len(parts)
        after = [*range(1, n), -1]
        before = list(range(-1, n - 1))
        pairs = itertools.pairwise(parts)
        heap = [(self.ranks[pair], at, pair) for at, pair in enumerate(pairs) if pair in self.ranks]
        heapq.heapify(heap)
        while heap:
            _, at, pair = heapq.heappop(heap)
            other = after[at]
            if other < 0 or (parts[at], parts[other]) != pair:  # one of them has been merged since
                continue
            parts[at], parts[other] = pair[0] + pair[1], ""
            after[at] = after[other]
            if after[at] >= 0:
                before[after[at]] = at
            for left, right in ((before[at], at), (at, after[at])):
                if left >= 0 and right >= 0:
                    formed = (parts[left], parts[right])
                    rank = self.ranks.get(formed, -1)
                    if rank >= 0:
                        heapq.heappush(heap, (rank, left, formed))
        return [self.ids[part] for part in parts if part and part in self.ids]


class TextStream:
    """Text from tokens as they come. Bytes of an unfinished character wait for the rest of it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        if token in self._tokenizer.special_ids:
            return ""
        return self._decoder.decode(self._tokenizer.bytes[token])

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


def from_gguf(metadata: dict[str, Any]) -> Tokenizer:
    """The tokenizer that a GGUF file describes."""
    model = metadata.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise ModelFileError(f"tokenizer.ggml.model is {model!r}, served is 'gpt2': byte-level byte pair encoding")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not tokens:
        raise ModelFileError("the file has no tokenizer.ggml.tokens")
    types = metadata.get("tokenizer.ggml.token_type", [])
    merges = [
        (first, second) for first, _, second in (m.partition(" ") for m in metadata.get("tokenizer.ggml.merges", []))
    ]
    specials = [number for number, kind in enumerate(types) if kind in (CONTROL, USER_DEFINED)]
    names = [f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom")]
    ends = [int(metadata[name]) for name in names if name in metadata]
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    for number in [*ends, *([] if bos is None else [bos])]:
        if not 0 <= number < len(tokens):
            raise ModelFileError(f"the special token {number} is not below {len(tokens)}, the number of tokens")
    return Tokenizer(
        tokens, merges, specials, metadata.get("tokenizer.ggml.pre", "default"), bos, ends,
        bool(metadata.get("tokenizer.ggml.add_bos_token", False)),
    )  # fmt: skip
