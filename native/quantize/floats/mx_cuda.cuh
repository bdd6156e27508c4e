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
    static constexpr int kSteps = 64 / (kPart * static_cast<int>(sizeof(T)));  // of 64 bytes together
    static constexpr int kVector = kVectorLanes<T> < kPart ? kVectorLanes<T> : kPart, kVectors = kPart / kVector;
    MxQuantizeJob<T> job;
    ItemSplit<2> split;  // scales in rows, padding included
    codec::MxElements elements;
    int bits;      // of an element
    bool is_flat;  // scales lie as blocks do

    // All lanes of a warp come here together: they exchange maxima. A thread block has kSteps parts a thread, whose elements
    // are read before the first of them is used.
    BK_DEVICE void operator()(int64_t item) const {
        const int64_t begin = item / kItemThreads * (kItemThreads * kSteps) + item % kItemThreads;
        Part parts[kSteps];
        BK_UNROLL
        for (int s = 0; s < kSteps; ++s) parts[s] = part_at(begin + s * kItemThreads);
        BK_UNROLL
        for (int s = 0; s < kSteps; ++s) quantize(parts[s]);
    }

private:
    struct Part {
        int64_t at, scale_at;  // among all parts; negative: not there, or without elements
        Vec<T, kVector> x[kVectors];
    };
    BK_HD static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

    BK_DEVICE Part part_at(int64_t i) const {
        const int64_t scale = static_cast<int64_t>(static_cast<uint64_t>(i) / kLanes);
        Part part{i, scale, {}};
        if (scale >= split.items) {
            part.at = part.scale_at = -1;
        } else if (!is_flat) {
            int64_t index[2];
            split.indices(scale, index);
            part.scale_at = job.scales.at(index[0], index[1]);
            const bool is_inside = index[0] < job.scales.rows && index[1] < job.scales.blocks;
            part.at = is_inside ? (index[0] * job.scales.blocks + index[1]) * kLanes + i % kLanes : -1;
        }
        if (part.at < 0) return part;
        const T* const from = job.x + part.at * kPart;
        BK_UNROLL
        for (int v = 0; v < kVectors; ++v) part.x[v] = load<kVector>(from + v * kVector);
        return part;
    }

    BK_DEVICE void quantize(const Part& part) const {
        float values[kPart];
        uint32_t largest = 0;
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) {
            values[i] = widen_lane(part.x[i / kVector], i % kVector);
            largest = larger(largest, bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
        }
        largest = larger(largest, shuffle_xor(largest, 1));
        largest = larger(largest, shuffle_xor(largest, 2));
        const bool is_finite = largest < 0x7f800000u;
        const uint32_t code = is_finite ? codec::mx_scale_code(elements, job.rule, bit_cast<float>(largest)) : 0xffu;
        const int lane = static_cast<int>(threadIdx.x % kLanes);
        if (lane == 0 && part.scale_at >= 0) job.scale_codes[part.scale_at] = static_cast<uint8_t>(part.at < 0 ? 0u : code);
        uint32_t words[2] = {};  // of four elements each
        if (is_finite) encode(values, codec::inverse_of_e8m0(code), words);
        if (bits == 6) return store_block(words, part.at, lane);
        if (part.at >= 0) store_part(words, part.at);
    }

    BK_HD bool has_three_bits() const { return elements.floats.mantissa == 3; }
    BK_HD uint32_t four(const float* x) const {
        if (has_three_bits()) return floats_to_fp8<e4m3>(x[0], x[1]) | floats_to_fp8<e4m3>(x[2], x[3]) << 16;
        return floats_to_fp8<e5m2>(x[0], x[1]) | floats_to_fp8<e5m2>(x[2], x[3]) << 16;
    }
    // Four codes of e2m3 or e3m2 from those of e4m3 or e5m2, which have their mantissas: of values 2^-6 or 2^-12 times as large
    // they are the same but for the position of the sign. The scale leaves magnitudes below 2^(largest exponent + 1), which may
    // round up to that, one code too many.
    BK_HD static uint32_t narrowed(uint32_t bytes) {
        uint32_t codes = bytes & 0x7f7f7f7fu;
        codes -= codes >> 5 & 0x01010101u;
        codes |= bytes >> 2 & 0x20202020u;
        const uint32_t pairs = (codes & 0x003f003fu) | (codes >> 2 & 0x0fc00fc0u);
        return (pairs & 0xfffu) | (pairs >> 4 & 0xfff000u);
    }
    BK_HD void encode(float (&values)[kPart], float factor, uint32_t (&words)[2]) const {
        if (bits == 6) factor = math::product(factor, has_three_bits() ? 0x1p-6f : 0x1p-12f);
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) values[i] = math::product(values[i], factor);
        if (elements.is_integer) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= codec::mxint8_code(values[i]) << (8 * (i % 4));
        } else if (bits == 4) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) words[i / 4] |= codec::e2m1_code(values[i]) << (4 * (i % 4));
        } else {
            words[0] = four(values), words[1] = four(values + 4);
            if (bits == 6) words[0] = narrowed(words[0]), words[1] = narrowed(words[1]);
        }
    }
    // A block of six bits an element: three lanes have 8 of its 24 bytes each.
    BK_DEVICE void store_block(const uint32_t (&words)[2], int64_t part, int lane) const {
        const uint64_t own = words[0] | static_cast<uint64_t>(words[1]) << 24;
        const uint64_t next = of_next_lane(own, lane);
        const uint64_t bytes = own >> (16 * lane) | next << (48 - 16 * lane);
        if (part < 0 || lane == 3) return;
        const Vec<uint32_t, 2> both{{static_cast<uint32_t>(bytes), static_cast<uint32_t>(bytes >> 32)}};
        store<2>(reinterpret_cast<uint32_t*>(job.codes + (part - lane) / kLanes * 24 + 8 * lane), both);
    }
    // Codes of the next lane; what a block's last lane gets does not matter.
    BK_DEVICE static uint64_t of_next_lane(uint64_t own, int lane) {
        const int in_warp = static_cast<int>(threadIdx.x % 32);
        return shuffle_from(own, lane == 3 ? in_warp : in_warp + 1);
    }
    BK_HD void store_part(const uint32_t (&words)[2], int64_t part) const {
        uint8_t* const to = job.codes + part * bits;  // eight elements of so many bits have so many bytes
        if (bits == 8)
            store<2>(reinterpret_cast<uint32_t*>(to), Vec<uint32_t, 2>{{words[0], words[1]}});
        else
            *reinterpret_cast<uint32_t*>(to) = words[0] | words[1] << 16;
    }
};

