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
    static constexpr int kPart = 8, kLanes = 4;  // elements of a lane, whole bytes of each format; lanes of a block
    static constexpr int kSteps = 2;
    MxQuantizeJob<T> job;
    ItemSplit<2> split;  // scales in rows, padding included
    codec::MxElements elements;
    codec::FloatCodec codec;
    int bits;  // of an element
    bool has_aligned_codes;

    // All lanes of a warp come here together: they exchange maxima. A thread block has kSteps parts a thread, whose elements
    // are read before the first of them is used.
    BK_DEVICE void operator()(int64_t item) const {
        const int64_t first = item / kItemThreads * (kItemThreads * kSteps) + item % kItemThreads;
        const int lane = static_cast<int>(static_cast<uint64_t>(item) % kLanes);
        int64_t index[kSteps][2] = {};
        bool is_there[kSteps], is_inside[kSteps];
        float values[kSteps][kPart] = {};
        BK_UNROLL
        for (int s = 0; s < kSteps; ++s) {
            const int64_t scale = static_cast<int64_t>(static_cast<uint64_t>(first + s * kItemThreads) / kLanes);
            is_there[s] = scale < split.items;
            if (is_there[s]) split.indices(scale, index[s]);
            is_inside[s] = is_there[s] && index[s][0] < job.scales.rows && index[s][1] < job.scales.blocks;
            if (is_inside[s]) load_widened(values[s], job.x + part_of(index[s], lane) * kPart, kPart, job.is_aligned);
        }
        BK_UNROLL
        for (int s = 0; s < kSteps; ++s) {
            const uint32_t code = scale_code(values[s], is_inside[s]);
            if (!is_there[s]) continue;  // the next one is not there either
            if (lane == 0) job.scale_codes[job.scales.at(index[s][0], index[s][1])] = static_cast<uint8_t>(code);
            if (is_inside[s]) store_codes(values[s], code, part_of(index[s], lane));
        }
    }

private:
    BK_HD static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
    BK_HD int64_t part_of(const int64_t (&index)[2], int lane) const {
        return (index[0] * job.scales.blocks + index[1]) * kLanes + lane;
    }

    // The code of the lanes' scale; 0xff where a number is not finite.
    BK_DEVICE uint32_t scale_code(const float (&values)[kPart], bool is_inside) const {
        uint32_t largest = 0;
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) largest = larger(largest, bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
        largest = larger(largest, shuffle_xor(largest, 1));
        largest = larger(largest, shuffle_xor(largest, 2));
        if (!is_inside) return 0;
        return largest < 0x7f800000u ? codec::mx_scale_code(elements, job.rule, bit_cast<float>(largest)) : 0xffu;
    }
    BK_HD void store_codes(float (&values)[kPart], uint32_t code, int64_t part) const {
        uint32_t words[2] = {};  // of four elements each
        const float factor = codec::inverse_of_e8m0(code);
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) values[i] = math::product(values[i], factor);
        if (code != 0xffu) encode(values, words);
        store_part(words, part);
    }

    BK_HD uint32_t pair(float a, float b) const {
        return codec.format == codec::FloatFormat::kE4m3 ? floats_to_fp8<e4m3>(a, b) : floats_to_fp8<e5m2>(a, b);
    }
    BK_HD void encode(const float (&values)[kPart], uint32_t (&words)[2]) const {
        if (elements.is_integer) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= codec::mxint8_code(values[i]) << (8 * (i % 4));
        } else if (bits == 8) {
            BK_UNROLL
            for (int i = 0; i < kPart; i += 2) words[i / 4] |= pair(values[i], values[i + 1]) << (8 * (i % 4));
        } else if (bits == 4) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= codec::e2m1_code(values[i]) << (4 * (i % 4));
        } else {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= elements.floats.encode(values[i]) << (6 * (i % 4));
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
    if (layout.is_nvfp4()) return run_block_teams(launch, job);  // faster: a block of 16 is little for several threads
    const int64_t extents[] = {job.scales.padded_rows(), job.scales.padded_blocks()};
    const MxQuantizeLanes<T> parts{
        job,           ItemSplit<2>::of(extents), codec::MxElements::of(job.format), codec::FloatCodec::of(layout.element()),
        layout.bits(), is_aligned(job.codes, 8)};
    const int64_t items =
        ceil_div<int64_t>(parts.split.items * MxQuantizeLanes<T>::kLanes, kItemThreads * MxQuantizeLanes<T>::kSteps) *
        kItemThreads;
    return run_items(launch, items, kVectorBytes, parts);
}

