// SPDX-License-Identifier: Apache-2.0
// Plans of a GPU's passes of lengths that are not powers of two (fft/mixed/pass.cuh).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/problem.h"

namespace bk {

constexpr int kMixedPasses = 14;
constexpr int kMixedLeastPrime = 17, kMixedMostPrime = 257;  // of radices that are transformed from their definition

// Radices of n in the order of the passes over a tile: prime ones from kMixedLeastPrime on, then those with the fewest twos,
// since values that lie an odd distance apart are in different banks. The largest of odd ones is the first, which leaves
// the shortest halves of Hermitian blocks.
struct MixedRadices {
    int count = 0;
    int16_t radix[kMixedPasses] = {};

    // Count -1 where a prime factor is above kMixedMostPrime.
    static MixedRadices of(int64_t n) {
        MixedRadices f;
        for (int p = kMixedMostPrime; p >= kMixedLeastPrime; p -= 2)
            while (n % p == 0 && is_prime(p)) f.add(p), n /= p;
        int exponent[6] = {};
        const int primes[6] = {2, 3, 5, 7, 11, 13};
        for (int i = 0; i < 6; ++i)
            while (n % primes[i] == 0) ++exponent[i], n /= primes[i];
        if (n != 1) return {-1, {}};
        const int first = f.count;
        for (int i = 3; i < 6; ++i)
            for (int e = 0; e < exponent[i]; ++e) f.add(primes[i]);
        f.add_small(exponent[0], exponent[1], exponent[2]);
        std::sort(f.radix + first, f.radix + f.count,
                  [](int a, int b) { return twos(a) != twos(b) ? twos(a) < twos(b) : a < b; });
        if (exponent[0] == 0 && f.count > first) std::rotate(f.radix + first, f.radix + f.count - 1, f.radix + f.count);
        return f;
    }
    BK_HD bool is_definition(int p) const { return radix[p] >= kMixedLeastPrime; }

private:
    static bool is_prime(int p) {
        for (int d = 3; d * d <= p; d += 2)
            if (p % d == 0) return false;
        return true;
    }
    static int twos(int r) { return r & -r; }
    void add(int r) { radix[count++] = static_cast<int16_t>(r); }

    // The fewest radices of 2^a 3^b 5^c.
    void add_small(int a, int b, int c) {
        int best = 99, tens = 0, sixes = 0, twelves = 0;
        for (int i = 0; i <= std::min(a, c); ++i)
            for (int j = 0; j <= std::min(a - i, b); ++j)
                for (int l = 0; l <= std::min((a - i - j) / 2, b - j); ++l) {
                    const int twos = a - i - j - 2 * l, threes = b - j - l;
                    const int passes = c + j + l + (twos + 3) / 4 + (threes + 1) / 2;
                    if (passes < best) best = passes, tens = i, sixes = j, twelves = l;
                }
        for (int i = 0; i < c; ++i) add(i < tens ? 10 : 5);
        for (int j = 0; j < sixes; ++j) add(6);
        for (int l = 0; l < twelves; ++l) add(12);
        a -= tens + sixes + 2 * twelves;
        b -= sixes + twelves;
        for (int left = (a + 3) / 4; left > 0; --left) {
            const int e = (a + left - 1) / left;
            add(1 << e);
            a -= e;
        }
        for (; b > 1; b -= 2) add(9);
        if (b == 1) add(3);
    }
};

// The least length from n on with a factor of 3 or 5 and no prime factor above 5.
inline int64_t odd_smooth_length(int64_t n) {
    int64_t best = INT64_MAX;
    for (int64_t fives = 1; fives < 2 * n; fives *= 5)
        for (int64_t odd = fives; odd < 2 * n; odd *= 3) {
            int64_t length = odd;
            while (length < n) length *= 2;
            if (odd > 1) best = std::min(best, length);
        }
    return best;
}

// A tile: `lanes` transforms of n values each in shared memory, twice, with the roots of unity of its passes behind.
struct MixedTile {
    int n = 1;                // values of a transform
    int length = 1;           // of a fiber: n, or less where the transform is a convolution
    bool is_chirped = false;  // a convolution, Bluestein's
    bool is_half = false;     // real values, of an odd length: halves of Hermitian blocks
    int lanes = 1, pitch = 1;
    MixedRadices radices;
    int block[kMixedPasses] = {};  // butterflies of a block of a pass: m, or the half of them
    int table[kMixedPasses] = {};  // where the roots of a pass begin, in words behind both tiles
    int spectrum = 0, chirps = 0, pair_roots = 0, words = 0;

    // Whether the length has such a tile, whatever its size.
    static MixedTile of(int64_t n, bool packs, bool is_half = false) {
        MixedTile tile;
        tile.is_half = is_half;
        tile.length = tile.n = static_cast<int>(n);
        tile.radices = MixedRadices::of(n);
        if (tile.radices.count < 0) {
            tile.is_chirped = true;
            tile.n = static_cast<int>(odd_smooth_length(2 * n - 1));
            tile.radices = MixedRadices::of(tile.n);
        }
        int at = 0, m = 1, words = is_half ? (tile.n + 1) / 2 : tile.n;
        for (int p = 0; p < tile.radices.count; m *= tile.radices.radix[p++]) {
            tile.table[p] = at;
            const int r = tile.radices.radix[p];
            tile.block[p] = is_half ? (m + 1) / 2 : m;
            at += tile.radices.is_definition(p) ? m * r : p == 0 ? 0 : tile.block[p] * roots_of(r);
            if (is_half) words = std::max(words, tile.n / (m * r) * ((m * r + 1) / 2));
        }
        tile.pitch = words | 1;
        tile.spectrum = at;
        at += tile.is_chirped ? tile.n : 0;
        tile.chirps = at;
        at += tile.is_chirped ? tile.length : 0;
        tile.pair_roots = at;
        at += packs ? tile.length / 2 + 1 : 0;
        tile.words = at;
        return tile;
    }
    // Butterflies of a lane in pass p, the product of whose radices before is m.
    int butterflies(int p, int m) const { return n / (m * radices.radix[p]) * block[p]; }
    // Roots that a pass of radix r reads, of t = 1, 2, 4 ... below r.
    BK_HD static int roots_of(int r) { return r > 8 ? 4 : r > 4 ? 3 : r > 2 ? 2 : 1; }
    int64_t bytes(int word, int lane) const { return (int64_t{2} * lanes * pitch + words) * word + int64_t{lanes} * lane; }
};

}  // namespace bk
