#!/usr/bin/env python3
"""Looks at the built site with a browser: python tools/docs/check_site.py [SITE] [--browser PATH]

Needs playwright (PyPI) and Chromium (`apt-get install chromium`, or `playwright install chromium`). The site is opened
as files and from a local server; of both it is asked that

- no page asks another host for anything, and none logs an error;
- a search finds the page of a function;
- a formula is laid out: it is wider and higher than a letter;
- charts have bars, and no page is wider than the window.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import pathlib
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Error, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (
    "index.html", "ops/index.html", "ops/elementwise/unary_gelu.html", "ops/elementwise/binary_div.html",
    "ops/segment/segment_sum.html", "concepts/strides.html", "design/adding-an-op.html",
)  # fmt: skip
FORMULA = "ops/elementwise/binary_div.html"
# What is searched for, and the page that must be among the results.
SEARCHES = {"swiglu": "gated_swiglu.html", "unary_gelu_bf16": "unary_gelu.html", "workspace": "workspaces.html"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[str]:
    """The address of a server of this machine alone."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def look(page: Any, base: str, faults: list[str]) -> None:
    """Add to `faults` what is wrong with the site at `base`."""
    page.on("console", lambda message: faults.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", lambda request: None if request.url.startswith((base, "data:")) else faults.append(request.url))
    for path in PAGES:
        page.goto(f"{base}/{path}")
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            faults.append(f"{path} is wider than the window")
    page.goto(f"{base}/{FORMULA}")
    box = page.locator(".bk-formula mfrac").first.bounding_box()
    if not box or box["height"] < 20:
        faults.append(f"{FORMULA}: a fraction is {box}, not laid out")
    page.goto(f"{base}/ops/elementwise/unary_gelu.html")
    if page.locator(".bk-chart rect.ours").count() < 10:
        faults.append("unary_gelu.html: no chart")
    for words, wanted in SEARCHES.items():
        page.goto(f"{base}/index.html")
        try:
            page.locator(".md-search__input").fill(words, timeout=20_000)
            page.locator(f'.md-search-result__link[href*="{wanted}"]').first.wait_for(state="attached", timeout=20_000)
        except Error:
            faults.append(f"search for {words!r} does not find {wanted}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", nargs="?", type=pathlib.Path, default=ROOT / "build" / "docs")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="Chromium; by default from PATH")
    args = parser.parse_args()
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.browser, args=["--no-sandbox"])
        with served(args.site) as address:
            for base in (address, args.site.resolve().as_uri()):
                found: list[str] = []
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                look(page, base, found)
                page.close()
                faults += [f"{base}: {fault}" for fault in found]
        browser.close()
    print(*faults or ["the site is as it should be"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
