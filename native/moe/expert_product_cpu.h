// SPDX-License-Identifier: Apache-2.0
// Products of experts on the CPU: rows are gathered and weights decoded as panels are packed, in f32. One text for all dtypes
// and formats, since a panel's run of elements is read by one switch.
#pragma once

#include "gemm/cpu/matmul_decode_cpu.h"
#include "moe/expert_product.h"

namespace bk::moe {

template <class E>
BK_HD void widen_run(const void* from, int64_t first, int64_t count, float* to) {
    const E* const own = static_cast<const E*>(from) + first;
    for (int64_t x = 0; x < count; ++x) to[x] = widen(own[x]);
}

BK_HD void read_run(RowType type, const void* from, int64_t first, int64_t count, float* to) {
    switch (type) {
        case RowType::kF32: return widen_run<float>(from, first, count, to);
        case RowType::kF16: return widen_run<f16>(from, first, count, to);
        case RowType::kBf16: return widen_run<bf16>(from, first, count, to);
    }
}

// Positions [begin, begin + m) of one expert.
struct SegmentReads {
    static constexpr Packing kPacking = Packing::kF32;
    const ExpertProduct* p;
    int64_t expert, begin, m, n, k;

    int32_t id(int64_t i) const { return p->ids[begin + i]; }

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const {
        const int32_t t = id(i);
        if (p->has(t))
            read_run(p->x_type, p->x, p->row_of(t) * k + first, depth, to);
        else
            std::fill_n(to, depth, 0.0f);
    }
    // `first` is a multiple of 8 and `depth` one of 4, since rows of blocks are.
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        const uint8_t* const row = p->weight_row(expert, j);
        if (p->format == WeightFormat::kDense) return read_run(p->x_type, row, first, depth, to);
        with_format(p->format, [&](auto codec) {
            using Format = decltype(codec);
            for (int64_t x = 0; x < depth; x += 4) {
                const int64_t at = first + x;
                float four[4];
                codec::values4<Format>(row + at / Format::kBlock * Format::kBytes, static_cast<int>(at % Format::kBlock), four);
                for (int v = 0; v < 4; ++v) to[x + v] = rounded(four[v]);
            }
        });
    }
    // Weights are decoded to the dtype of x.
    BK_HD float rounded(float x) const {
        if (p->x_type == RowType::kF16) return widen(narrow<f16>(x));
        return p->x_type == RowType::kBf16 ? widen(narrow<bf16>(x)) : x;
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        const int32_t t = id(i);
        if (!p->has(t)) return;
        const float weight = p->weight_of(t);
        const int64_t at = t * n + j;
        switch (p->out_type) {
            case RowType::kF32: return store_run(static_cast<float*>(p->out) + at, columns, weight, sums);
            case RowType::kF16: return store_run(static_cast<f16*>(p->out) + at, columns, weight, sums);
            case RowType::kBf16: return store_run(static_cast<bf16*>(p->out) + at, columns, weight, sums);
        }
    }
    template <class E>
    BK_HD static void store_run(E* to, int64_t columns, float weight, const float* sums) {
        for (int64_t x = 0; x < columns; ++x) to[x] = narrow<E>(weight * sums[x]);
    }
    ScratchRows scratch_rows() const { return {}; }
};

inline Status multiply_segment(const ExpertProduct& p, int64_t expert, int64_t begin, int64_t end) {
    if (begin >= end) return Status::kOk;
    return multiply_read(Launch{}, SegmentReads{&p, expert, begin, end - begin, p.n, p.k});
}

inline Status product_by_segments(const Launch&, const ExpertProduct& p, int32_t* counts, int32_t* offsets) {
    std::fill_n(counts, p.experts, 0);
    for (int64_t i = 0; i < p.m; ++i)
        if (const int32_t e = p.expert_of[i]; e >= 0 && e < p.experts) ++counts[e];
    offsets[0] = 0;
    for (int64_t e = 0; e < p.experts; ++e) offsets[e + 1] = offsets[e] + counts[e];
    for (int64_t e = 0; e < p.experts; ++e) BK_TRY(multiply_segment(p, e, offsets[e], offsets[e + 1]));
    return Status::kOk;
}

inline Status product_by_positions(const Launch&, const ExpertProduct& p) {
    for (int64_t begin = 0, end; begin < p.m; begin = end) {
        const int32_t e = p.expert_of[begin];
        for (end = begin + 1; end < p.m && p.expert_of[end] == e;) ++end;
        if (e >= 0 && e < p.experts) BK_TRY(multiply_segment(p, e, begin, end));
    }
    return Status::kOk;
}

}  // namespace bk::moe
