// SPDX-License-Identifier: Apache-2.0
// Passes of a discrete Fourier transform, the same for both targets.
//
// A fiber of N positions is transformed along one axis of an array: X[k] = scale * sum over j of x[j] exp(-2 pi i j k / N), or
// with the opposite sign. A pass transforms fibers, or parts of them, of up to kMaxTile values in fast memory. A longer fiber
// is split, N = n1 n2 ... nP (Gentleman and Sande 1966; Bailey 1990): pass p transforms n_p values that lie n_{p+1} ... n_P
// positions apart, multiplies value k of remainder j by exp(-2 pi i j k / (n_p ... n_P)), and leaves it in its position; the
// last pass writes X[k1 + n1 k2 + n1 n2 k3 ...].
//
// A length with a large prime factor becomes a convolution (Bluestein 1970): with c[j] = exp(-i pi j^2 / N),
// X[k] = c[k] sum over j of (x[j] c[j]) conj(c[k - j]), which transforms of a smooth length M >= 2 N - 1 compute.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"

namespace bk {

constexpr int kFftAxes = kMaxRank + 4;  // the array's other axes, and those of a split fiber
constexpr int kFftRadices = 16;
constexpr int kFftLargestRadix = 13;

// Positions of a fiber in memory: complex numbers; real ones, whose imaginary parts are zero or dropped; or the first
// N / 2 + 1 positions of a Hermitian fiber, whose others are the conjugates X[N - k].
enum class FftForm : int32_t { kComplex, kReal, kHermitian };

// A factor of each position: c[j], and zero from N on; or that of a spectrum in memory. A filter is conj(c[j]) without an
// operand.
enum class FftFactor : int32_t { kNone, kChirp, kFilter, kSpectrum };

// A pass of pairs of real numbers whose other side is half a Hermitian fiber: n + 1 values, unpacked behind the transform or
// packed before it (fft/packed_real.h). On a GPU a split fiber of a power of two has such passes too: the first that unpacks,
// which has a period, only reads pairs.
enum class FftPacking : int32_t { kNone, kUnpacks, kPacks };

struct FftAxis {
    int64_t extent = 1;
    int64_t in = 0, out = 0;  // strides in elements of each side
    int64_t position = 0;     // of the fiber, from one index to the next: an axis of a split fiber
    int64_t rest = 0;         // of the remainder j, likewise
};

struct FftPass {
    int32_t n = 1;  // values of a transform
    int32_t axes = 0;
    FftAxis axis[kFftAxes];   // the first is that of the lanes, which run fastest
    int64_t in = 0, out = 0;  // strides of a transform's values
    int64_t position = 0;     // of the fiber, from one value to the next
    int64_t length = 1;       // N: values behind it are zero, or not stored
    int64_t period = 0;       // of the rotation behind the transform; 0: none
    // Real and imaginary parts are exchanged before and behind the factor of each side. Exchanged on both sides, a transform
    // has the opposite sign.
    bool in_swaps[2] = {false, false}, out_swaps[2] = {false, false};
    FftFactor in_factor = FftFactor::kNone, out_factor = FftFactor::kNone;
    int64_t padded = 0;              // M of a chirp
    const void* chirps = nullptr;    // conj(c[j]) in memory, if they have been computed
    int64_t present = INT64_MAX;     // stored values of a fiber: those behind are zero
    double interior = 1;             // a factor of a half fiber's values that have a conjugate in its other half
    const void* spectrum = nullptr;  // a factor of each position
    FftForm in_form = FftForm::kComplex, out_form = FftForm::kComplex;
    FftPacking packing = FftPacking::kNone;
    bool mirrors = false;  // a tile has lanes j and N - j: the first axis is that of a split fiber which unpacks or packs
    double scale = 1;

