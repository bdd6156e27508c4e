// SPDX-License-Identifier: Apache-2.0
// Bytes that the tiled product reads of each format. A form has
//
//   kBlock, kBlockBytes     values and bytes that belong together; kAlign, their alignment in bytes
//   kGroup, kHasOffset      values with one scale; whether there are offsets
//   pairs<E>(row, at, ...)  codes at to at + 3 of a row of blocks as two pairs of E, in which they are exact
//   affine(w, row, at, j, k)  scale and offset of the group there, of row j and element k of the weights
//
// `at` counts from the first byte of `row`, which begins with a block.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/codec/formats.h"
#include "core/codec/mx.h"
#include "quantize/products/mma_operands.cuh"
#include "quantize/products/tiled_product.h"

namespace bk {

template <class Format>
struct BlockForm {
    static constexpr int kBlock = Format::kBlock, kBlockBytes = Format::kBytes, kAlign = Format::kAlign,
                         kGroup = Format::kGroup;
    static constexpr bool kHasOffset = Format::kHasOffset;

    template <class E>
    static BK_DEVICE void pairs(const uint8_t* row, int at, uint32_t (&pair)[2]) {
        codes_to_pairs<E>(Format::codes4(row + at / kBlock * kBlockBytes, at % kBlock), pair);
    }
    static BK_DEVICE codec::Affine affine(const WeightRows&, const uint8_t* row, int at, int64_t, int64_t) {
        return Format::affine(row + at / kBlock * kBlockBytes, at % kBlock / kGroup);
    }
};

// Scale of row j and element k.
template <codec::MxFormat kFormat>
BK_DEVICE float mx_scale_of(const WeightRows& w, int64_t j, int64_t k) {
    constexpr bool kIsNvfp4 = kFormat == codec::MxFormat::kNvfp4;
    const uint32_t code = w.scales[w.scale_map.at(j, k / (kIsNvfp4 ? 16 : 32))];
    if constexpr (!kIsNvfp4) return codec::e8m0_value(code);
    return math::product(codec::minifloat(codec::FloatFormat::kE4m3).decode(code),
                         w.tensor_scale == nullptr ? 1.f : *w.tensor_scale);
}

template <codec::MxFormat kFormat>
struct MxForm {
    static constexpr bool kIsNvfp4 = kFormat == codec::MxFormat::kNvfp4,
                          kIsE2m1 = kFormat == codec::MxFormat::kMxfp4 || kIsNvfp4,
                          kIsInteger = kFormat == codec::MxFormat::kMxint8, kHasOffset = false;
    static constexpr int kBits = kIsE2m1                                                                            ? 4
                                 : kFormat == codec::MxFormat::kMxfp6E2m3 || kFormat == codec::MxFormat::kMxfp6E3m2 ? 6
                                                                                                                    : 8;
    static constexpr int kGroup = kIsNvfp4 ? 16 : 32, kBlock = kGroup, kBlockBytes = kBlock * kBits / 8, kAlign = 4;

    template <class E>
    static BK_DEVICE void pairs(const uint8_t* row, int at, uint32_t (&pair)[2]) {
        const uint8_t* const from = row + at / 4 * (kBits / 2);
        uint32_t codes;
        if constexpr (kBits == 8)
            codes = codec::load4<kAlign>(from);
        else if constexpr (kBits == 4)
            codes = *reinterpret_cast<const uint16_t*>(from);
        else
            codes = from[0] | static_cast<uint32_t>(from[1]) << 8 | static_cast<uint32_t>(from[2]) << 16;
        if constexpr (kIsE2m1) {
            const uint32_t halves = (codes | codes << 8) & 0x00ff00ffu;
            codes_to_pairs<E>(codec::doubled_e2m1((halves | halves << 4) & 0x0f0f0f0fu), pair);
        } else if constexpr (kIsInteger) {
            codes_to_pairs<E>(codes, pair);
        } else {
            const codec::Minifloat form = codec::minifloat(codec::MxLayout{kFormat}.element());
            float value[4];
            BK_UNROLL
            for (int i = 0; i < 4; ++i) value[i] = form.decode(codes >> (i * kBits) & ((1u << kBits) - 1u));
            pair[0] = exact_pair<E>(value[0], value[1]);
            pair[1] = exact_pair<E>(value[2], value[3]);
        }
    }
    // e2m1 is doubled, integers are 64 times their value.
    static BK_DEVICE codec::Affine affine(const WeightRows& w, const uint8_t*, int, int64_t j, int64_t k) {
        return {mx_scale_of<kFormat>(w, j, k) * (kIsE2m1 ? 0.5f : kIsInteger ? 0x1p-6f : 1.f), 0.f};
    }
};

// visit(form) of the weights' format.
template <class Visit>
BK_HD void visit_form(int32_t format, Visit&& visit) {
    using codec::MxFormat;
    switch (format - kFirstMxWeights) {
        case static_cast<int32_t>(MxFormat::kMxfp4): return visit(MxForm<MxFormat::kMxfp4>{});
        case static_cast<int32_t>(MxFormat::kMxfp6E2m3): return visit(MxForm<MxFormat::kMxfp6E2m3>{});
        case static_cast<int32_t>(MxFormat::kMxfp6E3m2): return visit(MxForm<MxFormat::kMxfp6E3m2>{});
        case static_cast<int32_t>(MxFormat::kMxfp8E4m3): return visit(MxForm<MxFormat::kMxfp8E4m3>{});
        case static_cast<int32_t>(MxFormat::kMxfp8E5m2): return visit(MxForm<MxFormat::kMxfp8E5m2>{});
        case static_cast<int32_t>(MxFormat::kMxint8): return visit(MxForm<MxFormat::kMxint8>{});
        case static_cast<int32_t>(MxFormat::kNvfp4): return visit(MxForm<MxFormat::kNvfp4>{});
        default: break;
    }
    codec::Formats::visit(format, [&](auto numbered) {
        using Format = typename decltype(numbered)::type;
        if constexpr (!std::is_same_v<Format, codec::Q81>) visit(BlockForm<Format>{});
    });
}

}  // namespace bk
