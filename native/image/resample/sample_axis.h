// SPDX-License-Identifier: Apache-2.0
// Interpolation along one axis as a banded matrix A: y[o] = sum over i of A[o, i] x[i].
//
// Output o lies at position p(o) = (o + 1/2) step - 1/2 of the input, or o step with aligned corners; computed in f64. Rows of
// A have one nonzero entry (nearest), two (linear) or four (cubic convolution, Keys 1981, with parameter a), those outside of
// the input added to that of the edge; or equal weights over the inputs that cell o overlaps (area). Both ends of a row's
// nonzero entries rise with o, so that columns have contiguous nonzero entries, too, and the gradient is a gather.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"

namespace bk::image {

// The last three are filters (filter_table.h) of windows that grow with the step.
enum class ResampleMode : int32_t { kNearest, kNearestExact, kLinear, kCubic, kArea, kLanczos, kBox, kHamming };
constexpr int32_t kResampleModes = 8;

// Indices [first, end).
struct Window {
    int64_t first, end;
};

// Weight of an element at this distance: Keys's kernel.
template <class C>
BK_HD C cubic_weight(C distance, C a) {
    const C d = distance < C(0) ? -distance : distance;
    if (d <= C(1)) return math::product<C>(math::product<C>(math::product<C>(a + C(2), d) - (a + C(3)), d), d) + C(1);
    if (d < C(2)) return math::product<C>(math::product<C>(math::product<C>(d - C(5), d) + C(8), d) - C(4), a);
    return C(0);
}

struct SampleAxis {
    int64_t in = 1, out = 1;
    ResampleMode mode = ResampleMode::kNearest;
    bool is_exact = true;  // the step of nearest modes is in / out, and indices are computed in integers
    double step = 1, offset = 0, inverse = 1;
    double inverse_out = 1, inverse_in = 1;
    double a = 0;

    // `factor` is that of the extents if it is not 0, and replaces out / in, also with aligned corners.
    static SampleAxis of(ResampleMode mode, int64_t in, int64_t out, bool align_corners, double factor, double a) {
        SampleAxis axis;
        axis.in = in;
        axis.out = out;
        axis.mode = mode;
        axis.a = a;
        axis.is_exact = factor == 0;
        if (factor != 0)
            axis.step = 1 / factor;
        else if (align_corners)
            axis.step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
        else
            axis.step = static_cast<double>(in) / static_cast<double>(out > 0 ? out : 1);
        axis.offset = align_corners ? 0 : 0.5;
        axis.inverse = axis.step > 0 ? 1 / axis.step : 0;
        axis.inverse_out = 1 / static_cast<double>(out > 0 ? out : 1);
        axis.inverse_in = 1 / static_cast<double>(in > 0 ? in : 1);
        return axis;
    }

    // Position of output o, at most 4 elements outside of the input: beyond that all weight is on the edge.
    BK_HD double position(int64_t o) const {
        const double p = math::product<double>(static_cast<double>(o) + offset, step) - offset;
        const double most = static_cast<double>(in) + 4;
        return p < -4 ? -4 : p > most ? most : p;
    }
    BK_HD int64_t clamped(int64_t i) const { return i < 0 ? 0 : i >= in ? in - 1 : i; }

    BK_HD bool is_unit() const { return in == 1 && out == 1; }
    BK_HD bool has_one_entry() const { return mode == ResampleMode::kNearest || mode == ResampleMode::kNearestExact; }

    // Whether all windows of rows, or of columns, have equal entries, and both follow from integers.
    BK_HD bool has_equal_weights(bool is_adjoint) const {
        return is_unit() || (is_adjoint ? has_one_entry() && is_exact : mode == ResampleMode::kArea);
    }
    BK_HD Window equal_window(bool is_adjoint, int64_t own) const {
        if (is_unit()) return {0, 1};
        if (is_adjoint) return {first_output(own), first_output(own + 1)};
        return {over_out(own * in), over_out((own + 1) * in + out - 1)};
    }
    template <class C>
    BK_HD C equal_weight(bool is_adjoint, const Window& window) const {
        return is_adjoint ? C(1) : C(1) / static_cast<C>(window.end - window.first);
    }

