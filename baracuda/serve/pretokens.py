# SPDX-License-Identifier: Apache-2.0
"""Pre-tokenisation: the pretokens of a text that byte pair encoding works on, by the rules of the models' tokenizers.

The rules are regular expressions with the Unicode classes L (letters), N (numbers) and White_Space, which Python's `re`
does not have; they are spelled out as ranges from unicodedata, once.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable

from baracuda.serve.errors import ModelFileError

SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # White_Space

# GPT-2 (Radford et al. 2019): contractions, words and numbers with the blank before them, punctuation, white space
# but for the blank that belongs to the next word.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+"
# Llama 3 and Qwen 2, with numbers of at most three digits and of one.
_LLAMA3 = (
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n{L}{N}]?[{L}]+|[{N}]{{1,%d}}"
    r"| ?[^{S}{L}{N}]+[\r\n]*|[{S}]*[\r\n]+|[{S}]+(?![^{S}])|[{S}]+"
)
DIGITS = r"[{N}]|[^{N}]+"  # every digit is a pretoken

# Rules by the names in GGUF's tokenizer.ggml.pre: each splits the pretokens of the rule before it.
RULES = {
    "default": (GPT2,), "gpt-2": (GPT2,), "smollm": (DIGITS, GPT2), "starcoder": (DIGITS, GPT2),
    "refact": (DIGITS, GPT2), "command-r": (DIGITS, GPT2), "codeshell": (DIGITS, GPT2),
    "llama-bpe": (_LLAMA3 % 3,), "llama3": (_LLAMA3 % 3,), "qwen2": (_LLAMA3 % 1,), "deepseek-r1-qwen": (_LLAMA3 % 1,),
}  # fmt: skip


def splitter(name: str) -> Callable[[str], list[str]]:
    """The function that splits a text by the rules of a name; the pretokens are the whole text."""
    if name not in RULES:
        raise ModelFileError(f"the pre-tokenizer {name!r} is not served, known are {', '.join(RULES)}")
    patterns = [_compiled(rule) for rule in RULES[name]]

    def split(text: str) -> list[str]:
        pretokens: Iterable[str] = [text]
        for pattern in patterns:
            pretokens = [found for pretoken in pretokens for found in pattern.findall(pretoken)]
        return list(pretokens)

    return split


@functools.cache
def _compiled(rule: str) -> re.Pattern[str]:
    letters, numbers = _classes()
    return re.compile(rule.format(L=letters, N=numbers, S=SPACE))


@functools.cache
def _classes() -> tuple[str, str]:
    """The letters and the numbers of Unicode, as ranges of a character class."""
    category = unicodedata.category
    ranges: dict[str, list[str]] = {"L": [], "N": []}
    begin, kind = 0, ""
    for point in range(sys.maxunicode + 2):
        found = category(chr(point))[0] if point <= sys.maxunicode else ""
        if found != kind:
            if kind in ranges:
                ranges[kind].append(f"{_escape(begin)}-{_escape(point - 1)}")
            begin, kind = point, found
    return "".join(ranges["L"]), "".join(ranges["N"])


def _escape(point: int) -> str:
    return f"\\U{point:08x}"
