// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit codes with zero points: i32 results (MatMulInteger of ONNX), codes again (QLinearMatMul), or floats with
// scales, bias and activation (a quantised linear layer).
//
//   sum over k of (a[i, k] - za[i]) (b[k, j] - zb[j]) = p - za rb - zb ra + k za zb
//
// with the product p of the codes (GemmDense with i32 results, exact up to k = 131071), ra the row sums of A and rb the column
// sums of B (Jacob et al. 2018, arXiv 1712.05877, 2.3). Unsigned codes are multiplied as codes - 128, whose zero points are
// less by 128. i32 and f32 results are made where p is; others need p in the workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/pointwise/pointwise.h"
#include "gemm/epilogue.h"
#include "gemm/gemm.h"

namespace bk::integer {

// u8 codes as s8 codes 128 less.
struct FlipHighBit {
    BK_HD uint8_t operator()(uint8_t x) const { return x ^ 0x80u; }
};

// sums[r] = sum of x[r, :] over rows of `count` adjacent elements.
struct RowSums {
    const int8_t* x;
    int64_t count;
    int32_t* sums;

    BK_HD void operator()(const Team& team, int64_t row) const {
        const int8_t* const own = x + row * count;
        int32_t sum = 0;
        for (int64_t c = team.rank; c < count; c += team.size) sum += own[c];
        sum = team.sum(sum);
        if (team.rank == 0) sums[row] = sum;
    }
};

// sums[c] = sum of x[:, c]; an item is kTile columns.
struct ColumnSums {
    static constexpr int64_t kTile = 256;
    const int8_t* x;
    int64_t rows, columns;
    int32_t* sums;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t end = (item + 1) * kTile < columns ? (item + 1) * kTile : columns;
        for (int64_t c = item * kTile + team.rank; c < end; c += team.size) {
            int32_t sum = 0;
            for (int64_t r = 0; r < rows; ++r) sum += x[r * columns + c];
            sums[c] = sum;
        }
    }
};

// Value i of an array with one value, or one for each index; `otherwise` without an array.
template <class N>
struct PerIndex {
    const N* array;
    int64_t count;  // 0, 1 or the number of indices

    BK_HD N of(int64_t i, N otherwise) const { return array == nullptr || count == 0 ? otherwise : array[count == 1 ? 0 : i]; }
};

// The step from products of codes to results of type U.
template <class U>
struct Finish {
    static constexpr bool kIsCode = sizeof(U) == 1, kIsSum = std::is_same_v<U, int32_t>;
    using C = std::conditional_t<std::is_same_v<U, double>, double, float>;
    using Scale = std::conditional_t<std::is_same_v<U, double>, double, float>;

    int64_t n, k;
    int32_t a_shift, b_shift;  // 128 for codes that were multiplied as codes - 128
    PerIndex<int32_t> a_zero, b_zero;
    const int32_t *row_sums, *column_sums;  // of the codes as multiplied; null where no zero point needs them
    PerIndex<Scale> a_scale, b_scale, y_scale;
    PerIndex<int32_t> y_zero;
    const float* bias;
    Activation activation;

    BK_HD int64_t sum(int64_t i, int64_t j, int32_t product) const {
        const int64_t za = a_zero.of(i, 0) - a_shift, zb = b_zero.of(j, 0) - b_shift;
        int64_t result = product;
        if (column_sums != nullptr) result -= za * column_sums[j];
        if (row_sums != nullptr) result -= zb * row_sums[i];
        return result + k * za * zb;
    }
    BK_HD U operator()(int64_t i, int64_t j, int32_t product) const {
        const int64_t exact = sum(i, j, product);
        if constexpr (kIsSum) {
            return saturated_sum(exact);
        } else {
            const C factor = a_scale.of(i, 1) * b_scale.of(j, 1), value = factor * static_cast<C>(exact);
            if constexpr (kIsCode) {
                const C steps = math::rint<float>(value / y_scale.of(j, 1)) + static_cast<C>(y_zero.of(j, 0));
                return to_integer<U>(steps);
            } else {
                const C z = bias == nullptr ? value : value + static_cast<C>(bias[j]);
                return narrow<U>(Epilogue<C>::template activated_as<C>(activation, z));
            }
        }
    }
};