    // Nonzero entries of row o.
    BK_HD Window row(int64_t o) const {
        if (is_unit()) return {0, 1};
        switch (mode) {
            case ResampleMode::kNearest:
            case ResampleMode::kNearestExact: {
                const int64_t i = nearest(o);
                return {i, i + 1};
            }
            case ResampleMode::kArea: return {over_out(o * in), over_out((o + 1) * in + out - 1)};
            default: break;
        }
        const int64_t base = static_cast<int64_t>(::floor(position(o)));
        if (mode == ResampleMode::kLinear) return {clamped(base), clamped(base + 1) + 1};
        return {clamped(base - 1), clamped(base + 2) + 1};
    }

    // A[o, i] of an i in row(o).
    template <class C>
    BK_HD C weight(int64_t o, int64_t i) const {
        if (mode == ResampleMode::kLinear) {
            const double last = static_cast<double>(in - 1), p = position(o);
            const C distance = static_cast<C>((p < 0 ? 0 : p > last ? last : p) - static_cast<double>(i));
            return C(1) - (distance < C(0) ? -distance : distance);
        }
        if (mode == ResampleMode::kCubic) return cubic<C>(position(o), i);
        if (mode != ResampleMode::kArea) return C(1);
        const Window own = row(o);
        return C(1) / static_cast<C>(own.end - own.first);
    }

    // Nonzero entries of column i: the outputs that read input i. The estimate follows from the step; rows decide.
    BK_HD Window column(int64_t i) const {
        if (is_unit()) return {0, 1};
        if (has_one_entry() && is_exact) return {first_output(i), first_output(i + 1)};
        const bool is_cell = mode != ResampleMode::kLinear && mode != ResampleMode::kCubic;  // nearest and area
        const double reach = mode == ResampleMode::kCubic ? 2 : 1, at = static_cast<double>(i);
        const double from = is_cell ? at : at + offset - reach, to = is_cell ? at + 1 : at + offset + reach;
        const double shift = is_cell ? 0 : offset;
        int64_t first = i == 0 ? 0 : output_near(from * inverse - shift);
        while (first > 0 && row(first - 1).end > i) --first;
        while (first < out && row(first).end <= i) ++first;
        int64_t end = i == in - 1 ? out : output_near(to * inverse - shift);
        end = end < first ? first : end;
        while (end > first && row(end - 1).first > i) --end;
        while (end < out && row(end).first <= i) ++end;
        return {first, end};
    }

private:
    BK_HD int64_t output_near(double o) const {
        const double most = static_cast<double>(out);
        return static_cast<int64_t>(o < 0 ? 0 : o > most ? most : o);
    }
    // floor(n / divisor) for quotients up to 2^31: the f64 product errs by less than 1.
    BK_HD static int64_t quotient(int64_t n, int64_t divisor, double reciprocal) {
        const int64_t estimate = static_cast<int64_t>(static_cast<double>(n) * reciprocal), rest = n - estimate * divisor;
        return estimate - (rest < 0 ? 1 : 0) + (rest >= divisor ? 1 : 0);
    }
    BK_HD int64_t over_out(int64_t n) const { return quotient(n, out, inverse_out); }
    // The first output whose nearest input is i or a later one, in integers: ceil(i out / in), or half an output before.
    BK_HD int64_t first_output(int64_t i) const {
        if (mode == ResampleMode::kNearest) return quotient(i * out + in - 1, in, inverse_in);
        return quotient(2 * i * out + in - 1, 2 * in, 0.5 * inverse_in);
    }
    BK_HD int64_t nearest(int64_t o) const {
        const int64_t half = mode == ResampleMode::kNearestExact ? 1 : 0;
        if (is_exact) return over_out(half == 0 ? o * in : ((2 * o + 1) * in) >> 1);
        const double p = math::product<double>(static_cast<double>(o) + 0.5 * static_cast<double>(half), step);
        return p >= static_cast<double>(in) ? in - 1 : static_cast<int64_t>(p);
    }
    // The sum of the entries that fall on i: one inside of the input, several at its edges.
    template <class C>
    BK_HD C cubic(double p, int64_t i) const {
        const double base = ::floor(p);
        const int64_t first = static_cast<int64_t>(base) - 1;
        if (first >= 0 && first + 3 < in) return cubic_weight<C>(static_cast<C>(p - static_cast<double>(i)), static_cast<C>(a));
        C sum = C(0);
        for (int k = 0; k < 4; ++k)
            if (clamped(first + k) == i)
                sum += cubic_weight<C>(static_cast<C>(p - static_cast<double>(first + k)), static_cast<C>(a));
        return sum;
    }
};

}  // namespace bk::image
