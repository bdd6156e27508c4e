// SPDX-License-Identifier: Apache-2.0
// Conversions between RGB, BGR, grey, Y'CbCr of ITU-R BT.601 and BT.709 in full range, and HSV; and NV12 to RGB.
//
// With luma Y = kr R + kg G + kb B, Cb = (B - Y) / (2 (1 - kb)) and Cr = (R - Y) / (2 (1 - kr)), both moved by half of the
// range. Ranges are 0 to 1, and 0 to 255 for bytes, which are rounded to nearest and cut. Hue is the angle over 360 degrees: a
// byte has 255 steps. NV12: rows of luma, then rows of pairs (Cb, Cr), one for 2 x 2 pixels, which are repeated.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "image/pixels/pixel_rows.h"

namespace bk::pixels {

enum class ColorCode : int32_t {
    kReverse,    // RGB to BGR and back
    kRgbToGray,  // luma of BT.601
    kBgrToGray,
    kGrayToRgb,
    kRgbToYcc601,
    kYcc601ToRgb,
    kRgbToYcc709,
    kYcc709ToRgb,
    kRgbToHsv,
    kHsvToRgb,
};
constexpr int32_t kColorCodes = 10;

// Weights of red and blue in luma.
struct Luma {
    double red, blue;

    static Luma of(bool is_709) { return is_709 ? Luma{0.2126, 0.0722} : Luma{0.299, 0.114}; }
};

// y = matrix x + offset; the offset in units of the range.
template <class C>
struct ColorMatrix {
    C at[3][3];
    C offset[3];

    // Y'CbCr of full range.
    static ColorMatrix from_rgb(const Luma& luma) {
        const double green = 1 - luma.red - luma.blue, u = 2 * (1 - luma.blue), v = 2 * (1 - luma.red);
        return {{{C(luma.red), C(green), C(luma.blue)},
                 {C(-luma.red / u), C(-green / u), C(0.5)},
                 {C(0.5), C(-green / v), C(-luma.blue / v)}},
                {C(0), C(0.5), C(0.5)}};
    }
    // Converts luma and chroma of ranges `of_luma` and `of_chroma`, luma from `black` on; the caller centres chroma.
    static ColorMatrix to_rgb(const Luma& luma, double of_luma, double of_chroma) {
        const double green = 1 - luma.red - luma.blue, u = 2 * (1 - luma.blue) / of_chroma, v = 2 * (1 - luma.red) / of_chroma;
        const C y = C(1 / of_luma);
        return {{{y, C(0), C(v)}, {y, C(-u * luma.blue / green), C(-v * luma.red / green)}, {y, C(u), C(0)}},
                {C(0), C(0), C(0)}};
    }
};

template <class T>
using color_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

// An element as a number of [0, range], and back.
template <class T>
struct ColorRange {
    using C = color_t<T>;
    static constexpr bool kIsByte = std::is_same_v<T, uint8_t>;
    static constexpr C kRange = kIsByte ? C(255) : C(1);
    static constexpr C kHalf = kIsByte ? C(128) : C(0.5);