// y = finish(p). An item is a row; columns are taken from the last on, a batch of them read before it is written, so that y
// may begin where p does in each row, whatever the size of its elements.
template <class U>
struct FinishRows {
    Finish<U> finish;
    const int32_t* p;
    int64_t pitch;  // of p, in elements
    U* y;

    BK_HD void operator()(const Team& team, int64_t i) const {
        const int64_t n = finish.n;
        const int32_t* const from = p + i * pitch;
        U* const to = y + i * n;
        for (int64_t end = n; end > 0; end -= team.size) {
            const int64_t j = end - 1 - team.rank;
            const int32_t product = j >= 0 ? from[j] : 0;
            team.sync();
            if (j >= 0) to[j] = finish(i, j, product);
        }
    }
};

// A is [m, k], B is [k, n] or, by columns, [n, k]; all are contiguous.
struct Codes {
    int32_t m, n, k;
    bool b_by_columns;
    bool a_is_unsigned, b_is_unsigned;
    bool has_a_zeros, has_b_zeros;
    bool is_in_place;  // p is stored in the results

    GemmDense<i32_results<int8_t>> product(int64_t pitch) const {
        const int64_t lda = std::max(k, 1), ldb = std::max(b_by_columns ? k : n, 1);
        return {m, n, k, 1, static_cast<int32_t>(b_by_columns ? kRcr : kRrr), 1, 0, lda, 0, ldb, 0, pitch, 0};
    }
    // Whether the column sums of B and the row sums of A are needed.
    bool needs_column_sums() const { return has_a_zeros || a_is_unsigned; }
    bool needs_row_sums() const { return has_b_zeros || b_is_unsigned; }
};

struct CodesWorkspace {
    int32_t *p, *row_sums, *column_sums;
    uint8_t *a, *b;
    char* rest;
    size_t bytes;

    CodesWorkspace(const Codes& c, void* base) {
        Carver carver(base);
        p = carver.take<int32_t>(c.is_in_place ? 0 : int64_t{c.m} * c.n);
        row_sums = carver.take<int32_t>(c.needs_row_sums() ? c.m : 0);
        column_sums = carver.take<int32_t>(c.needs_column_sums() ? c.n : 0);
        a = carver.take<uint8_t>(c.a_is_unsigned ? int64_t{c.m} * c.k : 0);
        b = carver.take<uint8_t>(c.b_is_unsigned ? int64_t{c.n} * c.k : 0);
        rest = carver.take<char>(static_cast<int64_t>(c.product(std::max(c.n, 1)).workspace_size()));
        bytes = carver.bytes();
    }
};

