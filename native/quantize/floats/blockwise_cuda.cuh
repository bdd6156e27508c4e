// SPDX-License-Identifier: Apache-2.0
// Blocks of 8 to 256 elements, a power of two, on a GPU: a lane has eight elements, and the lanes of a block exchange maxima.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "quantize/floats/blockwise.h"

namespace bk::floats {

// The code nearest to x in [-1, 1] by a table of cells 1/16 wide, each of which has at most one midpoint of a code book:
// neighbouring midpoints are 0.08 or more apart.
struct BookCells {
    static constexpr int kCells = 33;
    struct alignas(8) Cell {
        float above;     // the largest f32 not above the midpoint; infinity where there is none
        uint32_t codes;  // up to it, and beyond it in the upper half
    };
    Cell cells[kCells];

    // An increasing function of y, rounded once, with values from 0 to 32.
    BK_HD static int cell_of(float y) {
        return static_cast<int>(bit_cast<uint32_t>(math::fma(y, 16.0f, 0x1.8p23f + 16.0f)) & 63u);
    }
    BK_HD void set(const codec::BookSearch& search, codec::CodeBook book, int cell) {
        const int last = book == codec::CodeBook::kNf4 ? 15 : 7;
        int below = 0;  // midpoints in lower cells
        while (below < last && cell_of(search.above[below]) < cell) ++below;
        const bool has_one = below < last && cell_of(search.above[below]) == cell;
        const uint32_t low = static_cast<uint32_t>(search.codes[below]);
        const uint32_t high = has_one ? static_cast<uint32_t>(search.codes[below + 1]) : low;
        cells[cell] = {has_one ? search.above[below] : bit_cast<float>(0x7f800000u), low | high << 16};
    }
    BK_HD uint32_t nearest(codec::CodeBook book, float x) const {
        const bool is_fp4 = book == codec::CodeBook::kFp4;
        const float y = is_fp4 ? math::fabs<float>(x) : x;
        const Cell cell = cells[cell_of(y)];
        return (y > cell.above ? cell.codes >> 16 : cell.codes & 15u) | (is_fp4 && x < 0.0f ? 8u : 0u);
    }
};

// Codes of a lane's elements, by rule.
struct FourBitLanes {
    static constexpr int kBytes = 4;
    FourBitCodes rule;

    BK_HD void set_up(const Team& team) const {
        rule.set_up(team);
        for (int i = team.rank; i < BookCells::kCells; i += team.size) cells(team)->set(*search(team), rule.book, i);
        team.sync();
    }
    // Even elements are in the high halves of bytes.
    BK_HD void add(const Team& team, uint32_t (&words)[2], int i, float x) const {
        words[0] |= cells(team)->nearest(rule.book, x) << (4 * (i ^ 1));
    }
    BK_HD uint8_t* bytes(int64_t e) const { return rule.codes + e / 2; }
    BK_HD static int64_t byte_count(int64_t elements) { return (elements + 1) / 2; }

private:
    BK_HD static codec::BookSearch* search(const Team& team) { return static_cast<codec::BookSearch*>(team.scratch); }
    BK_HD static BookCells* cells(const Team& team) { return reinterpret_cast<BookCells*>(search(team) + 1); }
};

struct EightBitLanes {
    static constexpr int kBytes = 8;
    EightBitCodes rule;

    BK_HD void set_up(const Team& team) const { rule.set_up(team); }
    BK_HD void add(const Team& team, uint32_t (&words)[2], int i, float x) const {
        words[i / 4] |= rule.code(team, x) << (8 * (i % 4));
    }
    BK_HD uint8_t* bytes(int64_t e) const { return rule.codes + e; }
    BK_HD static int64_t byte_count(int64_t elements) { return elements; }
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
        rule.set_up(team);
#pragma unroll 1
        for (int step = 0; step < kSteps; step += kAhead) {
            const int64_t first = item * kElements + (int64_t{step} * kMaxTeamThreads + team.rank) * kPart;
            if (step > 0) load(values, first);
            BK_UNROLL
            for (int i = 0; i < kAhead; ++i) quantize(team, values[i], first + i * kStride);
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
    BK_DEVICE void quantize(const Team& team, float (&values)[kPart], int64_t e) const {
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
        if (count <= 0) return;
        const float most = bit_cast<float>(bits), factor = factor_of(most);
        if (team.rank % lanes == 0) largest[e >> shift] = stored_magnitude(most);
        store_codes(team, values, factor, e, count);
    }
    BK_HD void store_codes(const Team& team, const float (&values)[kPart], float factor, int64_t e, int64_t count) const {
        uint32_t words[2] = {};
        BK_UNROLL
        for (int i = 0; i < kPart; ++i)
            if (i < count) rule.add(team, words, i, scaled_by(values[i], factor));
        uint8_t* const to = rule.bytes(e);
        if (has_aligned_codes && count >= kPart) {
            Vec<uint8_t, Lanes::kBytes> bytes;
            memcpy(&bytes, words, Lanes::kBytes);
            store<Lanes::kBytes>(to, bytes);
        } else {
            const int64_t stored = Lanes::byte_count(count < kPart ? count : kPart);
            for (int i = 0; i < stored; ++i) to[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
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
