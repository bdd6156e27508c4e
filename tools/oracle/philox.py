# SPDX-License-Identifier: Apache-2.0
"""Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011), and the uniform numbers that ops derive from it."""

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = np.uint64(0xFFFFFFFF)


def blocks(key: tuple[int, int], counters: np.ndarray) -> np.ndarray:
    """The four words of each counter, (n, 4) words of 32 bits; the low word first."""
    c = [counters[:, k].astype(np.uint64) for k in range(4)]
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        high = (first >> np.uint64(32), second >> np.uint64(32))
        c = [high[1] ^ c[1] ^ np.uint64(k0), second & MASK, high[0] ^ c[3] ^ np.uint64(k1), first & MASK]
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack(c, axis=1).astype(np.uint32)


def stream(seed: int, first: int, count: int, period: int) -> np.ndarray:
    """Words [4 first, 4 (first + count)) of the stream of a seed, of which there are 4 period."""
    numbers = [(first + k) % period for k in range(count)]
    words = [[n & 0xFFFFFFFF, n >> 32, 0, 0] for n in numbers]
    counters = np.array(words, np.uint64).reshape(count, 4)
    return blocks((seed & 0xFFFFFFFF, seed >> 32), counters).ravel()


def numbers(seed: int, offset: int, count: int, each: int) -> np.ndarray:
    """Numbers [offset, offset + count) of a stream, as integers of `each` words, the low word first."""
    of_block = 4 // each
    words = stream(seed, offset // of_block, count // of_block + 2, 2**64 // of_block).reshape(-1, each)
    words = words[offset % of_block :][:count].astype(np.uint64)
    return words[:, 1] << np.uint64(32) | words[:, 0] if each == 2 else words[:, 0]


def more_words(seed: int, number: int, attempt: int, each: int) -> list[int]:
    """The words of the block that an element takes after it rejected a number of `each` words."""
    counter = np.array([[number & 0xFFFFFFFF, number >> 32, attempt, each]], np.uint64)
    return [int(word) for word in blocks((seed & 0xFFFFFFFF, seed >> 32), counter)[0]]


def uniform(seed: int, offset: int, count: int, dtype: str) -> np.ndarray:
    """Numbers [offset, offset + count) of a stream, in (0, 1), as computed by ops of the compute type `dtype`."""
    if dtype == "f64":
        return ((numbers(seed, offset, count, 2) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    rounded = numbers(seed, offset, count, 1).astype(np.float32).astype(np.float64)
    u = (rounded * 2.0**-32 + 2.0**-33).astype(np.float32).astype(np.float64)
    return np.minimum(u, 1 - 2.0**-24)
