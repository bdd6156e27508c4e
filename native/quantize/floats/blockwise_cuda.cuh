// SPDX-License-Identifier: Apache-2.0
// Blocks of 8 to 256 elements, a power of two, on a GPU: a lane has eight elements, and the lanes of a block exchange maxima.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "quantize/floats/blockwise.h"

namespace bk::floats {

// The code nearest to y in [-1, 1] by cells 2/31 wide, each of which has at most one midpoint of a code book: neighbouring
// midpoints are 0.08 or more apart. A lane of a warp has a cell, and others ask it by shuffles, which have no bank conflicts.
struct BookCells {
    float above;     // the largest f32 not above the midpoint; infinity where there is none
    uint32_t codes;  // up to it, and beyond it in the upper half

    // An increasing function of y, rounded once: modulo 32, which shuffles take it by, from 0 to 30.
    BK_HD static uint32_t cell_of(float y) { return bit_cast<uint32_t>(math::fma(y, 15.5f, 0x1.8p23f + 15.0f)); }

    // Values of a code book in ascending order, of FP4 the magnitudes.
    template <codec::CodeBook kBook>
    BK_HD static BookCells of(uint32_t lane) {
        constexpr int kMidpoints = kBook == codec::CodeBook::kNf4 ? 15 : 7;
        codec::BookSearch search;
        BK_UNROLL
        for (int i = 0; i <= kMidpoints; ++i) search.set(kBook, i);
        BookCells cell{bit_cast<float>(0x7f800000u), static_cast<uint32_t>(search.codes[0])};
        uint32_t next = cell.codes;
        BK_UNROLL
        for (int i = 0; i < kMidpoints; ++i) {
            const uint32_t at = cell_of(search.above[i]) % 32;
            const uint32_t beyond = static_cast<uint32_t>(search.codes[i + 1]);
            if (at < lane) cell.codes = beyond;
            if (at <= lane) next = beyond;
            if (at == lane) cell.above = search.above[i];
        }
        cell.codes |= next << 16;
        return cell;
    }
};

// Codes of a lane's elements, by rule.
struct FourBitLanes {
    static constexpr int kBytes = 4;
    FourBitCodes rule;

    BK_DEVICE BookCells set_up(const Team& team) const {
        const uint32_t lane = static_cast<uint32_t>(team.rank) % 32;
        return rule.book == codec::CodeBook::kNf4 ? BookCells::of<codec::CodeBook::kNf4>(lane)
                                                  : BookCells::of<codec::CodeBook::kFp4>(lane);
    }
    // All lanes of a warp come here together. Even elements are in the high halves of bytes.
    template <int kPart>
    BK_DEVICE void encode(const BookCells& cells, float (&values)[kPart], float factor, uint32_t (&words)[2]) const {
        // A factor that is rounded to 24 bits leads to no magnitude beyond 1.
        if (factor >= 0x1p-126f && factor < bit_cast<float>(0x7f800000u)) {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) values[i] = math::product(values[i], factor);
        } else {
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) values[i] = scaled_by(values[i], factor);
        }
        if (rule.book == codec::CodeBook::kNf4)
            encode_scaled<false>(cells, values, words[0]);
        else
            encode_scaled<true>(cells, values, words[0]);
    }
    // Bytes of elements that a vector lacks have zeros in their low halves.
    BK_HD static void cut(uint32_t (&words)[2], int count) {
        if (count % 2 == 1) words[0] &= ~(15u << (4 * (count ^ 1)));
    }
    BK_HD uint8_t* bytes(int64_t e) const { return rule.codes + e / 2; }
    BK_HD static int byte_count(int elements) { return (elements + 1) / 2; }

private:
    template <bool kHasSign, int kPart>
    BK_DEVICE static void encode_scaled(const BookCells& cells, const float (&values)[kPart], uint32_t& word) {
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) {
            const float y = kHasSign ? math::fabs<float>(values[i]) : values[i];
            const int cell = static_cast<int>(BookCells::cell_of(y));
            const float above = shuffle_from(cells.above, cell);
            const uint32_t codes = shuffle_from(cells.codes, cell);
            uint32_t code = y > above ? codes >> 16 : codes & 15u;
            if (kHasSign && values[i] < 0.0f) code |= 8u;
            word |= code << (4 * (i ^ 1));
        }
    }
};

struct EightBitLanes {
    static constexpr int kBytes = 8;
    EightBitCodes rule;