template <class T>
Status run_mx_quantize(const Launch& launch, const MxQuantizeJob<T>& job) {
    const codec::MxLayout layout{job.format};
    // A block of 16 is little for several threads.
    if (layout.is_nvfp4() || !job.is_aligned || !job.has_aligned_codes) return run_block_teams(launch, job);
    const int64_t extents[] = {job.scales.padded_rows(), job.scales.padded_blocks()};
    const bool is_flat = job.scales.layout == ScaleLayout::kLinear;
    const MxQuantizeLanes<T> parts{job, ItemSplit<2>::of(extents), codec::MxElements::of(job.format), layout.bits(), is_flat};
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
                part[step] = load_codes(i, bytes);
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
    // Codes of part i. Six bytes lie in two words at most, which do not go beyond their block.
    BK_HD uint64_t load_codes(int64_t i, int bytes) const {
        const uint8_t* const from = job.codes + i * bytes;
        if (kPart != 8 || bytes != 6 || !job.has_aligned_codes) return stream_part(from, bytes, job.has_aligned_codes);
        const int skipped = static_cast<int>(i % 2) * 2;
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(from - skipped);
        return (words[0] | static_cast<uint64_t>(words[1]) << 32) >> (8 * skipped);
    }
    struct Decoder {
        codec::MxElements elements;
        codec::FloatCodec codec;
        int bits;

        // The first four codes of six bits as those of e4m3 or e5m2 of values 2^-6 or 2^-12 times as large.
        BK_HD static uint32_t widened(uint32_t codes) {
            const uint32_t pairs = (codes & 0xfffu) | (codes & 0xfff000u) << 4;
            const uint32_t bytes = (pairs & 0x003f003fu) | (pairs & 0x0fc00fc0u) << 2;
            return (bytes & 0x1f1f1f1fu) | (bytes & 0x20202020u) << 2;
        }
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
                const bool is_e2m3 = codec.format == codec::FloatFormat::kE2m3;
                BK_UNROLL
                for (int e = 0; e < kPart; e += 4) {
                    const uint32_t codes = widened(static_cast<uint32_t>(part >> (6 * e)));
                    BK_UNROLL
                    for (int i = 0; i < 4; ++i) {
                        const uint8_t code = static_cast<uint8_t>(codes >> (8 * i));
                        values[e + i] = is_e2m3 ? fp8_to_float(e4m3{code}) : fp8_to_float(e5m2{code});
                    }
                }
                const float power = is_e2m3 ? 0x1p6f : 0x1p12f;
                BK_UNROLL
                for (int e = 0; e < kPart; ++e) values[e] = math::product(values[e], power);
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
