# SPDX-License-Identifier: Apache-2.0
"""Requests of OpenAI's API as prompts and options, and answers as it has them.

Beyond that API a request may have top_k, min_p, repetition_penalty and ignore_eos. Fields that are not served, and
fields that nobody knows, are errors that name them.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
import uuid
from collections.abc import Sequence
from typing import Any

from baracuda.serve.chat import ROLES, ChatTemplate
from baracuda.serve.errors import RequestError
from baracuda.serve.fields import Fields
from baracuda.serve.request import MAX_LOGPROBS, Logprob, Options
from baracuda.serve.tokenizer import Tokenizer

MAX_CHOICES = 64  # of a request
COMPLETION_TOKENS = 16  # of /v1/completions, where max_tokens is not given
# Fields without effect on the answer.
IGNORED = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})


@dataclasses.dataclass(frozen=True)
class Job:
    """A request of the API: every prompt is answered `choices` times."""

    prompts: list[list[int]]
    options: Options
    choices: int
    is_chat: bool
    streams: bool
    has_usage: bool  # in a stream
    echo: str | None = None  # what each answer begins with; of one prompt
    id: str = ""
    created: int = 0

    @property
    def requests(self) -> list[tuple[list[int], Options]]:
        """Prompt and options of each choice; the seeds of a prompt's choices follow each other."""
        return [
            (prompt, dataclasses.replace(self.options, seed=(self.options.seed + number) % 2**63))
            for prompt in self.prompts
            for number in range(self.choices)
        ]


def chat_job(body: Any, template: ChatTemplate, names: Sequence[str], longest: int) -> Job:
    """`longest` is the number of tokens of prompt and answer together that fit."""
    fields = Fields(body)
    _check_model(fields, names)
    prompt = template.encode(_messages(fields.take("messages")))
    for name, allowed in {
        "tools": ([],), "tool_choice": ("none", "auto"), "functions": ([],), "modalities": (["text"],),
        "response_format": ({"type": "text"},), "audio": (), "prediction": (), "reasoning_effort": (),
        "parallel_tool_calls": (True, False), "web_search_options": (),
    }.items():  # fmt: skip
        fields.refuse(name, *allowed)
    wants, top = fields.flag("logprobs"), fields.integer("top_logprobs")
    if top is not None and not wants:
        raise RequestError("top_logprobs needs logprobs to be true", "top_logprobs")
    if top is not None and not 0 <= top <= MAX_LOGPROBS:
        raise RequestError(f"top_logprobs is {top}, must be within 0 and {MAX_LOGPROBS}", "top_logprobs")
    tokens = fields.integer("max_completion_tokens")
    tokens = fields.integer("max_tokens", tokens)
    default = max(1, longest - len(prompt))
    return _job(fields, [prompt], default if tokens is None else tokens, (top or 0) if wants else None, is_chat=True)


def completion_job(body: Any, tokenizer: Tokenizer, names: Sequence[str]) -> Job:
    fields = Fields(body)
    _check_model(fields, names)
    given = fields.take("prompt")
    prompts = _prompts(given, tokenizer)
    for name, allowed in {"suffix": ("",), "best_of": (1,)}.items():
        fields.refuse(name, *allowed)
    echoes = fields.flag("echo")
    tokens, logprobs = fields.integer("max_tokens", COMPLETION_TOKENS), fields.integer("logprobs")
    if echoes and (len(prompts) > 1 or logprobs is not None):
        raise RequestError("echo is served for one prompt and without logprobs", "echo")
    echo = (given if isinstance(given, str) else tokenizer.decode(prompts[0], specials=True)) if echoes else None
    return _job(fields, prompts, tokens or 0, logprobs, is_chat=False, echo=echo)


def _job(
    fields: Fields, prompts: list[list[int]], tokens: int, logprobs: int | None, *, is_chat: bool,
    echo: str | None = None,
) -> Job:  # fmt: skip
    choices = fields.integer("n", 1) or 0
    if not 1 <= choices <= MAX_CHOICES or choices * len(prompts) > MAX_CHOICES:
        raise RequestError(f"n is {choices} for {len(prompts)} prompts, their product must be 1 to {MAX_CHOICES}", "n")
    seed = fields.integer("seed")
    stop = fields.take("stop")
    if stop is not None and not isinstance(stop, str) and not _is_list_of(stop, str):
        raise RequestError("stop must be a string or an array of strings", "stop")
    options = Options(
        max_tokens=tokens, temperature=fields.real("temperature", 1.0), top_p=fields.real("top_p", 1.0),
        top_k=fields.integer("top_k", 0) or 0, min_p=fields.real("min_p", 0.0),
        seed=secrets.randbits(62) if seed is None else seed,
        repetition_penalty=fields.real("repetition_penalty", 1.0),
        frequency_penalty=fields.real("frequency_penalty", 0.0),
        presence_penalty=fields.real("presence_penalty", 0.0), logit_bias=_biases(fields.mapping("logit_bias")),
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()), ignore_eos=fields.flag("ignore_eos"),
        logprobs=logprobs,
    )  # fmt: skip
    streams, extras = fields.flag("stream"), fields.mapping("stream_options")
    if extras and not streams:
        raise RequestError("stream_options needs stream to be true", "stream_options")
    fields.finish(IGNORED)
    kind = "chatcmpl" if is_chat else "cmpl"
    return Job(
        prompts, options, choices, is_chat, streams, bool(extras.get("include_usage")), echo,
        f"{kind}-{uuid.uuid4().hex}", int(time.time()),
    )  # fmt: skip


class UnknownModelError(RequestError):
    """A request for a model that is not served here."""