template <class T>
struct MxDequantizeAhead {
    static constexpr int kPart = kDecodedLanes<T>;  // elements of a step: whole bytes of each format
    static constexpr int kAhead = 4;                // steps whose codes are read together
    ItemSplit<2> split;                             // blocks in rows
    MxDequantizeJob<T> job;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const codec::MxLayout layout{job.format};
        const Decoder decoder{codec::MxElements::of(job.format), codec::FloatCodec::of(layout.element()), layout.bits()};
        const codec::Minifloat narrow_scale = codec::minifloat(codec::FloatFormat::kE4m3);
        const float whole = job.tensor_scale != nullptr ? job.tensor_scale[0] : 1.0f;
        const int bytes = kPart * layout.bits() / 8;
        const int shift = (kPart == 8 ? 2 : 3) - (layout.is_nvfp4() ? 1 : 0), parts = 1 << shift;  // of a block
        const int64_t count = job.scales.rows * job.scales.blocks * parts;
        const int64_t begin = item * kBlocksOfTeam, end = begin + kBlocksOfTeam < count ? begin + kBlocksOfTeam : count;
        for (int64_t first = begin + team.rank; first < end; first += int64_t{team.size} * kAhead) {
            uint64_t part[kAhead] = {};
            uint32_t code[kAhead] = {};
            BK_UNROLL
            for (int step = 0; step < kAhead; ++step) {
                const int64_t i = first + int64_t{team.size} * step;
                if (i >= end) break;
                int64_t at[2];
                split.indices(i >> shift, at);
                code[step] = job.scale_codes[job.scales.at(at[0], at[1])];
                part[step] = stream_part(job.codes + i * bytes, bytes, job.has_aligned_codes);
            }
            BK_UNROLL
            for (int step = 0; step < kAhead; ++step) {
                const int64_t i = first + int64_t{team.size} * step;
                if (i >= end) break;
                const float scale =
                    layout.is_nvfp4() ? math::product(narrow_scale.decode(code[step]), whole) : codec::e8m0_value(code[step]);
                float values[kPart];
                decoder.decode(part[step], values);
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = math::product(values[e], scale);
                store_rounded(job.y + i * kPart, values, kPart, job.is_aligned);
            }
        }
    }

private:
    struct Decoder {
        codec::MxElements elements;
        codec::FloatCodec codec;
        int bits;

        BK_HD float decode_byte(uint8_t code) const {
            return codec.format == codec::FloatFormat::kE4m3 ? fp8_to_float(e4m3{code}) : fp8_to_float(e5m2{code});
        }
        BK_HD void decode(uint64_t part, float (&values)[kPart]) const {
            if (elements.is_integer) {
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = codec::mxint8_value(static_cast<uint32_t>(part >> (8 * e)) & 255u);
            } else if (bits == 8) {
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = decode_byte(static_cast<uint8_t>(part >> (8 * e)));
            } else if (bits == 4) {
                const codec::Minifloat e2m1 = codec::minifloat(codec::FloatFormat::kE2m1);
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = e2m1.decode_finite(static_cast<uint32_t>(part >> (4 * e)) & 15u);
            } else {
                BK_UNROLL
                for (int e = 0; e < kPart; ++e)
                    values[e] = codec.floats.decode_finite(static_cast<uint32_t>(part >> (6 * e)) & 63u);
            }
        }
    };
};

template <class T>
Status run_mx_dequantize(const Launch& launch, const MxDequantizeJob<T>& job) {
    const ScaleMap& s = job.scales;
    const int64_t extents[] = {s.rows, s.blocks};
    const int64_t block = codec::MxLayout{job.format}.block();
    const MxDequantizeAhead<T> ahead{ItemSplit<2>::of(extents), job};
    return run_teams(launch, ceil_div(s.rows * s.blocks * block / kDecodedLanes<T>, kBlocksOfTeam), kBlocksOfTeam * 16, ahead);
}

}  // namespace bk::floats
