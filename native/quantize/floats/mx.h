// SPDX-License-Identifier: Apache-2.0
// Matrices as blocks of narrow elements with narrow scales in an array of their own: MX formats and NVFP4. Formats,
// scale rule and scale layout are run-time choices, since memory bounds the kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/codec/mx.h"
#include "core/collectives/items.h"
#include "core/collectives/team.h"
#include "quantize/floats/four_bit.h"
#include "quantize/floats/values.h"

namespace bk::floats {

using codec::ScaleLayout;
using codec::ScaleMap;

constexpr int64_t kBlocksOfTeam = 1024;

template <class T>
struct MxQuantizeJob {
    codec::MxFormat format;
    codec::ScaleRule rule;
    ScaleMap scales;
    int64_t n;
    bool is_aligned, has_aligned_codes;  // to 8
    const T* x;
    const float* tensor_scale;  // of NVFP4; null is 1
    uint8_t* codes;
    uint8_t* scale_codes;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const codec::MxLayout layout{format};
        const codec::MxElements elements = codec::MxElements::of(format);
        const float whole = tensor_scale != nullptr ? tensor_scale[0] : 1.0f;
        const int64_t padded = scales.padded_blocks(), count = scales.count();
        const int64_t begin = item * kBlocksOfTeam, end = begin + kBlocksOfTeam < count ? begin + kBlocksOfTeam : count;
        for (int64_t i = begin + team.rank; i < end; i += team.size) {
            int64_t at = i, scale_at = i;  // among blocks of all rows, and their scales, which lie alike unless tiles have them
            if (scales.layout != ScaleLayout::kLinear) {
                const int64_t row = i / padded, block = i % padded;
                scale_at = scales.at(row, block);
                if (row >= scales.rows || block >= scales.blocks) {
                    scale_codes[scale_at] = 0;
                    continue;
                }
                at = row * scales.blocks + block;
            }
            if (layout.is_nvfp4())
                quantize<16>(layout, elements, whole, at, scale_at);
            else
                quantize<32>(layout, elements, whole, at, scale_at);
        }
    }

private:
    template <int kBlock>
    BK_HD void quantize(const codec::MxLayout& layout, const codec::MxElements& elements, float whole, int64_t at,
                        int64_t scale_at) const {
        float values[kBlock];
        load_widened(values, x + at * kBlock, kBlock, is_aligned);
        const float largest = largest_magnitude(values);
        const bool is_finite = bit_cast<uint32_t>(largest) < 0x7f800000u;
        uint32_t code;
        float factor = 0.0f;
        if (kBlock == 16) {
            code = is_finite ? codec::nvfp4_scale_code(largest, whole) : 0x7fu;
            const float scale = math::product(codec::minifloat(codec::FloatFormat::kE4m3).decode(code), whole);
            if (code != 0) factor = reciprocal(scale);
        } else {
            code = is_finite ? codec::mx_scale_code(elements, rule, largest) : 0xffu;
            factor = codec::inverse_of_e8m0(code);
        }
        scale_codes[scale_at] = static_cast<uint8_t>(code);
        uint8_t* const to = codes + at * layout.bytes();
        if (kBlock == 16) return store_nvfp4(to, values, factor, is_finite);
        const int bits = layout.bits();
        for (int i = 0; i < kBlock; i += 4) {  // four elements are a whole number of bytes
            uint32_t four = 0;
            BK_UNROLL
            for (int e = 0; e < 4; ++e) {
                const uint32_t one = is_finite ? elements.encode(math::product(values[i + e], factor)) : 0u;
                four |= one << (e * bits);
            }
            for (int byte = 0; byte < bits / 2; ++byte)
                to[i / 4 * (bits / 2) + byte] = static_cast<uint8_t>(four >> (8 * byte));
        }
    }

    template <int kBlock>
    BK_HD void store_nvfp4(uint8_t* to, const float (&values)[kBlock], float factor, bool is_finite) const {
        Vec<uint32_t, 2> words{};
        if (is_finite) {
            BK_UNROLL
            for (int i = 0; i < 16; ++i)
                words.lane[i / 8] |= codec::e2m1_code(math::product(values[i % kBlock], factor)) << (4 * (i % 8));
        }
        if (has_aligned_codes) {
            store<2>(reinterpret_cast<uint32_t*>(to), words);
        } else {
            for (int i = 0; i < 8; ++i) to[i] = static_cast<uint8_t>(words.lane[i / 4] >> (8 * (i % 4)));
        }
    }
};

