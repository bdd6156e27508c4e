# SPDX-License-Identifier: Apache-2.0
"""The pool of pages: who holds which, which prefixes are known, and what is overwritten first."""

import random

import pytest

from baracuda.serve.cache import PagePool


def fill(pool, tokens):
    """Take pages for tokens, tell the pool of the full ones, and return them."""
    pages = pool.take(-(-len(tokens) // pool.page_size))
    before = -1
    for k in range(len(tokens) // pool.page_size):
        pool.learn(pages[k], before, tokens[k * pool.page_size : (k + 1) * pool.page_size])
        before = pages[k]
    return pages


def test_known_prefixes_are_found_and_shared():
    pool = PagePool(8, 4)
    pages = fill(pool, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert pool.find([1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]) == pages[:2]
    assert pool.find([1, 2, 3, 4, 9, 9, 9, 9]) == pages[:1]
    assert pool.find([5, 6, 7, 8]) == []  # known behind another page alone
    assert pool.find([1, 2, 3]) == []
    assert pool.used == 3


def test_pages_without_users_keep_their_contents_until_they_are_needed():
    pool = PagePool(3, 2)
    first, second = fill(pool, [1, 2]), fill(pool, [3, 4])
    pool.give_back(first)
    pool.give_back(second)
    assert pool.available == 3
    assert pool.take(2) is not None  # the free one, then the one that was given back first
    assert pool.find([1, 2]) == []
    assert pool.find([3, 4]) == second


def test_the_end_of_a_sequence_is_overwritten_before_its_beginning():
    pool = PagePool(2, 2)
    pages = fill(pool, [1, 2, 3, 4])
    pool.give_back(pages)
    assert pool.take(1) == [pages[1]]
    assert pool.find([1, 2, 3, 4]) == pages[:1]


def test_too_many_pages_take_none():
    pool = PagePool(2, 2)
    assert pool.take(3) is None
    assert pool.available == 2
    assert pool.take(0) == []


def test_equal_pages_are_known_once():
    pool = PagePool(4, 2)
    first, second = fill(pool, [1, 2]), fill(pool, [1, 2])
    pool.give_back(second)
    assert pool.find([1, 2]) == first
    pool.give_back(first)
    pool.give_back(first)
    assert pool.available == 4


@pytest.mark.parametrize("seed", range(20))
def test_random_use_never_mixes_contents(seed):
    """Sequences over a small alphabet come and go; a page that is found has the tokens that were looked for."""
    choose = random.Random(seed)
    pool = PagePool(12, 2)
    contents: dict[int, tuple[int, ...]] = {}  # of a page: all tokens up to its end
    live: list[list[int]] = []
    for _ in range(400):
        tokens = [choose.randrange(2) for _ in range(choose.randrange(1, 12))]
        found = pool.find(tokens)
        for k, page in enumerate(found):
            assert contents[page] == tuple(tokens[: 2 * (k + 1)])
        more = pool.take(-(-len(tokens) // 2) - len(found))
        if more is None:
            pool.give_back(found)
            if live:
                pool.give_back(live.pop(choose.randrange(len(live))))
            continue
        pages = found + more
        held = [page for each in live for page in each]
        assert not set(more) & set(held)
        for k in range(len(found), len(tokens) // 2):
            contents[pages[k]] = tuple(tokens[: 2 * (k + 1)])
            pool.learn(pages[k], pages[k - 1] if k else -1, tokens[2 * k : 2 * k + 2])
        live.append(pages)
        assert pool.used == len({page for each in live for page in each})
    for pages in live:
        pool.give_back(pages)
    assert pool.available == 12