    BK_DEVICE const Team& set_up(const Team& team) const {
        rule.set_up(team);
        return team;
    }
    template <int kPart>
    BK_DEVICE void encode(const Team& team, float (&values)[kPart], float factor, uint32_t (&words)[2]) const {
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) words[i / 4] |= rule.code(team, scaled_by(values[i], factor)) << (8 * (i % 4));
    }
    BK_HD uint8_t* bytes(int64_t e) const { return rule.codes + e; }
    BK_HD static void cut(uint32_t (&)[2], int) {}
    BK_HD static int byte_count(int elements) { return elements; }
};

inline FourBitLanes lanes_of(const FourBitCodes& rule) { return {rule}; }
inline EightBitLanes lanes_of(const EightBitCodes& rule) { return {rule}; }

template <class T, class Lanes>
struct BlockwiseLanes {
    static constexpr int kPart = 8, kSteps = 8, kAhead = 2;  // steps of a thread, and those read together
    static constexpr int64_t kElements = int64_t{kMaxTeamThreads} * kPart * kSteps;  // of a team

    int64_t numel;
    int lanes, shift;  // lanes of a block; the logarithm of its size
    bool is_aligned, has_aligned_codes;
    const T* x;
    const float* offset;
    float* largest;
    Lanes rule;

    BK_DEVICE void operator()(const Team& team, int64_t item) const {
        float values[kAhead][kPart];
        load(values, item * kElements + team.rank * kPart);
        const auto& table = rule.set_up(team);
#pragma unroll 1
        for (int step = 0; step < kSteps; step += kAhead) {
            const int64_t first = item * kElements + (int64_t{step} * kMaxTeamThreads + team.rank) * kPart;
            if (step > 0) load(values, first);
            BK_UNROLL
            for (int i = 0; i < kAhead; ++i) quantize(team, table, values[i], first + i * kStride);
        }
    }

private:
    static constexpr int64_t kStride = int64_t{kMaxTeamThreads} * kPart;

    // Elements of kAhead steps, zeros where there are none.
    BK_DEVICE void load(float (&values)[kAhead][kPart], int64_t first) const {
        BK_UNROLL
        for (int s = 0; s < kAhead; ++s) {
            const int64_t e = first + s * kStride, count = numel - e;
            BK_UNROLL
            for (int i = 0; i < kPart; ++i) values[s][i] = 0.0f;
            if (count > 0) load_widened(values[s], x + e, count, is_aligned);
        }
    }
    template <class Table>
    BK_DEVICE void quantize(const Team& team, const Table& table, float (&values)[kPart], int64_t e) const {
        const int64_t count = numel - e;
        uint32_t bits = 0;
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) {
            if (offset != nullptr && i < count) values[i] = difference(values[i], offset[0]);
            const uint32_t own = bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
            bits = own > bits ? own : bits;
        }
        for (int distance = 1; distance < lanes; distance *= 2) {
            const uint32_t other = shuffle_xor(bits, distance);
            bits = other > bits ? other : bits;
        }
        const float most = bit_cast<float>(bits);
        uint32_t words[2] = {};
        rule.encode(table, values, factor_of(most), words);
        if (count <= 0) return;
        if ((team.rank & (lanes - 1)) == 0) largest[e >> shift] = stored_magnitude(most);
        store_codes(words, e, count);
    }
    BK_HD void store_codes(uint32_t (&words)[2], int64_t e, int64_t count) const {
        uint8_t* const to = rule.bytes(e);
        if (has_aligned_codes && count >= kPart) {
            Vec<uint8_t, Lanes::kBytes> bytes;
            memcpy(&bytes, words, Lanes::kBytes);
            store<Lanes::kBytes>(to, bytes);
        } else {
            const int own = count < kPart ? static_cast<int>(count) : kPart;
            Lanes::cut(words, own);
            for (int i = 0; i < Lanes::byte_count(own); ++i) to[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
        }
    }
};

template <class T, class Codes>
Status run_blockwise(const Launch& launch, const BlockwiseJob<T, Codes>& job) {
    using Job = BlockwiseLanes<T, decltype(lanes_of(job.rule))>;
    const int64_t block = job.block;
    if (block < Job::kPart || block > 32 * Job::kPart || (block & (block - 1)) != 0) return run_blockwise_teams(launch, job);
    int shift = 0;
    while (int64_t{1} << shift < block) ++shift;
    const auto rule = lanes_of(job.rule);
    const Job lanes{job.numel,
                    static_cast<int>(block / Job::kPart),
                    shift,
                    is_aligned(job.x, kVectorBytes),
                    is_aligned(rule.rule.codes, rule.kBytes),
                    job.x,
                    job.offset,
                    job.largest,
                    rule};
    return run_teams(launch, ceil_div(job.numel, Job::kElements), Job::kElements, lanes, true);
}

}  // namespace bk::floats
