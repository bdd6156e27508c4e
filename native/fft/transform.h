// SPDX-License-Identifier: Apache-2.0
// A Fourier transform along one axis of an array, as passes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fft/core.h"
#include "fft/problem.h"

namespace bk {

// An array of up to kMaxRank axes. Extents are those of the complex numbers of a whole fiber, also where a side holds a half.
struct FftArray {
    int rank = 1;
    int64_t extent[kMaxRank] = {1};
    int64_t in[kMaxRank] = {}, out[kMaxRank] = {};

    int64_t count() const {
        int64_t product = 1;
        for (int a = 0; a < rank; ++a) product *= extent[a];
        return product;
    }
};

struct FftFiber {
    int axis = 0;
    int64_t length = 0;           // N, of which a Hermitian side holds a half
    int64_t present = INT64_MAX;  // stored values: those behind are zero
    double scale = 1, interior = 1;
    FftForm in_form = FftForm::kComplex, out_form = FftForm::kComplex;
    FftFactor in_factor = FftFactor::kNone, out_factor = FftFactor::kNone;
    const void *spectrum = nullptr, *chirps = nullptr;
    bool in_swaps[2] = {false, false}, out_swaps[2] = {false, false};

    void set_in(FftPass& pass) const {
        pass.in_form = in_form;
        pass.in_factor = in_factor;
        pass.present = present;
        if (in_form == FftForm::kHermitian) pass.interior = interior;
        std::copy(in_swaps, in_swaps + 2, pass.in_swaps);
    }
    void set_out(FftPass& pass) const {
        pass.out_form = out_form;
        pass.out_factor = out_factor;
        pass.scale = scale;
        if (out_form == FftForm::kHermitian) pass.interior = interior;
        std::copy(out_swaps, out_swaps + 2, pass.out_swaps);
    }
};

// Appends an axis; those of one index are left out.
inline void add_axis(FftPass& pass, const FftAxis& axis) {
    if (axis.extent != 1) pass.axis[pass.axes++] = axis;
}

// The lanes run along the axis of the smallest stride.
inline void choose_lanes(FftPass& pass) {
    int best = 0;
    const auto distance = [&](int a) {
        const FftAxis& axis = pass.axis[a];
        return std::max(axis.in < 0 ? -axis.in : axis.in, axis.out < 0 ? -axis.out : axis.out);
    };
    for (int a = 1; a < pass.axes; ++a)
        if (distance(a) != 0 && (distance(best) == 0 || distance(a) < distance(best))) best = a;
    if (pass.axes > 1) std::swap(pass.axis[0], pass.axis[best]);
}

// The pass of whole fibers; `fiber` is their length.
inline FftPass whole_fibers(const FftArray& array, const FftFiber& of) {
    FftPass pass;
    pass.length = of.length;
    pass.n = static_cast<int32_t>(std::min<int64_t>(array.extent[of.axis], INT32_MAX));
    pass.in = array.in[of.axis];
    pass.out = array.out[of.axis];
    pass.position = 1;
    pass.padded = array.extent[of.axis];
    pass.spectrum = of.spectrum;
    pass.chirps = of.chirps;
    of.set_in(pass);
    of.set_out(pass);
    for (int a = 0; a < array.rank; ++a)
        if (a != of.axis) add_axis(pass, {array.extent[a], array.in[a], array.out[a]});
    return pass;
}

// Pass `number` of a split fiber. `from` and `to` have the array's strides of its two sides.
inline FftPass part_of_fibers(const FftArray& array, const FftFiber& of, const FftParts& parts, int number, const int64_t* from,
                              const int64_t* to, bool stays_in_place, bool mirrors = false) {
    const int last = parts.count - 1;
    FftPass pass;
    pass.length = of.length;
    pass.padded = array.extent[of.axis];
    pass.spectrum = of.spectrum;
    pass.chirps = of.chirps;
    pass.n = parts.n[number];
    const int64_t in = from[of.axis], out = to[of.axis];
    int64_t before = 1, behind = 1;
    for (int p = 0; p < number; ++p) before *= parts.n[p];
    for (int p = number + 1; p <= last; ++p) behind *= parts.n[p];
    const bool reads_half = number == 0 && of.in_form == FftForm::kHermitian;
    if (number == 0) of.set_in(pass);
    pass.in = reads_half ? in : behind * in;
    if (number < last || stays_in_place) {
        pass.out = behind * out;
        pass.position = behind;
        pass.period = number < last ? pass.n * behind : 0;
        add_axis(pass, {behind, reads_half ? 0 : in, out, 1, 1});
        add_axis(pass, {before, pass.n * behind * in, pass.n * behind * out, 0, 0});
        if (number == last) of.set_out(pass);
    } else {
        const bool writes_half = of.out_form == FftForm::kHermitian;
        of.set_out(pass);
        pass.out = writes_half ? out : before * out;
        pass.position = before;
        int64_t inner = 1, outer = array.extent[of.axis];
        for (int p = 0; p < last; ++p) {
            outer /= parts.n[p];
            add_axis(pass, {parts.n[p], outer * in, writes_half ? 0 : inner * out, inner, 0});
            inner *= parts.n[p];
        }
    }
    for (int a = 0; a < array.rank; ++a)
        if (a != of.axis) add_axis(pass, {array.extent[a], from[a], to[a], 0, 0});
    pass.mirrors = mirrors;
    if (!mirrors) choose_lanes(pass);
    return pass;
}

// Row-major strides of the array's complex numbers.
inline void dense_strides(const FftArray& array, int64_t (&stride)[kMaxRank]) {
    int64_t step = 1;
    for (int a = array.rank; a-- > 0; step *= array.extent[a]) stride[a] = step;
}

// Lengths with a large prime factor up to here are transformed from their definition.
constexpr int64_t kFftDirect = 64;

// Whether one pass transforms whole fibers without a workspace.
template <class R>
bool fft_takes_alone(int64_t n) {
    if constexpr (BK_CUDA) return fft_takes_fiber<R>(n, false);
    return n <= fft_most_values<R>();
}

// Whether one pass transforms whole fibers.
template <class R>
bool fft_takes_whole(int64_t n, const void* scratch) {
    return fft_takes_alone<R>(n) || (!BK_CUDA && scratch != nullptr && n <= fft_most_tile_values<R>());
}

template <class R>
bool is_chirped(int64_t n) {
    return n > kFftDirect && !is_smooth(n) && !(BK_CUDA && fft_takes_alone<R>(n));
}

constexpr int64_t fft_aligned(int64_t bytes) { return (bytes + 63) & ~int64_t{63}; }

// Values of a part of a split fiber at most. A GPU reads parts whose values lie apart in whole sectors if a tile has several.
template <class R>
int64_t fft_most_part_values(bool stays) {
    const int64_t most = stays ? fft_most_values<R>() : fft_most_tile_values<R>();
    return BK_CUDA ? most / 4 : most;
}

// Bytes that transforms of `fibers` fibers of a smooth length can use: tiles, and an array of complex numbers where fibers
// take more than one pass.
template <class R>
int64_t fft_parts_bytes(int64_t n, int64_t fibers) {
    if (fft_takes_whole<R>(n, &n)) return fft_tile_bytes<R>(n, fibers);
    const FftParts parts = FftParts::of(n, fft_most_part_values<R>(false));
    int64_t tiles = 0;
    for (int p = 0; p < parts.count; ++p) tiles = std::max(tiles, fft_tile_bytes<R>(parts.n[p], n / parts.n[p] * fibers));
    return fft_aligned(fibers * n * 2 * int64_t{sizeof(R)}) + tiles;
}

// Buffers of fibers that are convolutions of the smooth length m.
template <class R>
struct FftChirpBytes {
    int64_t m, spectrum, values, chirps, rest;

