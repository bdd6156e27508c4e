# SPDX-License-Identifier: Apache-2.0
"""The HTTP server, by OpenAI's own client and by httpx, on the loopback interface."""

import concurrent.futures
import json
import time

import httpx
import openai
import pytest

from baracuda.serve.http import MAX_BODY
from harness.serving import serving

MODEL = "tiny-model"
HELLO = [{"role": "user", "content": "the hand in the land"}]
GREEDY = {"temperature": 0, "extra_body": {"ignore_eos": True}}


@pytest.fixture
def address(make_engine):
    with serving(make_engine(batch_invariant=True)) as url:
        yield url


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "baracuda"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_a_stream_is_the_answer(client):
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=24, **GREEDY)
    choice = whole.choices[0]
    assert (choice.finish_reason, choice.message.role, choice.index) == ("length", "assistant", 0)
    assert whole.usage.completion_tokens == 24
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 24
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=HELLO, max_tokens=24, stream=True, stream_options={"include_usage": True}, **GREEDY
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == choice.message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert chunks[-1].usage.completion_tokens == 24
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


def test_choices_prompts_and_seeds(client):
    given = {"model": MODEL, "prompt": ["the ", [50, 60, 70]], "max_tokens": 8, "n": 2, "seed": 5}
    first, again = (client.completions.create(**given, extra_body={"ignore_eos": True}) for _ in range(2))
    assert [choice.index for choice in first.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in first.choices] == [choice.text for choice in again.choices]
    assert first.choices[0].text != first.choices[1].text
    assert first.usage.completion_tokens == 32


def test_logprobs_and_echo(client):
    chat = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=2, **GREEDY
    )
    content = chat.choices[0].logprobs.content
    assert [len(each.top_logprobs) for each in content] == [2, 2, 2]
    assert all(each.token == each.top_logprobs[0].token and each.logprob <= 0 for each in content)
    plain = client.completions.create(model=MODEL, prompt="in the", max_tokens=3, logprobs=1, **GREEDY)
    assert len(plain.choices[0].logprobs.token_logprobs) == 3
    echoed = client.completions.create(model=MODEL, prompt="in the", max_tokens=3, echo=True, **GREEDY)
    assert echoed.choices[0].text == "in the" + plain.choices[0].text
    parts = client.completions.create(model=MODEL, prompt="in the", max_tokens=3, echo=True, stream=True, **GREEDY)
    assert "".join(part.choices[0].text for part in parts) == echoed.choices[0].text


def test_stop_strings(client):
    text = client.completions.create(model=MODEL, prompt="and", max_tokens=20, **GREEDY).choices[0].text
    stop = text[6:8]
    choice = client.completions.create(model=MODEL, prompt="and", max_tokens=20, stop=stop, **GREEDY).choices[0]
    assert (choice.text, choice.finish_reason) == (text[: text.index(stop)], "stop")


def test_many_clients_get_what_one_gets(client):
    """32 requests at once have the answers that each has alone."""

    def ask(number):
        return client.completions.create(
            model=MODEL, prompt=f"the {number} hands", max_tokens=6 + number % 5, seed=number,
            extra_body={"ignore_eos": True},
        ).choices[0].text  # fmt: skip

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        together = list(pool.map(ask, range(32)))
    assert together == [ask(number) for number in range(32)]


CHAT_ERRORS = {
    "temperature": {"temperature": -1}, "top_p": {"top_p": 2}, "max_tokens": {"max_tokens": 100_000},
    "max_completion_tokens": {"max_completion_tokens": "many"}, "n": {"n": 0}, "stop": {"stop": [1]},
    "tools": {"tools": [{"type": "function"}]}, "response_format": {"response_format": {"type": "json_object"}},
    "top_logprobs": {"top_logprobs": 1}, "logit_bias": {"logit_bias": {"x": 1}}, "seed": {"seed": 1.5},
    "stream": {"stream": "yes"}, "stream_options": {"stream_options": {"include_usage": True}},
    "unheard_of": {"unheard_of": 1}, "messages": {"messages": []}, "messages[0]": {"messages": ["hi"]},
    "messages[0].role": {"messages": [{"role": "king", "content": ""}]},
    "messages[0].content": {"messages": [{"role": "user", "content": 1}]},
    "messages[0].content[0]": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    "top_k": {"top_k": True}, "min_p": {"min_p": 2}, "repetition_penalty": {"repetition_penalty": 0},
}  # fmt: skip


