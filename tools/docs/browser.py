# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, driven by its DevTools protocol over two pipes, with the standard library only."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any


class BrowserError(RuntimeError):
    pass


class Page:
    """One tab. `events` collects its events until they are taken."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, params, self)

    def goto(self, url: str, seconds: float = 60.0) -> None:
        """Loads a page and waits for its resources."""
        self.value("window.left = true")
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        if not self.until("!window.left && document.readyState == 'complete'", seconds):
            raise BrowserError(f"{url}: not loaded within {seconds:g} seconds")

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 30.0) -> bool:
        """Waits for an expression to become true; False after the timeout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(BrowserError):  # the page is being unloaded
                if self.value(f"Boolean({expression})"):
                    return True
            time.sleep(0.05)
        return False

    def window(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def scheme(self, name: str) -> None:
        """Sets the preferred colour scheme: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def forget(self, origin: str) -> None:
        """Leaves the page, then clears the origin's storage, which pages also write on unload."""
        self.call("Page.navigate", url="about:blank")
        self.until("location.href == 'about:blank'")
        self.call("Storage.clearDataForOrigin", origin=origin, storageTypes="local_storage")

    def screenshot(self) -> bytes:
        """Screenshot of the window as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def taken(self, method: str) -> Iterator[dict[str, Any]]:
        """Takes the events of a name and returns their parameters."""
        found = [event for event in self.events if event["method"] == method]
        self.events = [event for event in self.events if event["method"] != method]
        return (event["params"] for event in found)


class Browser:
    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive, self._number, self._received = send, receive, 0, b""
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        return page

    def call(self, method: str, params: dict[str, Any], page: Page | None = None) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if page is not None:
            message["sessionId"] = page.session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer and answer.get("sessionId") in self._pages:
                self._pages[answer["sessionId"]].events.append(answer)

    def _next(self, method: str) -> dict[str, Any]:
        while b"\0" not in self._received:
            if not select.select([self._receive], [], [], 120)[0]:
                raise BrowserError(f"{method}: no answer within two minutes")
            data = os.read(self._receive, 1 << 20)
            if not data:
                raise BrowserError(f"{method}: the browser has ended")
            self._received += data
        text, self._received = self._received.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message


@contextlib.contextmanager
def opened(program: str) -> Iterator[Browser]:
    """A browser with a temporary profile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, contextlib.ExitStack() as stack:
        there, to_it = os.pipe()
        from_it, here = os.pipe()
        for end in (to_it, from_it):
            stack.callback(os.close, end)
        command = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(
            command,
            preexec_fn=_as_3_and_4(there, here),
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(here)
        browser = Browser(to_it, from_it)
        try:
            yield browser
        finally:
            with contextlib.suppress(BrowserError, OSError):
                browser.call("Browser.close", {})
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _as_3_and_4(read: int, write: int) -> Callable[[], None]:
    """Maps the pipes to the file descriptors that Chromium reads and writes."""

    def move() -> None:
        high = os.dup(read), os.dup(write)  # neither may be overwritten while it is needed
        spare = [os.dup2(each, 100 + i) for i, each in enumerate(high)]
        for i, each in enumerate(spare):
            os.dup2(each, 3 + i, inheritable=True)

    return move