// y = finish of the product of a and b, codes of either sign.
template <class U>
Status multiply_codes(const Launch& launch, const Codes& c, const void* a, const void* b, Finish<U> finish, U* y) {
    const size_t needed = CodesWorkspace(c, nullptr).bytes;
    if (needed > 0 && !workspace_holds(launch, needed))
        return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                    launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, needed);
    const CodesWorkspace own(c, launch.workspace);
    const auto as_signed = [&](const void* codes, bool is_unsigned, uint8_t* copy, int64_t count, const int8_t** out) {
        *out = static_cast<const int8_t*>(codes);
        if (!is_unsigned || count == 0) return Status::kOk;
        *out = reinterpret_cast<const int8_t*>(copy);
        return pointwise(launch, count, FlipHighBit{}, outputs(copy), inputs(static_cast<const uint8_t*>(codes)));
    };
    const int8_t *from_a = nullptr, *from_b = nullptr;
    BK_TRY(as_signed(a, c.a_is_unsigned, own.a, int64_t{c.m} * c.k, &from_a));
    BK_TRY(as_signed(b, c.b_is_unsigned, own.b, int64_t{c.n} * c.k, &from_b));
    finish.n = c.n;
    finish.k = c.k;
    finish.a_shift = c.a_is_unsigned ? 128 : 0;
    finish.b_shift = c.b_is_unsigned ? 128 : 0;
    finish.row_sums = finish.column_sums = nullptr;
    if (c.needs_row_sums()) {
        finish.row_sums = own.row_sums;
        BK_TRY(run_teams(launch, c.m, c.k, RowSums{from_a, c.k, own.row_sums}));
    }
    if (c.needs_column_sums()) {
        finish.column_sums = own.column_sums;
        if (c.b_by_columns)
            BK_TRY(run_teams(launch, c.n, c.k, RowSums{from_b, c.k, own.column_sums}));
        else
            BK_TRY(run_teams(launch, ceil_div<int64_t>(c.n, ColumnSums::kTile), int64_t{c.k} * ColumnSums::kTile,
                             ColumnSums{from_b, c.k, c.n, own.column_sums}));
    }
    static_assert(sizeof(U) == 1 || sizeof(U) == 2 || sizeof(U) % sizeof(int32_t) == 0, "p fits a row of results");
    int32_t* const p = c.is_in_place ? reinterpret_cast<int32_t*>(y) : own.p;
    const int64_t pitch = c.is_in_place ? c.n * static_cast<int64_t>(sizeof(U) / sizeof(int32_t)) : c.n;
    const Launch rest = own.rest == nullptr ? Launch{nullptr, 0, launch.stream} : launch_with_workspace_from(launch, own.rest);
    BK_TRY(c.product(pitch).run(from_a, from_b, p, rest));
    return run_teams(launch, c.m, int64_t{c.n} * static_cast<int64_t>(sizeof(U) + sizeof(int32_t)),
                     FinishRows<U>{finish, p, pitch, y});
}

BK_COLD inline Status require_count(const char* name, int32_t count, const char* extent, int32_t size, bool may_be_none) {
    if (count == 1 || count == size || (may_be_none && count == 0)) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be %s1 or %s, which is %d", name, count, may_be_none ? "0, " : "",
                extent, size);
}

// y[i, j] = sa[i] sw[j] sum of act_q[i, k] weight_q[j, k], of T = float or double.
template <class T>
struct W8A8Linear {
    int32_t m, c_out, k;

    Work work() const { return all_or_none(int64_t{m} * c_out); }
    Status check() const { return require_non_negative({{"m", m}, {"c_out", c_out}, {"k", k}}); }
    Status run(const int8_t* weight_q, const int8_t* act_q, const T* scale_a, const T* scale_w, T* y,
               const Launch& launch) const {
        const Codes codes{m, c_out, k, true, false, false, false, false, true};
        Finish<T> finish{};
        finish.a_scale = {scale_a, m};
        finish.b_scale = {scale_w, c_out};
        return multiply_codes(Launch{nullptr, 0, launch.stream}, codes, act_q, weight_q, finish, y);
    }
};

// y = act(sa sw sum of (a - za) (w - zw) + bias); A is int8_t or uint8_t.
template <class A, class U>
struct QuantizedLinear {
    using Scale = typename Finish<U>::Scale;
    int32_t m, n, k, a_scales, a_zeros, weight_scales, weight_zeros, activation;

