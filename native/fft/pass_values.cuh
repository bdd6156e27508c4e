// SPDX-License-Identifier: Apache-2.0
// Values of a pass on a GPU: where they are in memory, with the forms, factors and scales of both sides.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "fft/butterflies.h"
#include "fft/problem.h"
#include "fft/roots.h"

namespace bk {

struct LaneOffset {
    int64_t in, out, position, rest;
};

BK_DEVICE LaneOffset lane_offset(const FftPass& pass, int64_t index) {
    LaneOffset at{0, 0, 0, 0};
    for (int a = 0; a < pass.axes; ++a) {
        const FftAxis& axis = pass.axis[a];
        const int64_t along = index % axis.extent;
        index /= axis.extent;
        at.in += along * axis.in;
        at.out += along * axis.out;
        at.position += along * axis.position;
        at.rest += along * axis.rest;
    }
    return at;
}

template <class R>
BK_DEVICE FftValue<R> load_value(const FftPass& pass, const LaneOffset& at, int64_t e, const R* x) {
    const int64_t position = at.position + e * pass.position;
    if (pass.in_form != FftForm::kHermitian) {
        if (position >= pass.present) return {R(0), R(0)};
        if (pass.in_form == FftForm::kReal) return {x[at.in + e * pass.in], R(0)};
        return reinterpret_cast<const FftValue<R>*>(x)[at.in + e * pass.in];
    }
    const bool is_upper = 2 * position > pass.length;
    const int64_t stored = is_upper ? pass.length - position : position;
    if (stored >= pass.present) return {R(0), R(0)};
    FftValue<R> value = reinterpret_cast<const FftValue<R>*>(x)[at.in + stored * pass.in];
    if (stored == 0 || 2 * stored == pass.length) return {value.re, R(0)};
    const R interior = static_cast<R>(pass.interior);
    return {value.re * interior, (is_upper ? -value.im : value.im) * interior};
}

template <class R>
BK_DEVICE FftValue<R> times_factor(const FftPass& pass, FftFactor factor, int64_t position, const FftValue<R>& value) {
    const auto* spectrum = static_cast<const FftValue<R>*>(pass.spectrum);
    const FftValue<R> by = factor == FftFactor::kSpectrum ? spectrum[position] : chirp<R>(factor, position, pass);
    return {value.re * by.re - value.im * by.im, value.re * by.im + value.im * by.re};
}

// A value of the tile: from memory, with its factor.
template <class R>
BK_DEVICE FftValue<R> take_value(const FftPass& pass, const LaneOffset& at, int64_t e, const R* x) {
    const int64_t position = at.position + e * pass.position;
    FftValue<R> value{R(1), R(0)};
    if (pass.in_factor == FftFactor::kChirp && position >= pass.length) return {R(0), R(0)};
    if (pass.in_factor != FftFactor::kFilter) value = load_value(pass, at, e, x);
    if (pass.in_swaps[0]) value = {value.im, value.re};
    if (pass.in_factor != FftFactor::kNone) value = times_factor(pass, pass.in_factor, position, value);
    return pass.in_swaps[1] ? FftValue<R>{value.im, value.re} : value;
}

template <class R>
BK_DEVICE void store_value(const FftPass& pass, const LaneOffset& at, int64_t k, FftValue<R> value, R* y) {
    const R scale = static_cast<R>(pass.scale);
    const int64_t position = at.position + k * pass.position;
    if (pass.out_factor == FftFactor::kChirp && position >= pass.length) return;
    if (pass.out_swaps[0]) value = {value.im, value.re};
    if (pass.out_factor != FftFactor::kNone) value = times_factor(pass, pass.out_factor, position, value);
    if (pass.out_swaps[1]) value = {value.im, value.re};
    value = {value.re * scale, value.im * scale};
    if (pass.out_form == FftForm::kReal) {
        y[at.out + k * pass.out] = value.re;
    } else if (pass.out_form == FftForm::kComplex) {
        reinterpret_cast<FftValue<R>*>(y)[at.out + k * pass.out] = value;
    } else {
        if (2 * position > pass.length) return;
        const R interior = position == 0 || 2 * position == pass.length ? R(1) : static_cast<R>(pass.interior);
        reinterpret_cast<FftValue<R>*>(y)[at.out + position * pass.out] = {value.re * interior, value.im * interior};
    }
}

}  // namespace bk
