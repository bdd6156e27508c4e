#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the built site with Chromium: python -m tools.docs.check_site [SITE] [--browser PATH] [--shots FOLDER]

The site is opened as files and from a local server, in a wide and in a narrow window, some pages also in the dark
scheme. It checks that

- no page requests anything from another host, and none logs an error;
- a search finds the page of a function;
- a formula is laid out: a fraction is higher than a letter;
- charts have bars, and no page is wider than the window;
- text has enough contrast, and letters are large enough.
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

from tools.docs import ROOT
from tools.docs.browser import BrowserError, Page, opened

PAGES = (
    "index.html", "ops/index.html", "ops/elementwise/unary_gelu.html", "ops/elementwise/binary_div.html",
    "ops/gemm/gemm_rcr_sm80.html", "ops/segment/segment_sum.html", "concepts/strides.html", "how-to/torch.html",
    "design/adding-an-op.html", "performance/index.html",
)  # fmt: skip
IN_THE_DARK = ("index.html", "ops/elementwise/unary_gelu.html")
SCHEMES = {"light": "default", "dark": "slate"}  # names in the theme
FORMULA = "ops/elementwise/binary_div.html"
WINDOWS = {"wide": (1280, 900), "narrow": (390, 800)}
# Search text -> a page that must be among the results.
SEARCHES = {"swiglu": "gated_swiglu.html", "unary_gelu_bf16": "unary_gelu.html", "workspace": "workspaces.html"}
# Least contrast (WCAG 2) of elements with their background; WCAG requires 4.5 for text.
CONTRASTS = {".md-content p": 7.0, ".md-content code": 4.5, ".bk-formula small": 4.5, ".bk-chart text": 4.5}
CONTRAST = """(selector => {
    const element = document.querySelector(selector);
    if (!element) return null;
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const over = (colours) => {
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const behind = [];
    for (let at = element; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const light = (rgb) => {
        const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [low, high] = [light(over(behind)), light(over([...behind, ink]))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
})"""
# Letters of a chart scale with its drawn width.
CHART_LETTERS = """(() => {
    const chart = document.querySelector(".bk-chart");
    return chart && 11 * chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
})()"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[str]:
    """The address of a server on the loopback interface."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def reported(page: Page, base: str) -> Iterator[str]:
    """Errors that a page logged, and requests that leave the site."""
    for event in page.taken("Runtime.consoleAPICalled"):
        if event["type"] == "error":
            yield f"console: {' '.join(str(arg.get('value', arg.get('description'))) for arg in event['args'])}"
    for event in page.taken("Runtime.exceptionThrown"):
        details = event["exceptionDetails"]
        yield f"script: {details.get('exception', {}).get('description', details['text'])}"
    for event in page.taken("Log.entryAdded"):
        if event["entry"]["level"] == "error":
            yield f"log: {event['entry']['text']} {event['entry'].get('url', '')}"
    for event in page.taken("Network.requestWillBeSent"):
        url = event["request"]["url"]
        if not url.startswith((base, "data:", "blob:", "about:")):
            yield f"asks for {url}"


def legible(page: Page, path: str, scheme: str, shots: pathlib.Path | None) -> Iterator[str]:
    """Visual faults of the open page."""
    if not page.until(f"document.body.dataset.mdColorScheme == '{SCHEMES[scheme]}'"):
        yield f"{path} is not {scheme} where the reader's system is"
    for name, (width, height) in WINDOWS.items():
        page.window(width, height)
        page.until(f"window.innerWidth == {width}")
        if not page.until("document.documentElement.scrollWidth <= window.innerWidth", 5):
            yield f"{path} is wider than a {name} window"
        if (letters := page.value(CHART_LETTERS)) and letters < 9:
            yield f"{path}: letters of a chart are {letters:.1f} pixels in a {name} window"
        if shots:
            (shots / f"{pathlib.Path(path).stem}-{name}-{scheme}.png").write_bytes(page.screenshot())
    for selector, least in CONTRASTS.items():
        found = page.value(f"{CONTRAST}({selector!r})")
        if found is not None and found < least:
            yield f"{path}, {scheme}: {selector} has a contrast of {found:.1f}, less than {least}"


def look(page: Page, base: str, looks: bool, shots: pathlib.Path | None) -> Iterator[str]:
    """Faults of the site at `base`; visual ones on request."""
    for path in PAGES:
        page.window(*WINDOWS["wide"])
        page.goto(f"{base}/{path}")
        if looks:
            yield from legible(page, path, "light", shots)
    if looks:
        page.scheme("dark")
        for path in IN_THE_DARK:
            page.window(*WINDOWS["wide"])
            page.goto(f"{base}/{path}")  # Chromium applies the preferred scheme late to the first page
            page.forget(base)
            page.goto(f"{base}/{path}")
            yield from legible(page, path, "dark", shots)
        page.scheme("light")
        page.forget(base)
    page.window(*WINDOWS["wide"])
    page.goto(f"{base}/{FORMULA}")
    height = page.value("document.querySelector('.bk-formula mfrac').getBoundingClientRect().height")
    if height < 20:
        yield f"{FORMULA}: a fraction is {height} pixels high, not laid out"
    page.goto(f"{base}/ops/elementwise/unary_gelu.html")
    if page.value("document.querySelectorAll('.bk-chart rect.ours').length") < 10:
        yield "unary_gelu.html: no chart"
    for words, wanted in SEARCHES.items():
        page.goto(f"{base}/index.html")
        page.value("document.querySelector('.md-search__input').focus()")
        page.call("Input.insertText", text=words)
        if not page.until(f"""document.querySelector('.md-search-result__link[href*="{wanted}"]')"""):
            yield f"search for {words!r} does not find {wanted}"
        elif shots:
            (shots / f"search-{words}.png").write_bytes(page.screenshot())
    yield from reported(page, base)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", nargs="?", type=pathlib.Path, default=ROOT / "build" / "docs")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    parser.add_argument("--browser", default=found, help="Chromium; by default from PATH")
    parser.add_argument("--shots", type=pathlib.Path, help="folder for screenshots")
    args = parser.parse_args()
    if not args.browser:
        parser.error("no Chromium on PATH; Debian's is `apt-get install chromium`")
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    try:
        with opened(args.browser) as browser, served(args.site) as address:
            page = browser.page()
            for base, looks in ((address, True), (args.site.resolve().as_uri(), False)):
                faults += [f"{base}: {fault}" for fault in look(page, base, looks, looks and args.shots)]
    except BrowserError as error:
        faults.append(f"the browser: {error}")
    print(*faults or ["no faults"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