def test_wrong_chats_name_the_field(address):
    for parameter, fields in CHAT_ERRORS.items():
        response = httpx.post(f"{address}/v1/chat/completions", json={"messages": HELLO, "max_tokens": 2} | fields)
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, parameter), error
        assert error["type"] == "invalid_request_error"
        assert parameter in error["message"]


def test_wrong_completions_name_the_field(address):
    cases = {
        "prompt": [{}, {"prompt": []}, {"prompt": [[1.5]]}, {"prompt": [10**6]}, {"prompt": ""}],
        "suffix": [{"prompt": "a", "suffix": "b"}], "best_of": [{"prompt": "a", "best_of": 3}],
        "echo": [{"prompt": ["a", "b"], "echo": True}], "n": [{"prompt": ["a"] * 40, "n": 2}],
        "logprobs": [{"prompt": "a", "logprobs": 100}], "logit_bias": [{"prompt": "a", "logit_bias": {"999999": 1}}],
    }  # fmt: skip
    for parameter, bodies in cases.items():
        for body in bodies:
            response = httpx.post(f"{address}/v1/completions", json=body)
            assert (response.status_code, response.json()["error"]["param"]) == (400, parameter), response.text


def test_wrong_bodies_and_paths(address):
    for content in (b"", b"{", b"[1]", b"[" * 100_000, b"\xff"):
        response = httpx.post(f"{address}/v1/completions", content=content)
        assert (response.status_code, response.json()["error"]["param"]) == (400, None)
    response = httpx.post(f"{address}/v1/completions", content=b" " * (MAX_BODY + 1))
    assert response.status_code == 400
    assert httpx.get(f"{address}/v1/nothing").status_code == 404
    assert httpx.get(f"{address}/v1/completions").status_code == 405
    response = httpx.post(f"{address}/v1/completions", json={"model": "gpt-4", "prompt": "a"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def wait_until_idle(address):
    for _ in range(500):
        state = httpx.get(f"{address}/health").json()
        if not state["running"] and not state["waiting"]:
            return state
        time.sleep(0.02)
    raise AssertionError(f"the server is still busy: {state}")


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
def test_a_client_that_leaves_frees_its_pages(path, address):
    body = {"max_tokens": 200, "ignore_eos": True} | (
        {"prompt": "the"} if path == "completions" else {"messages": HELLO}
    )
    with httpx.stream("POST", f"{address}/v1/{path}", json=body | {"stream": True}) as response:
        lines = response.iter_lines()
        assert json.loads(next(lines).removeprefix("data: "))["choices"]
        assert httpx.get(f"{address}/health").json()["used_pages"] > 0
    assert wait_until_idle(address)["used_pages"] == 0
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/v1/{path}", json=body, timeout=0.05)
    assert wait_until_idle(address)["used_pages"] == 0


def test_more_clients_than_memory_are_all_served(make_engine):
    with serving(make_engine(cache_tokens=96)) as address, httpx.Client(timeout=60) as client:

        def ask(number):
            body = {"prompt": f"request {number} of the", "max_tokens": 40, "ignore_eos": True}
            return client.post(f"{address}/v1/completions", json=body).json()["usage"]["completion_tokens"]

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            assert list(pool.map(ask, range(16))) == [40] * 16


def test_a_failure_of_a_step_ends_its_requests_alone(make_engine, monkeypatch):
    engine = make_engine()
    with serving(engine) as address:
        step = engine.scheduler.step
        monkeypatch.setattr(engine.scheduler, "step", lambda: 1 / 0)
        response = httpx.post(f"{address}/v1/completions", json={"prompt": "the", "max_tokens": 3})
        assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
        assert "ZeroDivisionError" in response.json()["error"]["message"]
        with httpx.stream("POST", f"{address}/v1/completions", json={"prompt": "the", "stream": True}) as stream:
            assert "ZeroDivisionError" in stream.read().decode()
        monkeypatch.setattr(engine.scheduler, "step", step)
        assert httpx.post(f"{address}/v1/completions", json={"prompt": "the", "max_tokens": 3}).status_code == 200


def test_a_server_with_too_many_waiting_says_so(make_engine, monkeypatch):
    monkeypatch.setattr("baracuda.serve.engine.MAX_WAITING", 1)
    with serving(make_engine()) as address:
        response = httpx.post(f"{address}/v1/completions", json={"prompt": "the", "n": 2})
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