    FftChirpBytes(int64_t n, int64_t fibers) : m(smooth_length(2 * n - 1)) {
        constexpr int64_t kComplex = 2 * int64_t{sizeof(R)};
        spectrum = fft_aligned(m * kComplex);
        values = fft_aligned(fibers * m * kComplex);
        chirps = fft_aligned(n * kComplex);
        rest = std::max(fft_parts_bytes<R>(m, fibers), fft_parts_bytes<R>(m, 1));
    }
    int64_t total() const { return spectrum + values + chirps + rest; }
};

template <class R>
int64_t fft_fibers_bytes(int64_t n, int64_t fibers) {
    return is_chirped<R>(n) ? FftChirpBytes<R>(n, fibers).total() : fft_parts_bytes<R>(n, fibers);
}

// Bytes that a transform along the axis can use, also as one of packed real fibers.
template <class R>
int64_t fft_axis_bytes(const FftArray& array, int axis) {
    const int64_t n = array.extent[axis];
    if (n == 0) return 0;
    const int64_t fibers = array.count() / n, packed = (BK_CUDA || n % 2 != 0) ? 0 : fft_fibers_bytes<R>(n / 2, fibers);
    return std::max(packed, fft_fibers_bytes<R>(n, fibers));
}

// Transforms by passes, of a length that has parts. `scratch` has fft_parts_bytes, or is NULL: then fibers, complex on both
// sides, are split in y.
template <class R>
BK_COLD Status fft_parts(const FftArray& array, const FftFiber& of, const void* x, void* y, void* scratch,
                         const Launch& launch) {
    const int64_t n = array.extent[of.axis];
    FftPass whole = whole_fibers(array, of);
    choose_lanes(whole);
    if (fft_takes_whole<R>(n, scratch)) return fft_pass<R>(whole, x, y, scratch, launch);
    const bool stays = scratch == nullptr;
    const FftParts parts = FftParts::of(n, fft_most_part_values<R>(stays));
    void* middle = stays ? y : scratch;
    void* tiles = stays ? nullptr : static_cast<char*>(scratch) + fft_aligned(array.count() * 2 * int64_t{sizeof(R)});
    int64_t between[kMaxRank];
    if (stays)
        std::copy(array.out, array.out + kMaxRank, between);
    else
        dense_strides(array, between);
    for (int p = 0; p < parts.count; ++p) {
        const bool is_first = p == 0, is_last = p + 1 == parts.count;
        const FftPass pass =
            part_of_fibers(array, of, parts, p, is_first ? array.in : between, is_last ? array.out : between, stays);
        BK_TRY(fft_pass<R>(pass, is_first ? x : middle, is_last ? y : middle, tiles, launch));
    }
    return stays ? fft_unscramble<R>(whole, parts, y, launch) : Status::kOk;
}

// Transforms by a convolution of the smooth length m.
template <class R>
BK_COLD Status fft_chirped(const FftArray& array, const FftFiber& of, const void* x, void* y, void* scratch,
                           const Launch& launch) {
    const int64_t n = array.extent[of.axis];
    const FftChirpBytes<R> bytes(n, array.count() / n);
    const int64_t m = bytes.m;
    FftArray longer = array;
    longer.extent[of.axis] = m;
    dense_strides(longer, longer.out);
    char* spectrum = static_cast<char*>(scratch);
    char* values = spectrum + bytes.spectrum;
    char* chirps = values + bytes.values;
    char* rest = chirps + bytes.chirps;

    FftPass fill;  // transforms of one value each
    fill.length = n;
    fill.padded = m;
    fill.in_factor = FftFactor::kFilter;
    fill.axes = 1;
    fill.axis[0] = {n, 0, 1, 1, 0};
    BK_TRY(fft_pass<R>(fill, nullptr, chirps, nullptr, launch));

    FftArray filter;
    filter.extent[0] = m;
    filter.in[0] = filter.out[0] = 1;
    FftFiber fiber;
    fiber.length = n;
    fiber.scale = 1.0 / static_cast<double>(m);  // here, so that finite products do not overflow
    fiber.in_factor = FftFactor::kFilter;
    fiber.chirps = chirps;
    BK_TRY(fft_parts<R>(filter, fiber, nullptr, spectrum, rest, launch));

    fiber = of;  // of x c, with zeros behind
    fiber.chirps = chirps;
    fiber.scale = 1;
    fiber.in_factor = FftFactor::kChirp;
    fiber.out_form = FftForm::kComplex;
    fiber.out_swaps[0] = fiber.out_swaps[1] = false;
    BK_TRY(fft_parts<R>(longer, fiber, x, values, rest, launch));

    FftArray back = longer;  // the inverse of its product with the spectrum
    dense_strides(longer, back.in);
    std::copy(array.out, array.out + kMaxRank, back.out);
    fiber = of;
    fiber.chirps = chirps;
    fiber.present = INT64_MAX;
    fiber.scale = of.scale;
    fiber.in_form = FftForm::kComplex;
    fiber.in_factor = FftFactor::kSpectrum;
    fiber.spectrum = spectrum;
    fiber.in_swaps[0] = false;
    fiber.in_swaps[1] = true;
    fiber.out_factor = FftFactor::kChirp;
    fiber.out_swaps[1] = of.out_swaps[0];
    fiber.out_swaps[0] = true;
    return fft_parts<R>(back, fiber, values, y, rest, launch);
}

// Whether real fibers, whose side has these strides in real numbers, may be transformed as complex ones of half the length:
// they are contiguous, and nothing is padded or multiplied. `stored` values are all that the input has.
inline bool packs_real(const FftArray& array, const FftFiber& of, const int64_t* real, int64_t stored) {
    const int64_t n = array.extent[of.axis];
    bool packs = n >= 4 && n % 2 == 0 && real[of.axis] == 1 && of.present >= stored && of.interior == 1;
    packs = packs && of.in_factor == FftFactor::kNone && of.out_factor == FftFactor::kNone;
    packs = packs && !of.in_swaps[1] && !of.out_swaps[1];
    for (int a = 0; a < array.rank; ++a) packs = packs && (a == of.axis || array.extent[a] == 1 || real[a] % 2 == 0);
    return packs;
}

// Strides of pairs of real numbers, as complex ones.
inline void strides_of_pairs(const FftArray& array, int axis, const int64_t* real, int64_t* pairs) {
    for (int a = 0; a < array.rank; ++a) pairs[a] = a == axis ? 1 : real[a] / 2;
}

template <class R>
Status fft_axis(const FftArray& array, FftFiber of, bool is_inverse, const void* x, void* y, void* scratch,
                const Launch& launch);

// Whether one pass transforms and unpacks, or packs, whole fibers of this many pairs.
template <class R>
bool packs_whole(int64_t pairs, const void* scratch) {
    if constexpr (BK_CUDA) return pairs > 0 && fft_takes_fiber<R>(pairs, true);
    return pairs > 0 && is_smooth(pairs) && fft_takes_whole<R>(pairs, scratch);
}

// Whether the passes of a GPU transform fibers of this many pairs: one a fiber, or for powers of two two.
template <class R>
bool gpu_packs(const FftArray& array, int64_t pairs, const void* x, const void* y, const void* scratch) {
    const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
    const int64_t part = fft_most_part_values<R>(false);
    const bool is_power = (pairs & (pairs - 1)) == 0;
    const bool has_size =
        packs_whole<R>(pairs, scratch) || (is_power && pairs >= 16 && scratch != nullptr && pairs <= part * part);
    return has_size && addresses % (2 * sizeof(R)) == 0 && array.count() <= INT32_MAX;
}

// One pass over pairs of real numbers on one side, half a Hermitian fiber on the other.
template <class R>
BK_COLD Status fft_packed_pass(const FftArray& pairs, FftFiber complex, FftPacking packing, const void* x, void* y,
                               void* scratch, const Launch& launch) {
    complex.length = pairs.extent[complex.axis];
    complex.in_swaps[0] = complex.out_swaps[0] = packing == FftPacking::kPacks;
    FftPass pass = whole_fibers(pairs, complex);
    pass.packing = packing;
    choose_lanes(pass);
    return fft_pass<R>(pass, x, y, scratch, launch);
}

// Two passes over split fibers of pairs: the one on the side of half the Hermitian fibers unpacks or packs.
template <class R>
BK_COLD Status fft_packed_parts(const FftArray& pairs, FftFiber complex, FftPacking packing, const void* x, void* y,
                                void* scratch, const Launch& launch) {
    const bool unpacks = packing == FftPacking::kUnpacks;
    complex.length = pairs.extent[complex.axis];
    complex.in_swaps[0] = complex.out_swaps[0] = !unpacks;
    const FftParts parts = FftParts::of(complex.length, fft_most_part_values<R>(false));
    int64_t between[kMaxRank];
    dense_strides(pairs, between);
    FftPass pass = part_of_fibers(pairs, complex, parts, 0, pairs.in, between, false, !unpacks);
    pass.packing = packing;
    BK_TRY(fft_pass<R>(pass, x, scratch, nullptr, launch));
    pass = part_of_fibers(pairs, complex, parts, 1, between, pairs.out, false, unpacks);
    if (unpacks) pass.packing = packing;
    return fft_pass<R>(pass, scratch, y, nullptr, launch);
}

template <class R>
BK_COLD Status fft_real_packed(const FftArray& array, const FftFiber& of, const void* x, void* y, void* scratch,
                               const Launch& launch) {
    FftArray pairs = array;
    pairs.extent[of.axis] /= 2;
    strides_of_pairs(array, of.axis, array.in, pairs.in);
    FftFiber complex;
    complex.axis = of.axis;
    complex.scale = of.scale;
    complex.present = of.present;  // real numbers in a packed pass, an even number of them elsewhere
    if (packs_whole<R>(pairs.extent[of.axis], scratch))
        return fft_packed_pass<R>(pairs, complex, FftPacking::kUnpacks, x, y, scratch, launch);
    if constexpr (BK_CUDA) {
        return fft_packed_parts<R>(pairs, complex, FftPacking::kUnpacks, x, y, scratch, launch);
    } else {
        complex.present = of.present == INT64_MAX ? INT64_MAX : of.present / 2;
        BK_TRY(fft_axis<R>(pairs, complex, false, x, y, scratch, launch));
        return fft_unpack<R>(whole_fibers(array, of), y, launch);
    }
}

template <class R>
BK_COLD Status fft_hermitian_packed(const FftArray& array, const FftFiber& of, const void* x, void* y, void* scratch,
                                    const Launch& launch) {
    FftArray packing = array, pairs = array;
    strides_of_pairs(array, of.axis, array.out, packing.out);
    pairs.extent[of.axis] /= 2;
    std::copy(packing.out, packing.out + kMaxRank, pairs.out);
    FftFiber complex;
    complex.axis = of.axis;
    complex.scale = of.scale;
    if (packs_whole<R>(pairs.extent[of.axis], scratch))
        return fft_packed_pass<R>(pairs, complex, FftPacking::kPacks, x, y, scratch, launch);
    if constexpr (BK_CUDA) {
        return fft_packed_parts<R>(pairs, complex, FftPacking::kPacks, x, y, scratch, launch);
    } else {
        std::copy(packing.out, packing.out + kMaxRank, pairs.in);
        BK_TRY(fft_pack<R>(whole_fibers(packing, of), x, y, launch));
        return fft_axis<R>(pairs, complex, true, y, y, scratch, launch);
    }
}

// Transforms x into y; x may be y where both sides are complex and have the same strides. `scratch` has fft_axis_bytes, or
// is NULL: then long fibers cost more.
template <class R>
Status fft_axis(const FftArray& array, FftFiber of, bool is_inverse, const void* x, void* y, void* scratch,
                const Launch& launch) {
    const int64_t n = array.extent[of.axis];
    of.length = n;
    const bool is_forward = of.in_form == FftForm::kReal && of.out_form == FftForm::kHermitian && !is_inverse;
    const bool is_back = of.in_form == FftForm::kHermitian && of.out_form == FftForm::kReal && is_inverse;
    const bool is_served = BK_CUDA ? gpu_packs<R>(array, n / 2, x, y, scratch) : !is_chirped<R>(n / 2) || scratch != nullptr;
    // The rest may be zeros.
    const int64_t needed = BK_CUDA || packs_whole<R>(n / 2, scratch) || of.present % 2 == 0 ? 0 : n;
    if (is_forward && is_served && packs_real(array, of, array.in, needed))
        return fft_real_packed<R>(array, of, x, y, scratch, launch);
    if (is_back && is_served && packs_real(array, of, array.out, n / 2 + 1))
        return fft_hermitian_packed<R>(array, of, x, y, scratch, launch);
    of.in_swaps[0] = of.out_swaps[0] = is_inverse;
    if (is_chirped<R>(n) && scratch != nullptr) return fft_chirped<R>(array, of, x, y, scratch, launch);
    const bool is_complex = of.in_form == FftForm::kComplex && of.out_form == FftForm::kComplex;
    if (fft_takes_alone<R>(n) || (is_smooth(n) && (is_complex || scratch != nullptr)))
        return fft_parts<R>(array, of, x, y, scratch, launch);
    if (x == y)
        return fail(Status::kWorkspaceTooSmall,
                    "an axis of %lld elements, which has a large prime factor, needs a workspace in place",
                    static_cast<long long>(n));
    return fft_direct<R>(whole_fibers(array, of), x, y, launch);
}

}  // namespace bk