// A thread a block.
template <class T>
Status run_block_teams(const Launch& launch, const MxQuantizeJob<T>& job) {
    return run_teams(launch, ceil_div(job.scales.count(), kBlocksOfTeam), kBlocksOfTeam * 64, job);
}

// Runs the job, or on a GPU its like, lanes that share blocks of 32.
template <class T>
Status run_mx_quantize(const Launch& launch, const MxQuantizeJob<T>& job);

template <class T>
struct MxDequantizeJob {
    codec::MxFormat format;
    ScaleMap scales;
    bool is_aligned, has_aligned_codes;
    const uint8_t* codes;
    const uint8_t* scale_codes;
    const float* tensor_scale;
    T* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        constexpr int kPart = kDecodedLanes<T>;  // elements of a step: whole bytes of each format
        const codec::MxLayout layout{format};
        const codec::MxElements elements = codec::MxElements::of(format);
        const codec::Minifloat narrow_scale = codec::minifloat(codec::FloatFormat::kE4m3);
        const float whole = tensor_scale != nullptr ? tensor_scale[0] : 1.0f;
        const codec::FloatCodec codec = codec::FloatCodec::of(layout.element());
        const int bits = layout.bits(), bytes = kPart * bits / 8;
        const int shift = (kPart == 8 ? 2 : 3) - (layout.is_nvfp4() ? 1 : 0), parts = 1 << shift;  // of a block
        const int64_t count = scales.rows * scales.blocks * parts;
        const int64_t begin = item * kBlocksOfTeam, end = begin + kBlocksOfTeam < count ? begin + kBlocksOfTeam : count;
        for (int64_t i = begin + team.rank; i < end; i += team.size) {
            const int64_t at = i >> shift, row = at / scales.blocks;
            const uint32_t code = scale_codes[scales.at(row, at - row * scales.blocks)];
            const float scale = layout.is_nvfp4() ? math::product(narrow_scale.decode(code), whole) : codec::e8m0_value(code);
            const uint64_t part = stream_part(codes + i * bytes, bytes, has_aligned_codes);
            const uint32_t mask = (1u << bits) - 1u;
            float values[kPart];
            if (elements.is_integer) {
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = codec::mxint8_value(static_cast<uint32_t>(part >> (8 * e)) & 255u);
            } else if (bits == 8) {
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = codec.decode(static_cast<uint32_t>(part >> (8 * e)) & 255u);
            } else {
                BK_UNROLL
                for (int e = 0; e < kPart; ++e)
                    values[e] = codec.floats.decode_finite(static_cast<uint32_t>(part >> (bits * e)) & mask);
            }
            BK_UNROLL
            for (int e = 0; e < kPart; ++e) values[e] = math::product(values[e], scale);
            store_rounded(y + i * kPart, values, kPart, is_aligned);
        }
    }
};

// Runs the job, or on a GPU its like, which reads ahead.
template <class T>
Status run_mx_dequantize(const Launch& launch, const MxDequantizeJob<T>& job);

inline Status require_mx_format(int32_t format) { return require_member("mx_format", format, codec::kMxFormats); }

// Members of both directions.
struct MxShape {
    static Status check(int64_t rows, int64_t n, int32_t format, int32_t scale_layout) {
        BK_TRY(require_non_negative({{"rows", rows}, {"n", n}}));
        BK_TRY(require_mx_format(format));
        BK_TRY(require_member("scale_layout", scale_layout, 2));
        const int block = layout(format).block();
        if (n % block != 0)
            return fail(Status::kInvalidProblem, "n is %lld, must be a multiple of %d, the format's block",
                        static_cast<long long>(n), block);
        return Status::kOk;
    }
    static codec::MxLayout layout(int32_t format) { return {static_cast<codec::MxFormat>(format)}; }
    static ScaleMap scales(int64_t rows, int64_t n, int32_t format, int32_t scale_layout) {
        return {static_cast<ScaleLayout>(scale_layout), rows, n / layout(format).block()};
    }
    static int64_t bytes(int64_t n, int32_t format) { return n / layout(format).block() * layout(format).bytes(); }
};

template <class T>
struct QuantizeMx {
    int32_t rows, n, mx_format, scale_rule, scale_layout;