    static BK_HD C load(const T* at) {
        if constexpr (kIsByte)
            return static_cast<C>(*at);
        else
            return widen(*at);
    }
    static BK_HD T made(C value) {
        if constexpr (kIsByte) {
            const C cut = value > C(0) ? (value < C(255) ? value : C(255)) : C(0);
            return static_cast<uint8_t>(math::rint<C>(cut));
        } else {
            return narrow<T>(value);
        }
    }
};

template <class T>
struct ColorJob {
    using C = color_t<T>;
    using Range = ColorRange<T>;
    static constexpr int64_t kPixels = 2048;
    ColorCode code;
    ColorMatrix<C> matrix;
    int64_t pixels, tiles;  // of an image
    int32_t in, out;        // channels
    bool is_last;           // channels are adjacent
    const T* x;
    T* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t image = item / tiles, begin = item % tiles * kPixels;
        const int64_t end = begin + kPixels < pixels ? begin + kPixels : pixels;
        const int64_t in_channel = is_last ? 1 : pixels, out_channel = in_channel;
        for (int64_t k = begin + team.rank; k < end; k += team.size) {
            const T* const from = x + image * pixels * in + (is_last ? k * in : k);
            T* const to = y + image * pixels * out + (is_last ? k * out : k);
            if (code == ColorCode::kReverse || code == ColorCode::kGrayToRgb) {
                const bool reverses = code == ColorCode::kReverse;
                for (int c = 0; c < 3; ++c) to[c * out_channel] = from[reverses ? (2 - c) * in_channel : 0];
                continue;
            }
            const C a = Range::load(from), b = Range::load(from + in_channel), c = Range::load(from + 2 * in_channel);
            C made[3];
            if (code == ColorCode::kRgbToHsv)
                to_hsv(a, b, c, made);
            else if (code == ColorCode::kHsvToRgb)
                from_hsv(a, b, c, made);
            else
                apply(a, b, c, made);
            for (int each = 0; each < 3; ++each)
                if (each < out) to[each * out_channel] = Range::made(made[each]);
        }
    }

    BK_HD void apply(C a, C b, C c, C* made) const {
        const bool is_inverse = code == ColorCode::kYcc601ToRgb || code == ColorCode::kYcc709ToRgb;
        const C u = is_inverse ? b - Range::kHalf : b, v = is_inverse ? c - Range::kHalf : c;
        BK_UNROLL
        for (int k = 0; k < 3; ++k) {
            const C sum = matrix.at[k][0] * a + matrix.at[k][1] * u + matrix.at[k][2] * v;
            made[k] = sum + matrix.offset[k] * (C(2) * Range::kHalf);
        }
    }

    // Smith 1978, "Color gamut transform pairs". Greys have hue 0, black has saturation 0.
    static BK_HD void to_hsv(C r, C g, C b, C* made) {
        const C most = r > g ? (r > b ? r : b) : (g > b ? g : b), least = r < g ? (r < b ? r : b) : (g < b ? g : b);
        const C chroma = most - least;
        C hue = C(0);
        if (chroma > C(0)) {
            const C sixth = most == r ? (g - b) / chroma : most == g ? C(2) + (b - r) / chroma : C(4) + (r - g) / chroma;
            hue = sixth / C(6);
            if (hue < C(0)) hue += C(1);
        }
        made[0] = hue * Range::kRange;
        made[1] = most > C(0) ? chroma / most * Range::kRange : C(0);
        made[2] = most;
    }
    static BK_HD void from_hsv(C h, C s, C v, C* made) {
        const C saturation = s / Range::kRange, angle = h / Range::kRange, sixth = (angle - math::floor<C>(angle)) * C(6);
        BK_UNROLL
        for (int k = 0; k < 3; ++k) {  // red, green and blue are the same hat, moved by 0, 4 and 2 sixths
            const C moved = sixth + (k == 0 ? C(5) : k == 1 ? C(3) : C(1)), at = moved >= C(6) ? moved - C(6) : moved;
            const C side = at < C(4) - at ? at : C(4) - at, hat = side < C(1) ? (side > C(0) ? side : C(0)) : C(1);
            made[k] = v - v * saturation * hat;
        }
    }
};

template <class T>
struct ConvertColor {
    int32_t batch;
    int64_t pixels;
    int32_t color_code, channels_last;

