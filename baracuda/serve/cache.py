# SPDX-License-Identifier: Apache-2.0
"""Pages of the KV cache: which are free, which hold a prefix that a later request may reuse, and who shares them.

A full page is known by its tokens and those before it: its key is (the page before it, its tokens), so that equal
prefixes find equal pages (vLLM's prefix caching, Kwon et al. 2023; a chain of pages in place of SGLang's radix tree).
A page has a count of sequences that use it. A known page without users keeps its contents until it is needed: the one
that was given back first is overwritten first.
"""

from __future__ import annotations

from collections.abc import Sequence


class PagePool:
    """Numbers of `count` pages of `page_size` tokens each."""

    def __init__(self, count: int, page_size: int) -> None:
        self.count, self.page_size = count, page_size
        self._free = list(range(count - 1, -1, -1))
        self._idle: dict[int, None] = {}  # known pages without users, oldest first
        self._users = [0] * count
        self._page_of: dict[tuple[int, tuple[int, ...]], int] = {}
        self._key_of: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._followers: dict[int, set[int]] = {}  # known pages whose key names this page

    @property
    def available(self) -> int:
        """Pages that can be taken now."""
        return len(self._free) + len(self._idle)

    @property
    def used(self) -> int:
        return self.count - self.available

    def find(self, tokens: Sequence[int]) -> list[int]:
        """Take the known pages of the longest prefix of tokens."""
        size, found, before = self.page_size, [], -1
        for start in range(0, len(tokens) - size + 1, size):
            page = self._page_of.get((before, tuple(tokens[start : start + size])))
            if page is None:
                break
            found.append(page)
            before = page
        for page in found:
            self._idle.pop(page, None)
            self._users[page] += 1
        return found

    def take(self, count: int) -> list[int] | None:
        """`count` pages for new contents, or None where there are not so many."""
        if count > self.available:
            return None
        taken = []
        for _ in range(count):
            if not self._free:
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                self._forget(oldest)
                self._free.append(oldest)
            page = self._free.pop()
            self._users[page] = 1
            taken.append(page)
        return taken

    def learn(self, page: int, before: int, tokens: Sequence[int]) -> None:
        """Make a full page known: `before` is the page before it, or -1. Of equal pages the first is known."""
        if before >= 0 and before not in self._key_of:
            return
        key = (before, tuple(tokens))
        if page not in self._key_of and key not in self._page_of:
            self._page_of[key], self._key_of[page] = page, key
            if before >= 0:
                self._followers.setdefault(before, set()).add(page)

    def give_back(self, pages: Sequence[int]) -> None:
        """Leave pages; the last of a sequence are overwritten before the first."""
        for page in reversed(pages):
            self._users[page] -= 1
            if not self._users[page]:
                if page in self._key_of:
                    self._idle[page] = None
                else:
                    self._free.append(page)

    def _forget(self, page: int) -> None:
        """Make a page and those that follow it unknown."""
        stack = [page]
        while stack:
            current = stack.pop()
            key = self._key_of.pop(current, None)
            if key is None:
                continue
            del self._page_of[key]
            if key[0] in self._followers:
                self._followers[key[0]].discard(current)
            if current in self._idle:
                del self._idle[current]
                self._free.append(current)
            stack += self._followers.pop(current, ())