    Work work() const { return all_or_none(int64_t{m} * n); }
    size_t workspace_size() const { return CodesWorkspace(codes(), nullptr).bytes; }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_count("a_scales", a_scales, "m", m, false));
        BK_TRY(require_count("a_zeros", a_zeros, "m", m, true));
        BK_TRY(require_count("weight_scales", weight_scales, "n", n, false));
        BK_TRY(require_count("weight_zeros", weight_zeros, "n", n, true));
        return require_choice("activation", activation, kActivations, kActivationNames);
    }
    Status check() const { return check_extents(); }
    Status run(const A* a, const int8_t* weight, const Scale* a_scale, const Scale* weight_scale, const int32_t* a_zero,
               const int32_t* weight_zero, const float* bias, U* y, const Launch& launch) const {
        Finish<U> finish{};
        finish.a_scale = {a_scale, a_scales};
        finish.b_scale = {weight_scale, weight_scales};
        finish.a_zero = {a_zero, a_zeros};
        finish.b_zero = {weight_zero, weight_zeros};
        finish.bias = bias;
        finish.activation = static_cast<Activation>(activation);
        return multiply_codes(launch, codes(), a, weight, finish, y);
    }

private:
    Codes codes() const {
        const bool in_place = sizeof(U) >= sizeof(int32_t);
        return {m, n, k, true, std::is_same_v<A, uint8_t>, false, a_zeros > 0, weight_zeros > 0, in_place};
    }
};

// y = sum of (a - za) (b - zb) in i32, saturated; b is [k, n], or [n, k] in layout 1.
template <class A, class B>
struct MatmulInteger {
    int32_t m, n, k, layout, a_zeros, b_zeros;

    Work work() const { return all_or_none(int64_t{m} * n); }
    size_t workspace_size() const { return CodesWorkspace(codes(), nullptr).bytes; }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_choice("layout", layout, 2, "0 (b is [k, n]) or 1 (b is [n, k])"));
        BK_TRY(require_count("a_zeros", a_zeros, "m", m, true));
        return require_count("b_zeros", b_zeros, "n", n, true);
    }
    Status check() const { return check_extents(); }
    Status run(const A* a, const B* b, const int32_t* a_zero, const int32_t* b_zero, int32_t* y, const Launch& launch) const {
        Finish<int32_t> finish{};
        finish.a_zero = {a_zero, a_zeros};
        finish.b_zero = {b_zero, b_zeros};
        return multiply_codes(launch, codes(), a, b, finish, y);
    }

private:
    Codes codes() const {
        return {m, n, k, layout == 1, std::is_same_v<A, uint8_t>, std::is_same_v<B, uint8_t>, a_zeros > 0, b_zeros > 0, true};
    }
};

// y = saturate(round(sa sb / sy sum of (a - za) (b - zb)) + zy), of codes like a's.
template <class A, class B>
struct QLinearMatmul {
    int32_t m, n, k, layout, a_scales, a_zeros, b_scales, b_zeros;

    Work work() const { return all_or_none(int64_t{m} * n); }
    size_t workspace_size() const { return CodesWorkspace(codes(), nullptr).bytes; }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_choice("layout", layout, 2, "0 (b is [k, n]) or 1 (b is [n, k])"));
        BK_TRY(require_count("a_scales", a_scales, "m", m, false));
        BK_TRY(require_count("a_zeros", a_zeros, "m", m, true));
        BK_TRY(require_count("b_scales", b_scales, "n", n, false));
        return require_count("b_zeros", b_zeros, "n", n, true);
    }
    Status check() const { return check_extents(); }
    Status run(const A* a, const float* a_scale, const int32_t* a_zero, const B* b, const float* b_scale, const int32_t* b_zero,
               const float* y_scale, const int32_t* y_zero, A* y, const Launch& launch) const {
        Finish<A> finish{};
        finish.a_scale = {a_scale, a_scales};
        finish.b_scale = {b_scale, b_scales};
        finish.a_zero = {a_zero, a_zeros};
        finish.b_zero = {b_zero, b_zeros};
        finish.y_scale = {y_scale, 1};
        finish.y_zero = {y_zero, 1};
        return multiply_codes(launch, codes(), a, b, finish, y);
    }

private:
    Codes codes() const {
        return {m, n, k, layout == 1, std::is_same_v<A, uint8_t>, std::is_same_v<B, uint8_t>, a_zeros > 0, b_zeros > 0, false};
    }
};

}  // namespace bk::integer
