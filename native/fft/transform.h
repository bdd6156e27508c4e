// SPDX-License-Identifier: Apache-2.0
// A Fourier transform along one axis of an array, as passes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fft/core.h"
#include "fft/problem.h"

namespace bk {

// An array of up to kMaxRank axes. Extents are those of the complex numbers of a whole line, also where a side holds a half.
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

struct FftLine {
    int axis = 0;
    bool is_inverse = false;
    double scale = 1;
    FftForm in_form = FftForm::kComplex, out_form = FftForm::kComplex;
};

// Appends an axis; those of one index are left out.
inline void add_axis(FftPass& pass, const FftAxis& axis) {
    if (axis.extent != 1) pass.axis[pass.axes++] = axis;
}

// The lanes run along the axis whose neighbours lie closest together.
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

// The pass of whole lines; `line` is their length.
inline FftPass whole_lines(const FftArray& array, const FftLine& of) {
    FftPass pass;
    pass.line = array.extent[of.axis];
    pass.n = static_cast<int32_t>(std::min<int64_t>(pass.line, INT32_MAX));
    pass.in = array.in[of.axis];
    pass.out = array.out[of.axis];
    pass.place = 1;
    pass.is_inverse = of.is_inverse;
    pass.scale = of.scale;
    pass.in_form = of.in_form;
    pass.out_form = of.out_form;
    for (int a = 0; a < array.rank; ++a)
        if (a != of.axis) add_axis(pass, {array.extent[a], array.in[a], array.out[a]});
    return pass;
}

// Pass `number` of a split line. `from` and `to` have the array's strides of its two sides.
inline FftPass part_of_lines(const FftArray& array, const FftLine& of, const FftParts& parts, int number,
                             const int64_t (&from)[kMaxRank], const int64_t (&to)[kMaxRank], bool stays_in_place) {
    const int last = parts.count - 1;
    FftPass pass;
    pass.line = array.extent[of.axis];
    pass.n = parts.n[number];
    pass.is_inverse = of.is_inverse;
    const int64_t in = from[of.axis], out = to[of.axis];
    int64_t before = 1, behind = 1;
    for (int p = 0; p < number; ++p) before *= parts.n[p];
    for (int p = number + 1; p <= last; ++p) behind *= parts.n[p];
    const bool reads_half = number == 0 && of.in_form == FftForm::kHermitian;
    if (number == 0) pass.in_form = of.in_form;
    pass.in = reads_half ? in : behind * in;
    if (number < last || stays_in_place) {
        pass.out = behind * out;
        pass.place = behind;
        pass.period = number < last ? pass.n * behind : 0;
        add_axis(pass, {behind, reads_half ? 0 : in, out, 1, 1});
        add_axis(pass, {before, pass.n * behind * in, pass.n * behind * out, 0, 0});
        if (number == last) pass.scale = of.scale;
    } else {
        const bool writes_half = of.out_form == FftForm::kHermitian;
        pass.out_form = of.out_form;
        pass.scale = of.scale;
        pass.out = writes_half ? out : before * out;
        pass.place = before;
        int64_t inner = 1, outer = pass.line;
        for (int p = 0; p < last; ++p) {
            outer /= parts.n[p];
            add_axis(pass, {parts.n[p], outer * in, writes_half ? 0 : inner * out, inner, 0});
            inner *= parts.n[p];
        }
    }
    for (int a = 0; a < array.rank; ++a)
        if (a != of.axis) add_axis(pass, {array.extent[a], from[a], to[a], 0, 0});
    choose_lanes(pass);
    return pass;
}

// Row-major strides of the array's complex numbers.
inline void dense_strides(const FftArray& array, int64_t (&stride)[kMaxRank]) {
    int64_t step = 1;
    for (int a = array.rank; a-- > 0; step *= array.extent[a]) stride[a] = step;
}

// Bytes that a transform along the axis can use: a whole array of complex numbers where lines take more than one pass.
template <class R>
int64_t fft_axis_bytes(const FftArray& array, int axis) {
    return array.extent[axis] <= fft_most_values<R>() && is_smooth(array.extent[axis]) ? 0 : array.count() * 2 * int64_t{sizeof(R)};
}

// Transforms x into y; x may be y where both sides are complex and have the same strides. `scratch` has fft_axis_bytes, or
// is NULL.
template <class R>
Status fft_axis(const FftArray& array, const FftLine& of, const void* x, void* y, void* scratch, const Launch& launch) {
    const int64_t n = array.extent[of.axis], most = fft_most_values<R>();
    FftPass whole = whole_lines(array, of);
    choose_lanes(whole);
    if (n <= most && is_smooth(n)) return fft_pass<R>(whole, x, y, launch);
    const FftParts parts = FftParts::of(n, most);
    const bool is_complex = of.in_form == FftForm::kComplex && of.out_form == FftForm::kComplex;
    if (parts.count == 0 || (scratch == nullptr && !is_complex)) return fft_direct<R>(whole, x, y, launch);
    int64_t dense[kMaxRank];
    dense_strides(array, dense);
    const bool stays = scratch == nullptr;
    void* middle = stays ? y : scratch;
    const int64_t(&between)[kMaxRank] = stays ? array.out : dense;
    for (int p = 0; p < parts.count; ++p) {
        const bool is_first = p == 0, is_last = p + 1 == parts.count;
        const FftPass pass = part_of_lines(array, of, parts, p, is_first ? array.in : between, is_last ? array.out : between, stays);
        BK_TRY(fft_pass<R>(pass, is_first ? x : middle, is_last ? y : middle, launch));
    }
    return stays ? fft_unscramble<R>(whole, parts, y, launch) : Status::kOk;
}

}  // namespace bk
