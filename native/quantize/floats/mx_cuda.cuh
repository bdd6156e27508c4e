// SPDX-License-Identifier: Apache-2.0
// Blocks of narrow elements on a GPU: four lanes have a block of 32, or two one of 16, so that loads and stores are coalesced.
#pragma once

#include <cstdint>

#include "core/collectives/items.h"
#include "core/collectives/shuffle.cuh"
#include "quantize/floats/mx.h"

namespace bk::floats {

template <class T>
struct MxQuantizeLanes {
    static constexpr int kPart = 8;  // elements of a lane: whole bytes of each format
    MxQuantizeJob<T> job;
    ItemSplit<2> split;  // scales in rows, padding included
    codec::MxElements elements;
    codec::FloatCodec codec;
    int lanes, bits;  // of a block; of an element
    bool has_aligned_codes;

    // All lanes of a warp come here together: they exchange maxima.
    BK_DEVICE void operator()(int64_t item) const {
        const int lane = static_cast<int>(item) & (lanes - 1);
        const int64_t scale = static_cast<int64_t>(static_cast<uint64_t>(item) >> (lanes == 4 ? 2 : 1));
        const bool is_there = scale < split.items;
        int64_t index[2] = {};
        if (is_there) split.indices(scale, index);
        const bool is_inside = is_there && index[0] < job.scales.rows && index[1] < job.scales.blocks;
        const int64_t part = (index[0] * job.scales.blocks + index[1]) * lanes + lane;
        float values[kPart] = {};
        if (is_inside) load_widened(values, job.x + part * kPart, kPart, job.is_aligned);
        uint32_t largest = 0;
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) {
            const uint32_t own = bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
            largest = own > largest ? own : largest;
        }
        largest = larger(largest, shuffle_xor(largest, 1));
        if (lanes == 4) largest = larger(largest, shuffle_xor(largest, 2));
        if (!is_there) return;
        const bool is_finite = largest < 0x7f800000u;
        float factor = 0.0f;
        const uint32_t code = is_inside ? scale_code(bit_cast<float>(largest), is_finite, factor) : 0u;
        if (lane == 0) job.scale_codes[job.scales.at(index[0], index[1])] = static_cast<uint8_t>(code);
        if (!is_inside) return;
        uint32_t words[2] = {};  // of four elements each
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) values[i] = math::product(values[i], factor);
        if (is_finite) encode(values, words);
        store_part(words, part);
    }

private:
    BK_HD static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

    BK_HD uint32_t scale_code(float largest, bool is_finite, float& factor) const {
        if (lanes == 4) {
            const uint32_t code = is_finite ? codec::mx_scale_code(elements, job.rule, largest) : 0xffu;
            factor = codec::inverse_of_e8m0(code);
            return code;
        }
        const float whole = job.tensor_scale != nullptr ? job.tensor_scale[0] : 1.0f;
        const uint32_t code = is_finite ? codec::nvfp4_scale_code(largest, whole) : 0x7fu;
        if (code != 0) factor = reciprocal(math::product(fp8_to_float(e4m3{static_cast<uint8_t>(code)}), whole));
        return code;
    }
    BK_HD void encode(const float (&values)[kPart], uint32_t (&words)[2]) const {
        if (elements.is_integer) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= codec::mxint8_code(values[i]) << (8 * (i % 4));
        } else if (bits == 8) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= codec.encode(values[i]) << (8 * (i % 4));
        } else {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= elements.floats.encode(values[i]) << (bits * (i % 4));
        }
    }
    BK_HD void store_part(const uint32_t (&words)[2], int64_t part) const {
        uint8_t* const to = job.codes + part * bits;  // eight elements of so many bits have so many bytes
        if (has_aligned_codes && bits == 8) {
            store<2>(reinterpret_cast<uint32_t*>(to), Vec<uint32_t, 2>{{words[0], words[1]}});
        } else if (has_aligned_codes && bits == 4) {
            *reinterpret_cast<uint32_t*>(to) = words[0] | words[1] << 16;
        } else if (has_aligned_codes) {
            uint16_t* const halves = reinterpret_cast<uint16_t*>(to);
            halves[0] = static_cast<uint16_t>(words[0]);
            halves[1] = static_cast<uint16_t>(words[0] >> 16 | words[1] << 8);
            halves[2] = static_cast<uint16_t>(words[1] >> 8);
        } else {
            const int bytes = bits / 2;  // of a word
            for (int i = 0; i < bits; ++i)
                to[i] = static_cast<uint8_t>((i < bytes ? words[0] : words[1]) >> (8 * (i < bytes ? i : i - bytes)));
        }
    }
};

template <class T>
Status run_mx_quantize(const Launch& launch, const MxQuantizeJob<T>& job) {
    const codec::MxLayout layout{job.format};
    const int64_t extents[] = {job.scales.padded_rows(), job.scales.padded_blocks()};
    const int lanes = layout.block() / MxQuantizeLanes<T>::kPart;
    const MxQuantizeLanes<T> parts{job,
                                   ItemSplit<2>::of(extents),
                                   codec::MxElements::of(job.format),
                                   codec::FloatCodec::of(layout.element()),
                                   lanes,
                                   layout.bits(),
                                   is_aligned(job.codes, 8)};
    const int64_t items = ceil_div<int64_t>(parts.split.items * lanes, kItemThreads) * kItemThreads;
    return run_items(launch, items, kVectorBytes, parts);
}

}  // namespace bk::floats