    int64_t code_bytes() const { return MxShape::bytes(n, mx_format); }
    int64_t scale_rows() const { return scales().padded_rows(); }
    int64_t scale_columns() const { return scales().padded_blocks(); }
    ScaleMap scales() const { return MxShape::scales(rows, n, mx_format, scale_layout); }

    Work work() const { return all_or_none(std::min(rows, n)); }
    Status check() const {
        BK_TRY(MxShape::check(rows, n, mx_format, scale_layout));
        return require_member("scale_rule", scale_rule, 3);
    }
    Status run(const T* x, const float* tensor_scale, uint8_t* codes, uint8_t* scale_codes, const Launch& launch) const {
        const MxQuantizeJob<T> job{MxShape::layout(mx_format).format,
                                   static_cast<codec::ScaleRule>(scale_rule),
                                   scales(),
                                   n,
                                   is_aligned(x, kVectorBytes),
                                   is_aligned(codes, 8),
                                   x,
                                   tensor_scale,
                                   codes,
                                   scale_codes};
        return run_mx_quantize(launch, job);
    }
};

template <class T>
struct DequantizeMx {
    int32_t rows, n, mx_format, scale_layout;

    int64_t code_bytes() const { return MxShape::bytes(n, mx_format); }
    int64_t scale_rows() const { return scales().padded_rows(); }
    int64_t scale_columns() const { return scales().padded_blocks(); }
    ScaleMap scales() const { return MxShape::scales(rows, n, mx_format, scale_layout); }

    Work work() const { return all_or_none(std::min(rows, n)); }
    Status check() const { return MxShape::check(rows, n, mx_format, scale_layout); }
    Status run(const uint8_t* codes, const uint8_t* scale_codes, const float* tensor_scale, T* y, const Launch& launch) const {
        const MxDequantizeJob<T> job{MxShape::layout(mx_format).format,
                                     scales(),
                                     is_aligned(y, kVectorBytes),
                                     is_aligned(codes, 8),
                                     codes,
                                     scale_codes,
                                     tensor_scale,
                                     y};
        return run_mx_dequantize(launch, job);
    }
};

// Scales by rows to tiles, or back.
struct SwizzleScales {
    int32_t rows, blocks, backward;

    int64_t padded_rows() const { return swizzled().padded_rows(); }
    int64_t padded_blocks() const { return swizzled().padded_blocks(); }
    int64_t rows_in() const { return backward ? padded_rows() : rows; }
    int64_t blocks_in() const { return backward ? padded_blocks() : blocks; }
    int64_t rows_out() const { return backward ? rows : padded_rows(); }
    int64_t blocks_out() const { return backward ? blocks : padded_blocks(); }
    ScaleMap swizzled() const { return {ScaleLayout::kSwizzled, rows, blocks}; }

    Work work() const { return all_or_none(std::min(rows, blocks)); }
    Status check() const {
        BK_TRY(require_non_negative({{"rows", rows}, {"blocks", blocks}}));
        return require_member("backward", backward, 2);
    }

    struct Job {
        ScaleMap map;
        bool backward;
        const uint8_t* x;
        uint8_t* y;
        BK_HD void operator()(const Team& team, int64_t item) const {
            const int64_t padded = map.padded_blocks(), count = map.count();
            const int64_t begin = item * kBlocksOfTeam, end = begin + kBlocksOfTeam < count ? begin + kBlocksOfTeam : count;
            for (int64_t i = begin + team.rank; i < end; i += team.size) {
                const int64_t row = i / padded, block = i % padded, at = map.at(row, block);
                const bool inside = row < map.rows && block < map.blocks;
                if (backward) {
                    if (inside) y[row * map.blocks + block] = x[at];
                } else {
                    y[at] = inside ? x[row * map.blocks + block] : uint8_t{0};
                }
            }
        }
    };
    Status run(const uint8_t* x, uint8_t* y, const Launch& launch) const {
        return run_teams(launch, ceil_div(swizzled().count(), kBlocksOfTeam), kBlocksOfTeam * 2,
                         Job{swizzled(), backward != 0, x, y});
    }
};

}  // namespace bk::floats

#if BK_CUDA
#include "quantize/floats/mx_cuda.cuh"
#else
#include "quantize/floats/mx_cpu.h"
#endif