    int64_t lanes() const {
        int64_t count = 1;
        for (int a = 0; a < axes; ++a) count *= axis[a].extent;
        return count;
    }
};

// Segments of convolutions: each is a circular one of n elements, of which the last `useful` are results.
struct FftSegments {
    int32_t n = 0, useful = 0;
    int64_t count = 0, taps = 0;                     // of a fiber; elements of the filter
    int64_t elements = 0, results = 0;               // of the fibers of x and y
    int64_t first = 0, last = 0;                     // of the whole convolution: its element that is result 0, and its end
    static constexpr int kMost = 4096, kLeast = 32;  // of n

    // The cheapest segments, or none for a long filter.
    void choose() {
        double best = 0;
        for (int64_t length = kLeast, work = 11; length <= kMost; length *= 2, ++work) {
            const int64_t own = length - taps + 1;
            if (2 * own < length) continue;
            const int64_t segments = ceil_div(results, own);
            const double cost = static_cast<double>(segments) * static_cast<double>(length * work);
            if (n != 0 && cost >= best) continue;
            best = cost;
            n = static_cast<int32_t>(length);
            useful = static_cast<int32_t>(own);
            count = segments;
        }
    }
};

// Radices of n from the first pass over a tile to the last; count 0 where a prime factor is above kFftLargestRadix.
struct FftRadices {
    int count = 0;
    int8_t radix[kFftRadices] = {};

    static FftRadices of(int64_t n) {
        FftRadices f;
        while (n > 1) {
            int r = 0;
            for (const int candidate : {8, 4, 2, 3, 5, 7, 11, 13})
                if (n % candidate == 0 && (candidate != 8 || n != 16)) {
                    r = candidate;
                    break;
                }
            if (r == 0 || f.count == kFftRadices) return FftRadices{};
            f.radix[f.count++] = static_cast<int8_t>(r);
            n /= r;
        }
        if (f.count == 0) f.radix[f.count++] = 1;
        return f;
    }
};

constexpr bool is_smooth(int64_t n) {
    for (const int p : {2, 3, 5, 7, 11, 13})
        while (n % p == 0) n /= p;
    return n == 1;
}

// The least length from n on without a prime factor above 5.
inline int64_t smooth_length(int64_t n) {
    int64_t best = 1;
    while (best < n) best *= 2;
    for (int64_t fives = 1; fives < best; fives *= 5)
        for (int64_t odd = fives; odd < best; odd *= 3) {
            int64_t length = odd;
            while (length < n) length *= 2;
            if (length < best) best = length;
        }
    return best;
}

constexpr int kFftParts = 8;

// The lengths of the passes of a fiber, each at most `most`. Count 0 where there is no such product: the largest prime
// factor is too large.
struct FftParts {
    int count = 0;
    int32_t n[kFftParts] = {};

    static FftParts of(int64_t length, int64_t most) {
        FftParts parts;
        if (!is_smooth(length)) return parts;
        int count = 1;
        for (double reach = static_cast<double>(most); reach < static_cast<double>(length); reach *= static_cast<double>(most))
            ++count;
        // Divisors near the root of what is left keep the parts alike; unlucky factors take a pass more.
        for (; count <= kFftParts; ++count)
            if (split(length, most, count, parts.n)) {
                parts.count = count;
                return parts;
            }
        return parts;
    }

private:
    // Whether `length` is a product of `count` parts of at most `most`, the largest first.
    static bool split(int64_t length, int64_t most, int count, int32_t* n) {
        if (count == 1) {
            n[0] = static_cast<int32_t>(length);
            return length <= most;
        }
        int64_t root = 1;
        while (power(root, count) < static_cast<double>(length)) ++root;
        for (int64_t d = root; d <= most && d <= length; ++d) {
            if (length % d != 0) continue;
            n[0] = static_cast<int32_t>(d);
            if (split(length / d, most, count - 1, n + 1)) return true;
        }
        return false;
    }
    static double power(int64_t base, int exponent) {
        double product = 1;
        for (; exponent > 0; --exponent) product *= static_cast<double>(base);
        return product;
    }
};

}  // namespace bk