def _check_model(fields: Fields, names: Sequence[str]) -> None:
    name = fields.string("model")
    if name is not None and name not in names:
        raise UnknownModelError(f"the model {name!r} does not exist, served is {names[0]!r}", "model")


def _messages(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not given:
        raise RequestError("messages must be an array of one message or more", "messages")
    messages = []
    for number, message in enumerate(given):
        where = f"messages[{number}]"
        if not isinstance(message, dict):
            raise RequestError(f"{where} must be an object", where)
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise RequestError(f"{where}.role is {role!r}, must be one of {', '.join(ROLES)}", f"{where}.role")
        if isinstance(content, list):
            content = "".join([_text_part(part, f"{where}.content[{k}]") for k, part in enumerate(content)])
        if not isinstance(content, str):
            raise RequestError(f"{where}.content must be a string or an array of text parts", f"{where}.content")
        messages.append({"role": "system" if role == "developer" else role, "content": content})
    return messages


def _text_part(part: Any, where: str) -> str:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise RequestError(f"{where} must be {{'type': 'text', 'text': ...}}: this model reads text alone", where)
    return str(part["text"])


def _prompts(given: Any, tokenizer: Tokenizer) -> list[list[int]]:
    """A string, token ids, or an array of either."""
    if isinstance(given, str) or _is_list_of(given, int):
        given = [given]
    if not isinstance(given, list) or not given:
        raise RequestError("prompt must be a string, an array of token ids, or an array of these", "prompt")
    prompts = []
    for each in given:
        if isinstance(each, str):
            bos = [tokenizer.bos] if tokenizer.adds_bos and tokenizer.bos is not None else []
            prompts.append(bos + tokenizer.encode(each))
        elif _is_list_of(each, int):
            outside = [token for token in each if not 0 <= token < len(tokenizer)]
            if outside:
                raise RequestError(f"prompt has token {outside[0]}, must be below {len(tokenizer)}", "prompt")
            prompts.append(list(each))
        else:
            raise RequestError("prompt must be a string, an array of token ids, or an array of these", "prompt")
    return prompts


def _biases(given: dict[str, Any]) -> tuple[tuple[int, float], ...]:
    found = []
    for token, bias in given.items():
        if not token.isdecimal() or isinstance(bias, bool) or not isinstance(bias, (int, float)):
            raise RequestError(f"logit_bias has {token!r}: {bias!r}, must map token ids to numbers", "logit_bias")
        found.append((min(int(token), 2**31 - 1), float(bias)))
    return tuple(found)


def _is_list_of(given: Any, kind: type) -> bool:
    return isinstance(given, list) and bool(given) and all(type(each) is kind for each in given)


# --- answers ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Answer:
    """One choice as it grows."""

    text: str = ""
    tokens: int = 0
    logprobs: list[Logprob] = dataclasses.field(default_factory=list)
    finish: str | None = None


def usage(job: Job, answers: Sequence[Answer], reused: int) -> dict[str, Any]:
    prompt, completion = sum(map(len, job.prompts)), sum([answer.tokens for answer in answers])
    return {
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": reused},
    }  # fmt: skip


def whole(job: Job, name: str, answers: Sequence[Answer], reused: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """The answer in one object."""
    choices = []
    for index, answer in enumerate(answers):
        logprobs = None if job.options.logprobs is None else _logprobs(job, answer.logprobs, tokenizer)
        said = {"message": {"role": "assistant", "content": answer.text}} if job.is_chat else {"text": answer.text}
        choices.append({"index": index, **said, "logprobs": logprobs, "finish_reason": answer.finish})
    return _object(job, name, choices, False) | {"usage": usage(job, answers, reused)}


def chunk(
    job: Job, name: str, index: int, text: str, tokenizer: Tokenizer, *, is_first: bool = False,
    logprobs: Sequence[Logprob] = (), finish: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A part of a streamed answer."""
    listed = None if job.options.logprobs is None else _logprobs(job, logprobs, tokenizer)
    said: dict[str, Any] = {"text": text}
    if job.is_chat:
        role = {"role": "assistant"} if is_first else {}
        said = {"delta": role | ({"content": text} if text or is_first else {})}
    return _object(job, name, [{"index": index, **said, "logprobs": listed, "finish_reason": finish}], True)


def usage_chunk(job: Job, name: str, answers: Sequence[Answer], reused: int) -> dict[str, Any]:
    return _object(job, name, [], True) | {"usage": usage(job, answers, reused)}


def _object(job: Job, name: str, choices: list[dict[str, Any]], is_chunk: bool) -> dict[str, Any]:
    kind = ("chat.completion.chunk" if is_chunk else "chat.completion") if job.is_chat else "text_completion"
    return {"id": job.id, "object": kind, "created": job.created, "model": name, "choices": choices}


def _logprobs(job: Job, given: Sequence[Logprob], tokenizer: Tokenizer) -> dict[str, Any]:
    def text(token: int) -> str:
        return tokenizer.bytes[token].decode("utf-8", "replace")

    def entry(token: int, logprob: float) -> dict[str, Any]:
        return {"token": text(token), "logprob": logprob, "bytes": list(tokenizer.bytes[token])}

    if job.is_chat:
        return {
            "content": [
                entry(each.token, each.logprob) | {"top_logprobs": [entry(*alternative) for alternative in each.top]}
                for each in given
            ]
        }
    return {
        "tokens": [text(each.token) for each in given],
        "token_logprobs": [each.logprob for each in given],
        "top_logprobs": [{text(token): logprob for token, logprob in each.top} for each in given],
    }
