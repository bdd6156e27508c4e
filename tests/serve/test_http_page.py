# SPDX-License-Identifier: Apache-2.0
"""The page that talks to the model, in a browser."""

import shutil

import httpx
import pytest

from harness.serving import serving
from tools.docs.browser import opened

SEND = "document.getElementById('text').value = {!r}; document.getElementById('form').requestSubmit()"
ANSWER = "document.querySelector('#log p:nth-child({}).assistant')?.textContent"
IDLE = "document.getElementById('stop').hidden"


@pytest.fixture
def page(make_engine):
    """The page, and the address of its server."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with serving(make_engine()) as address, opened(program) as browser:
        page = browser.page()
        page.goto(f"{address}/?max_tokens=30&seed=3")
        assert page.until("document.getElementById('model').textContent == 'tiny-model'")
        yield page, address


def test_a_conversation_streams(page):
    page, _ = page
    page.value(SEND.format("the hand"))
    assert page.until(f"{ANSWER.format(2)}?.length > 3")
    assert page.until(IDLE)
    page.value(SEND.format("and in"))
    assert page.until(f"{ANSWER.format(4)}?.length > 3 && {IDLE}")
    assert page.value("document.querySelectorAll('#log .error').length") == 0
    assert page.value("messages.map(each => each.role)") == ["user", "assistant"] * 2
    assert page.value(f"messages[1].content == {ANSWER.format(2)}")


def test_stopping_frees_the_pages(page):
    page, address = page
    page.value("options.max_tokens = 200")
    page.value(SEND.format("the"))
    assert page.until(f"!{IDLE} && {ANSWER.format(2)}?.length > 0")
    page.value("document.getElementById('stop').click()")
    assert page.until(IDLE)
    assert any(httpx.get(f"{address}/health").json()["used_pages"] == 0 for _ in range(500))


def test_errors_are_shown(page):
    page, _ = page
    page.value(SEND.format("the " * 3000))
    assert page.until("document.querySelector('#log .error')?.textContent.includes('max_tokens')")


def test_answers_are_text(page):
    """The text of a message is never markup."""
    page, _ = page
    page.value(SEND.format("<img src=x onerror='window.broken = 1'>"))
    assert page.until(f"{ANSWER.format(2)}?.length > 0 && {IDLE}")
    assert page.value("document.querySelectorAll('#log img').length") == 0
    assert page.value("document.querySelector('#log .user').textContent").startswith("<img")
