// SPDX-License-Identifier: Apache-2.0
// Dynamic quantisation: the scale and zero point of each row follow from its extrema, NaN excepted.
//
// Symmetric: scale = max |x| / q_max and codes round(x * (1 / scale)). Asymmetric, as ONNX's DynamicQuantizeLinear: the range
// [min(x, 0), max(x, 0)] over q_max - q_min steps, zero point round(q_min - min / scale) and codes round(x / scale) + zero
// point. A row of zeros has scale 1. Scales are at least the least normal number, whose inverse is finite.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/math/limits.h"
#include "core/row/row_map.h"
#include "quantize/affine/affine.h"

namespace bk::quantize {

template <class T>
struct DynamicRows : RowDefaults {
    static constexpr bool kOnePass = true, kPureReduce = true, kZeroPads = true;
    using C = compute_t<T>;
    using Cached = C;
    struct Acc {
        C high, low;  // max(x, 0) and max(-x, 0)
    };
    struct Row {
        C scale, inverse;
        int32_t zero;
    };

    Rule rule;
    C largest_code;  // of symmetric codes: the caller's q_max, whose range may exceed the type's
    bool is_symmetric;

    BK_HD Row start() const { return {1, 1, 0}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return 0; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&x)[N], const W&) const {
        C high[N], low[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            high[i] = math::select(math::isnan(x[i]), C(0), x[i]);
            low[i] = -high[i];
        }
        return combine({max_of(high), max_of(low)}, identity());
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {math::max(a.high, b.high), math::max(a.low, b.low)}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        constexpr C kLeast = sizeof(C) == 8 ? C(0x1p-1022) : C(0x1p-126);
        const C steps = static_cast<C>(rule.q_max) - static_cast<C>(rule.q_min);
        const C size = math::max(all.high, all.low), width = all.high + all.low;
        C scale = is_symmetric ? size / largest_code : width / steps;
        // A width beyond the largest number, of finite extrema.
        if (!is_symmetric && width > kGreatest<C> && size <= kGreatest<C>) scale = all.high / steps + all.low / steps;
        scale = size > C(0) ? math::max(scale, kLeast) : C(1);
        row.scale = scale;
        row.inverse = C(1) / scale;
        const int32_t zero = round_to_int(static_cast<C>(rule.q_min) + all.low / scale);
        row.zero = is_symmetric ? 0 : Affine<C>::within(zero, rule.q_min, rule.q_max);
        return false;
    }
    BK_HD Pack<uint8_t> map(const Row& row, const Nothing&, int64_t, Cached x) const {
        const C steps = math::either(is_symmetric, [&] { return x * row.inverse; }, [&] { return x / row.scale; });
        const int32_t low = difference(rule.q_min, row.zero), high = difference(rule.q_max, row.zero);
        return pack(static_cast<uint8_t>(Affine<C>::within(round_to_int(steps), low, high) + row.zero));
    }
    BK_HD Pack<C, int32_t> saved(const Row& row) const { return pack(row.scale, row.zero); }
};

// U is int8_t or uint8_t.
template <class T, class U, bool kIsSymmetric>
struct DynamicRange {
    using C = compute_t<T>;
    int32_t n, d, q_min, q_max;

    Work work() const { return all_or_none(int64_t{n} * d); }
    size_t workspace_size() const { return map_rows_workspace<DynamicRows<T>>(axes()); }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"d", d}}));
        if (kIsSymmetric && q_max <= 0) return fail(Status::kInvalidProblem, "q_max is %d, must be > 0", q_max);
        BK_TRY(require_range(q_min, q_max));
        const Rule rule = rule_for<U>(q_min, q_max, false);
        if (!kIsSymmetric && rule.q_min == rule.q_max)
            return fail(Status::kInvalidProblem, "q_min is %d, must be < q_max, which is %d, within the range of codes", q_min,
                        q_max);
        return Status::kOk;
    }
    Status run(const T* x, C* scale, U* q, const Launch& launch) const { return rows(launch, x, scale, nullptr, q); }
    Status run(const T* x, C* scale, int32_t* zero_point, U* q, const Launch& launch) const {
        return rows(launch, x, scale, zero_point, q);
    }

private:
    RowAxes<2, 2> axes() const {
        RowAxes<2, 2> axes;
        axes.outer.append(n, {d, d, 1, 1});
        axes.inner.append(d, {1, 1});
        return axes;
    }
    Status rows(const Launch& launch, const T* x, C* scale, int32_t* zero_point, U* q) const {
        DynamicRows<T> f{};
        f.rule = rule_for<U>(q_min, q_max, false);
        f.largest_code = static_cast<C>(q_max);
        f.is_symmetric = kIsSymmetric;
        return map_rows(launch, axes(), f, inputs(x), inputs(), inputs(), outputs(bytes_of(q)), outputs(scale, zero_point));
    }
};

}  // namespace bk::quantize
