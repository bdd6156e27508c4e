// SPDX-License-Identifier: Apache-2.0
// Products with MX weights on the GPU: tiles for many rows of x, else a team of threads for each row of weights, which
// multiplies up to eight rows of x.
#pragma once

#include <cstdint>

#include "core/codec/gguf_floats.h"
#include "core/collectives/team.h"
#include "quantize/floats/few_rows.h"
#include "quantize/floats/four_bit.h"
#include "quantize/products/mx_matmul.h"
#include "quantize/products/tiled_product.h"

namespace bk {

// Four codes from a byte on as numbers; e2m1 is doubled.
BK_HD void mx_values4(codec::MxFormat format, const uint8_t* from, float (&values)[4]) {
    using codec::MxFormat;
    const int bits = codec::MxLayout{format}.bits();
    uint32_t codes = from[0] | static_cast<uint32_t>(from[1]) << 8;
    if (bits >= 6) codes |= static_cast<uint32_t>(from[2]) << 16;
    if (bits == 8) codes |= static_cast<uint32_t>(from[3]) << 24;
    if (bits == 4 || format == MxFormat::kMxint8) {
        const uint32_t halves = (codes | codes << 8) & 0x00ff00ffu;
        const uint32_t bytes = bits == 4 ? codec::doubled_e2m1((halves | halves << 4) & 0x0f0f0f0fu) : codes;
        BK_UNROLL
        for (int i = 0; i < 4; ++i) values[i] = codec::code_of(bytes, i);
        return;
    }
    const codec::Minifloat form = codec::minifloat(codec::MxLayout{format}.element());
    BK_UNROLL
    for (int i = 0; i < 4; ++i) values[i] = form.decode(codes >> (i * bits));
}

// Rows of x with one row of weights. A thread takes 16 K elements at a time; the order of summation depends on k alone.
template <class T, int kRows>
struct MxRowJob {
    static constexpr int kStep = 16;
    MxProduct p;
    int64_t first, rows;  // of x
    bool is_aligned;

    BK_HD void operator()(const Team& team, int64_t j) const {
        const codec::MxLayout form = p.layout();
        const codec::Minifloat narrow_scale = codec::minifloat(codec::FloatFormat::kE4m3);
        const float whole = p.tensor_scale == nullptr ? 1.f : *p.tensor_scale,
                    unit = form.bits() == 4                                ? 0.5f
                           : p.format_of_codes == codec::MxFormat::kMxint8 ? 0x1p-6f
                                                                           : 1.f;
        const uint8_t* const codes = p.weights + j * p.row_bytes();
        floats::Sums<kRows> sums{};
        for (int64_t k = int64_t{team.rank} * kStep; k < p.k; k += int64_t{team.size} * kStep) {
            const uint32_t code = p.scales[p.scale_map.at(j, k / form.block())];
            const float scale =
                (form.is_nvfp4() ? math::product(narrow_scale.decode(code), whole) : codec::e8m0_value(code)) * unit;
            float own[kRows] = {};
            BK_UNROLL
            for (int part = 0; part < kStep; part += 8) {
                float weights[8];
                BK_UNROLL
                for (int four = 0; four < 2; ++four) {
                    float values[4];
                    mx_values4(p.format_of_codes, codes + (k + part + 4 * four) * form.bits() / 8, values);
                    for (int i = 0; i < 4; ++i) weights[4 * four + i] = values[i];
                }
                BK_UNROLL
                for (int r = 0; r < kRows; ++r) {
                    if (r >= rows) break;
                    float x[8];
                    floats::load_widened(x, static_cast<const T*>(p.x) + (first + r) * p.x_row + k + part, 8, is_aligned);
                    BK_UNROLL
                    for (int i = 0; i < 8; ++i) own[r] = math::fma(weights[i], x[i], own[r]);
                }
            }
            BK_UNROLL
            for (int r = 0; r < kRows; ++r) sums.sum[r] = math::fma(scale, own[r], sums.sum[r]);
        }
        sums = team.sum(sums);
        BK_UNROLL
        for (int r = 0; r < kRows; ++r) {
            if (r % team.size != team.rank || r >= rows) continue;
            const float bias = p.bias == nullptr ? 0.f : load_float(p.bias, j, p.dtype);
            store_float(p.y, (first + r) * p.y_row + j, p.dtype, sums.sum[r] + bias);
        }
    }
};

template <class T, int kRows>
Status mx_rows(const Launch& launch, const MxProduct& p, int64_t first) {
    const bool is_vector = is_aligned(p.x, kVectorBytes) && p.k % kVectorLanes<T> == 0;
    const MxRowJob<T, kRows> job{p, first, p.m - first < kRows ? p.m - first : kRows, is_vector};
    return run_teams(launch, p.n, p.row_bytes(), job, true);
}

// The product as few rows take it, of formats of four bits.
inline floats::FewRows few_rows_of(const MxProduct& p) {
    floats::FewRows few{p.m, p.n, p.k, p.weights, p.x, p.bias, p.y, p.dtype};
    few.layout = p.layout().is_nvfp4() ? floats::FewRowsLayout::kMx16 : floats::FewRowsLayout::kMx32;
    few.scales = p.scales;
    few.tensor_scale = p.tensor_scale;
    few.scale_map = p.scale_map;
    few.unit = 1;
    const codec::Minifloat element = codec::minifloat(p.layout().element());
    for (uint32_t i = 0; i < codec::kBookCodes; ++i) few.values[i] = narrow<f16>(element.decode(i)).bits;
    return few;
}

template <class T>
Status mx_product(const Launch& launch, const MxProduct& p) {
    constexpr int64_t kFewRows = 32;  // that one pass over the weights multiplies
    if (p.layout().bits() == 4 && p.tile() < 0 && (p.m <= kFewRows || !uses_tiles(p))) {
        const floats::FewRows few = few_rows_of(p);
        if (takes_few_rows(few)) return few_rows_product(launch, few);
    }
    if (uses_tiles(p)) {
        const WeightRows weights{kFirstMxWeights + static_cast<int32_t>(p.format_of_codes),
                                 p.weights,
                                 p.row_bytes(),
                                 p.scales,
                                 p.tensor_scale,
                                 p.scale_map};
        return tiled_product(launch, {weights, p.m, p.n, p.k, p.x, p.y, p.bias, p.x_row, p.y_row, p.dtype, p.tile()});
    }
    if (p.m == 1) return mx_rows<T, 1>(launch, p, 0);
    for (int64_t first = 0; first < p.m; first += 8) BK_TRY((mx_rows<T, 8>(launch, p, first)));
    return Status::kOk;
}

}  // namespace bk
