# SPDX-License-Identifier: Apache-2.0
"""The text of a conversation as a model expects it, by the chat template of its file.

Templates are Jinja programs: with the package jinja2 they run in its sandbox. Without it, templates of the ChatML form
(<|im_start|>role, text, <|im_end|>) are served by a few lines here. What messages say is guarded: a message that spells
a special token is plain text to the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baracuda.serve.errors import RequestError
from baracuda.serve.tokenizer import Tokenizer

Message = Mapping[str, Any]
ROLES = ("system", "user", "assistant", "tool", "developer")
# The system message that a ChatML template adds where the conversation has none.
_DEFAULT_SYSTEM = re.compile(r"<\|im_start\|>system(?:\\n|\n)([^'\"{}]*?)<\|im_end\|>")


class ChatTemplate:
    """Converts messages, each a mapping of `role` and `content`, into token ids."""

    def __init__(self, source: str | None, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._render = _jinja(source, tokenizer) if source else None
        if self._render is None and (source is None or "<|im_start|>" in source):
            system = _DEFAULT_SYSTEM.search(source or "")
            self._render = _chatml(system.group(1) if system else None)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation and of the beginning of the assistant's answer."""
        if self._render is None:
            raise RequestError("the chat template of this model needs the package jinja2", "messages")
        guarded = [{**message, "content": self._tokenizer.guard(message["content"])} for message in messages]
        return self._tokenizer.encode(self._render(guarded), specials=True)


def _chatml(default_system: str | None) -> Callable[[Sequence[Message]], str]:
    def render(messages: Sequence[Message]) -> str:
        before: list[Message] = []
        if default_system is not None and messages[0]["role"] != "system":
            before = [{"role": "system", "content": default_system}]
        rendered = [f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in [*before, *messages]]
        return "".join(rendered) + "<|im_start|>assistant\n"

    return render


def _jinja(source: str, tokenizer: Tokenizer) -> Callable[[Sequence[Message]], str] | None:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return None

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    texts = {number: text for text, number in tokenizer.specials.items()}
    ends = sorted(tokenizer.eos)
    tokens = {
        "bos_token": "" if tokenizer.bos is None else texts.get(tokenizer.bos, ""),
        "eos_token": texts.get(ends[0], "") if ends else "",
    }
    try:
        template = environment.from_string(source)
    except TemplateError:
        return None

    def render(messages: Sequence[Message]) -> str:
        try:
            return str(template.render(messages=messages, add_generation_prompt=True, **tokens))
        except TemplateError as error:
            raise RequestError(f"the model's chat template refuses the messages: {error}", "messages") from None

    return render
