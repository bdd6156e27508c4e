// SPDX-License-Identifier: Apache-2.0
// Geometry of pooling: which input cells a window has, and which windows have a cell, axis by axis.
//
// Images have one to three spatial axes, padded to three by axes of one cell. Each operand has 64-bit strides for batch,
// channel and spatial axes, so that channels-first and channels-last are the same description. Window o of an axis has
// the cells o * step - pad_low + t * dilation, t in [0, kernel), of which those in [0, in) count; an adaptive one has
// [floor(o in / out), ceil((o + 1) in / out)).
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/platform.h"

namespace bk::pool {

constexpr int kAxes = 3;

// The cells of one window along an axis.
struct Taps {
    int32_t first = 0;   // its first cell in the image
    int32_t count = 1;   // its cells in the image, `dilation` apart
    int32_t padded = 1;  // its cells in the padded image: those of the averages that include padding
};

// The windows, [low, high], that may have a cell; some of them step over it if they are dilated.
struct Cover {
    int32_t low, high;
};

struct Axis {
    int32_t in = 1, out = 1;
    int32_t kernel = 1, step = 1, dilation = 1, pad_low = 0, pad_high = 0;
    bool is_adaptive = false;
    FastDiv<uint32_t> by_step{1};
    double inverse_in = 1, inverse_out = 1;  // if is_adaptive

    static Axis adaptive(int32_t in, int32_t out) {
        Axis axis;
        axis.in = in, axis.out = out, axis.is_adaptive = true;
        axis.inverse_in = 1.0 / in, axis.inverse_out = out == 0 ? 1 : 1.0 / out;
        const int32_t widest = out == 0 ? 0 : in / out + (in % out != 0 ? 2 : 0);
        axis.kernel = widest < in ? widest : in;
        return axis;
    }
    static Axis windows(int32_t in, int32_t out, int32_t kernel, int32_t step, int32_t dilation, int32_t pad_low,
                        int32_t pad_high) {
        Axis axis;
        axis.in = in, axis.out = out, axis.kernel = kernel, axis.step = step;
        axis.dilation = dilation, axis.pad_low = pad_low, axis.pad_high = pad_high;
        axis.by_step = FastDiv<uint32_t>(step);
        return axis;
    }

    // Cells between the first and the last one of a window, both included.
    BK_HD int64_t reach() const { return int64_t{kernel - 1} * dilation + 1; }

    BK_HD Taps taps(int32_t o) const {
        if (is_adaptive && out == 1) return {0, in, in};
        if (is_adaptive) {
            const int32_t first = scaled(o, in, out, inverse_out), end = scaled_up(o + 1, in, out, inverse_out);
            return {first, end - first, end - first};
        }
        const int32_t start = o * step - pad_low;
        const int32_t skipped = start < 0 ? cells_below(-start) : 0;
        const int32_t stop = least(kernel, cells_below(in - start));
        const int32_t padded = least(kernel, cells_below(in + pad_high - start));
        if (stop <= skipped) return {0, 0, padded};
        return {start + skipped * dilation, stop - skipped, padded};
    }

    BK_HD Cover cover(int32_t cell) const {
        if (is_adaptive) return {scaled(cell, out, in, inverse_in), scaled_up(cell + 1, out, in, inverse_in) - 1};
        const int32_t at = cell + pad_low, before = at - (kernel - 1) * dilation;
        const int32_t low = before <= 0 ? 0 : static_cast<int32_t>(by_step(static_cast<uint32_t>(before - 1)).quotient) + 1;
        return {low, least(static_cast<int32_t>(by_step(static_cast<uint32_t>(at)).quotient), out - 1)};
    }

    // Whether a window of cover(cell) has the cell.
    BK_HD bool has(int32_t o, int32_t cell) const {
        return is_adaptive || dilation == 1 || (cell + pad_low - o * step) % dilation == 0;
    }

private:
    static BK_HD int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
    // Cells of a window that lie below a distance from its start.
    BK_HD int32_t cells_below(int32_t distance) const {
        if (dilation == 1 || distance <= 0) return distance;
        return (distance - 1) / dilation + 1;
    }
    // floor(n / b) of quotients below 2^31: the f64 product errs by less than 1, and a division of 64 bits would be a call.
    static BK_HD int32_t quotient(int64_t n, int32_t b, double inverse) {
        const int64_t estimate = static_cast<int64_t>(static_cast<double>(n) * inverse), rest = n - estimate * b;
        return static_cast<int32_t>(estimate - (rest < 0 ? 1 : 0) + (rest >= b ? 1 : 0));
    }
    // floor(i a / b) and its ceiling, in 32 bits if b permits.
    static BK_HD int32_t scaled(int32_t i, int32_t a, int32_t b, double inverse) {
        constexpr int32_t kSmall = 46340;  // whose square is below 2^31
        if (i <= kSmall && b <= kSmall) return i * (a / b) + i * (a % b) / b;
        return quotient(int64_t{i} * a, b, inverse);
    }
    static BK_HD int32_t scaled_up(int32_t i, int32_t a, int32_t b, double inverse) {
        constexpr int32_t kSmall = 46340;
        if (i <= kSmall && b <= kSmall) return i * (a / b) + (i * (a % b) + b - 1) / b;
        return quotient(int64_t{i} * a + b - 1, b, inverse);
    }
};

// Offset of an element of an operand: batch, channel, and a cell or window.
struct Strides {
    int64_t batch = 0, channel = 0, axis[kAxes] = {};

    BK_HD int64_t at(int32_t a, int32_t b, int32_t c) const { return a * axis[0] + b * axis[1] + c * axis[2]; }
    BK_HD int64_t plane(int64_t n, int64_t c) const { return n * batch + c * channel; }
};

struct Problem {
    int64_t batch = 0, channels = 0;
    Axis axis[kAxes];
    Strides x, dx;           // of operands with cells
    Strides y, dy, indices;  // and with windows

    int64_t planes() const { return batch * channels; }
    BK_HD int64_t cells() const { return int64_t{axis[0].in} * axis[1].in * axis[2].in; }
    BK_HD int64_t windows() const { return int64_t{axis[0].out} * axis[1].out * axis[2].out; }
    int64_t window_cells() const { return int64_t{axis[0].kernel} * axis[1].kernel * axis[2].kernel; }
    // The number of a cell in its plane, row-major, whatever the strides.
    BK_HD int64_t cell_number(int32_t a, int32_t b, int32_t c) const { return (int64_t{a} * axis[1].in + b) * axis[2].in + c; }
};

// Divisor of an average.
struct Divisor {
    bool includes_padding = false;
    int64_t fixed = 0;  // if not 0

    BK_HD int64_t of(const Taps& a, const Taps& b, const Taps& c) const {
        if (fixed != 0) return fixed;
        if (includes_padding) return int64_t{a.padded} * b.padded * c.padded;
        return int64_t{a.count} * b.count * c.count;
    }
};

// Division of 64-bit numbers that is fast where both are below 2^31.
struct LongDiv {
    FastDiv<uint32_t> fast;
    int64_t divisor = 1;

    LongDiv() = default;
    explicit LongDiv(int64_t by) : fast(by > INT32_MAX ? 1 : by), divisor(by > 0 ? by : 1) {}
    BK_HD DivMod<int64_t> operator()(int64_t n) const {
        if (n <= INT32_MAX && divisor <= INT32_MAX) {
            const auto split = fast(static_cast<uint32_t>(n));
            return {static_cast<int64_t>(split.quotient), static_cast<int64_t>(split.remainder)};
        }
        return {n / divisor, n % divisor};
    }
};

}  // namespace bk::pool