    ColorCode code() const { return static_cast<ColorCode>(color_code); }
    int64_t channels_in() const { return code() == ColorCode::kGrayToRgb ? 1 : 3; }
    int64_t channels_out() const { return code() == ColorCode::kRgbToGray || code() == ColorCode::kBgrToGray ? 1 : 3; }
    Work work() const { return all_or_none(batch * pixels); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"pixels", pixels}}));
        if (color_code < 0 || color_code >= kColorCodes)
            return fail(Status::kInvalidProblem, "color_code is %d, must be in [0, %d]", color_code, kColorCodes - 1);
        return require_flag("channels_last", channels_last);
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        using C = color_t<T>;
        const bool is_709 = code() == ColorCode::kRgbToYcc709 || code() == ColorCode::kYcc709ToRgb;
        const bool is_inverse = code() == ColorCode::kYcc601ToRgb || code() == ColorCode::kYcc709ToRgb;
        const Luma luma = Luma::of(is_709);
        ColorJob<T> job{};
        job.code = code();
        job.matrix = is_inverse ? ColorMatrix<C>::to_rgb(luma, 1, 1) : ColorMatrix<C>::from_rgb(luma);
        if (code() == ColorCode::kBgrToGray) {
            job.matrix.at[0][0] = C(luma.blue);
            job.matrix.at[0][2] = C(luma.red);
        }
        job.pixels = pixels;
        job.tiles = ceil_div<int64_t>(pixels, ColorJob<T>::kPixels);
        job.in = static_cast<int32_t>(channels_in());
        job.out = static_cast<int32_t>(channels_out());
        job.is_last = channels_last != 0;
        job.x = x;
        job.y = y;
        return run_teams(launch, batch * job.tiles, int64_t{1} << 14, job);
    }
};

template <class T>
struct Nv12Job {
    using C = color_t<T>;
    ColorMatrix<C> matrix;
    C black, gain;  // luma of black; range of the result over that of bytes
    int64_t height, width;
    bool is_last, is_bgr;
    const uint8_t* x;
    T* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t image = item / height, i = item % height;
        const uint8_t* const frame = x + image * (height + height / 2) * width;
        const uint8_t* const chroma = frame + (height + i / 2) * width;
        T* const to = y + 3 * image * height * width + (is_last ? 3 * i * width : i * width);
        for (int64_t j = team.rank; j < width; j += team.size) {
            const C luma = static_cast<C>(frame[i * width + j]) - black;
            const C u = static_cast<C>(chroma[j / 2 * 2]) - C(128), v = static_cast<C>(chroma[j / 2 * 2 + 1]) - C(128);
            BK_UNROLL
            for (int k = 0; k < 3; ++k) {
                const C sum = matrix.at[k][0] * luma + matrix.at[k][1] * u + matrix.at[k][2] * v;
                const C cut = sum > C(0) ? (sum < C(255) ? sum : C(255)) : C(0);
                const int64_t c = is_bgr ? 2 - k : k;
                to[is_last ? 3 * j + c : c * height * width + j] = ColorRange<T>::made(cut * gain);
            }
        }
    }
};

template <class T>
struct Nv12ToRgb {
    int32_t batch, height, width, is_709, full_range, channels_last, bgr;

    int64_t rows() const { return int64_t{height} + height / 2; }
    Work work() const { return all_or_none(int64_t{batch} * (int64_t{height} * width)); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"height", height}, {"width", width}}));
        if (height % 2 != 0) return fail(Status::kInvalidProblem, "height is %d, must be even", height);
        if (width % 2 != 0) return fail(Status::kInvalidProblem, "width is %d, must be even", width);
        BK_TRY(require_flag("is_709", is_709));
        BK_TRY(require_flag("full_range", full_range));
        BK_TRY(require_flag("channels_last", channels_last));
        return require_flag("bgr", bgr);
    }
    Status run(const uint8_t* x, T* y, const Launch& launch) const {
        using C = color_t<T>;
        Nv12Job<T> job{};
        job.matrix = full_range != 0 ? ColorMatrix<C>::to_rgb(Luma::of(is_709 != 0), 1, 1)
                                     : ColorMatrix<C>::to_rgb(Luma::of(is_709 != 0), 219.0 / 255, 224.0 / 255);
        job.black = full_range != 0 ? C(0) : C(16);
        job.gain = ColorRange<T>::kRange / C(255);
        job.height = height;
        job.width = width;
        job.is_last = channels_last != 0;
        job.is_bgr = bgr != 0;
        job.x = x;
        job.y = y;
        return run_teams(launch, int64_t{batch} * height, int64_t{width} * 5, job);
    }
};

}  // namespace bk::pixels
