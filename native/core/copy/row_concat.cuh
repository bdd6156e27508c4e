// SPDX-License-Identifier: Apache-2.0
// Concat and split of tensors whose short rows are adjacent in the rows of another one, as in a stack along the last
// axis. A block stages some rows in shared memory in the order of one side and writes them in the order of the other,
// so that both sides are accessed by wide words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/copy/row_copies.h"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kRowConcatThreads = 256;
constexpr int kRowConcatUnroll = 4;         // groups of a thread in flight together
constexpr int kRowConcatBytes = 24 * 1024;  // of shared memory, at most

// A word is as wide as all rows and addresses allow. A thread moves groups: a few consecutive words of a slice, which
// may span several rows, or as many bytes of a concatenated row as one access takes.
struct RowConcat {
    char* slice[kMaxRowCopies];
    char* concat;
    int64_t pitch;                    // of the concatenated tensor, in bytes
    FastDiv<uint32_t> slice_groups;   // groups of a block's rows in one slice
    FastDiv<uint32_t> slice_words;    // words of a row of a slice
    FastDiv<uint32_t> concat_groups;  // groups of a concatenated row
    uint32_t slices, rows, rows_per_block;
    uint32_t staged_pitch;  // bytes between rows in shared memory
    bool to_concat;         // concat; else split
    bool by_vectors;        // groups of a concatenated row are 16 bytes, else one unit
};

// Shared memory is accessed by units along concatenated rows.
template <class Word>
struct RowConcatWords {
    using Unit = std::conditional_t<(sizeof(Word) < 4), uint32_t, Word>;
    static constexpr int kWord = static_cast<int>(sizeof(Word)), kUnit = static_cast<int>(sizeof(Unit));
    static constexpr int kSliceGroup = kWord == 1 ? 4 : 8 / kWord;  // words; more bytes would cause bank conflicts
};

// Returns false for other copies, and for rows that are too few or too wide to gain.
template <class Word>
bool plan_concat(const RowCopy* copies, int count, RowConcat* plan) {
    using Words = RowConcatWords<Word>;
    constexpr int64_t kMaxRowBytes = 32, kMinRows = 64, kSliceBytes = int64_t{Words::kSliceGroup} * Words::kWord;
    const RowCopy& first = copies[0];
    if (count < 2 || first.bytes >= kMaxRowBytes || first.rows < kMinRows) return false;
    const auto is_concat = [&](auto concat, auto concat_pitch, auto slice_pitch) {
        return std::all_of(copies, copies + count, [&](const RowCopy& copy) {
            return copy.*concat == first.*concat + (&copy - copies) * first.bytes &&
                   copy.*concat_pitch == first.*concat_pitch && copy.*slice_pitch == first.bytes && copy.bytes == first.bytes &&
                   copy.rows == first.rows;
        });
    };
    RowConcat j{};
    j.to_concat = is_concat(&RowCopy::to, &RowCopy::to_pitch, &RowCopy::from_pitch);
    if (!j.to_concat && !is_concat(&RowCopy::from, &RowCopy::from_pitch, &RowCopy::to_pitch)) return false;
    for (int k = 0; k < count; ++k) {
        j.slice[k] = j.to_concat ? const_cast<char*>(copies[k].from) : copies[k].to;
        if (!is_aligned(j.slice[k], kSliceBytes)) return false;
    }
    const int64_t row = count * first.bytes;
    j.concat = j.to_concat ? first.to : const_cast<char*>(first.from);
    j.pitch = j.to_concat ? first.to_pitch : first.from_pitch;
    const auto allows = [&](int64_t bytes) {
        return row % bytes == 0 && j.pitch % bytes == 0 && is_aligned(j.concat, static_cast<size_t>(bytes));
    };
    if (!allows(Words::kUnit)) return false;
    j.by_vectors = allows(kVectorBytes);
    const int64_t staged = (row / Words::kUnit | 1) * Words::kUnit;  // consecutive rows begin at different banks
    const int64_t fit = kRowConcatBytes / staged, block_rows = fit >= 64 ? fit / 64 * 64 : fit / 4 * 4;
    j.slice_groups = FastDiv<uint32_t>(block_rows * first.bytes / kSliceBytes);
    j.slice_words = FastDiv<uint32_t>(first.bytes / Words::kWord);
    j.concat_groups = FastDiv<uint32_t>(row / (j.by_vectors ? kVectorBytes : Words::kUnit));
    j.slices = static_cast<uint32_t>(count);
    j.rows = static_cast<uint32_t>(first.rows), j.rows_per_block = static_cast<uint32_t>(block_rows);
    j.staged_pitch = static_cast<uint32_t>(staged);
    *plan = j;
    return true;
}

// The rows of a block.
struct RowConcatBlock {
    uint32_t first_row, rows;
    char* staged;

    BK_DEVICE RowConcatBlock(const RowConcat& plan, char* shared)
        : first_row(blockIdx.x * plan.rows_per_block), rows(min(plan.rows_per_block, plan.rows - first_row)), staged(shared) {}
};

// A group of a slice: its words in memory, the `count` of them that the block's rows have, and where the first one is
// staged: `staged_row` + `along`.
template <class Word>
struct SliceGroup {
    static constexpr int N = RowConcatWords<Word>::kSliceGroup;
    Word* words;
    Word* staged_row;
    uint32_t along, count;

    BK_DEVICE void find(const RowConcat& plan, const RowConcatBlock& block, uint32_t group) {
        const DivMod<uint32_t> of = plan.slice_groups(group);
        const uint32_t word = of.remainder * N, row_words = plan.slice_words.divisor(), all = block.rows * row_words;
        const DivMod<uint32_t> at = plan.slice_words(word);
        staged_row = reinterpret_cast<Word*>(block.staged + at.quotient * plan.staged_pitch) + of.quotient * row_words;
        along = at.remainder;
        count = word >= all ? 0 : min(all - word, static_cast<uint32_t>(N));
        words = reinterpret_cast<Word*>(plan.slice[of.quotient]) + (static_cast<int64_t>(block.first_row) * row_words + word);
    }
    // Calls each(lane, staged word).
    template <class Each>
    BK_DEVICE void each_word(const RowConcat& plan, const Each& each) const {
        Word* own = staged_row;
        uint32_t at = along;
#pragma unroll
        for (uint32_t lane = 0; lane < N; ++lane) {
            if (lane < count) each(lane, own + at);
            if (++at < plan.slice_words.divisor()) continue;
            at = 0, own += plan.staged_pitch / static_cast<uint32_t>(sizeof(Word));
        }
    }
};

template <class Word>
BK_DEVICE void slices_to_shared(const RowConcat& plan, const RowConcatBlock& block) {
    constexpr int N = SliceGroup<Word>::N;
    const uint32_t count = plan.slices * plan.slice_groups.divisor();
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += kRowConcatThreads * kRowConcatUnroll) {
        SliceGroup<Word> of[kRowConcatUnroll];
        Vec<Word, N> group[kRowConcatUnroll];
#pragma unroll
        for (int u = 0; u < kRowConcatUnroll; ++u) {
            const uint32_t group_index = first + u * kRowConcatThreads;
            of[u].count = 0;
            if (group_index < count) of[u].find(plan, block, group_index);
            if (of[u].count == N) {
                group[u] = load<N>(of[u].words);
                continue;
            }
            for (uint32_t lane = 0; lane < N; ++lane)
                if (lane < of[u].count) group[u].lane[lane] = of[u].words[lane];
        }
#pragma unroll
        for (int u = 0; u < kRowConcatUnroll; ++u)
            of[u].each_word(plan, [&](uint32_t lane, Word* to) { *to = group[u].lane[lane]; });
    }
}

template <class Word>
BK_DEVICE void shared_to_slices(const RowConcat& plan, const RowConcatBlock& block) {
    constexpr int N = SliceGroup<Word>::N;
    const uint32_t count = plan.slices * plan.slice_groups.divisor();
#pragma unroll 2
    for (uint32_t group_index = threadIdx.x; group_index < count; group_index += kRowConcatThreads) {
        SliceGroup<Word> of;
        of.find(plan, block, group_index);
        Vec<Word, N> group;
        of.each_word(plan, [&](uint32_t lane, const Word* from) { group.lane[lane] = *from; });
        if (of.count == N) {
            store<N>(of.words, group);
            continue;
        }
        for (uint32_t lane = 0; lane < N; ++lane)
            if (lane < of.count) of.words[lane] = group.lane[lane];
    }
}

// N units per group.
template <bool to_concat, int N, class Unit>
BK_DEVICE void move_concat(const RowConcat& plan, const RowConcatBlock& block) {
    const uint32_t count = block.rows * plan.concat_groups.divisor();
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += kRowConcatThreads * kRowConcatUnroll) {
        Vec<Unit, N>* concat[kRowConcatUnroll];
        Unit* staged[kRowConcatUnroll];
        Vec<Unit, N> group[kRowConcatUnroll];
#pragma unroll
        for (int u = 0; u < kRowConcatUnroll; ++u) {
            const uint32_t group_index = first + u * kRowConcatThreads;
            const DivMod<uint32_t> at = plan.concat_groups(group_index < count ? group_index : 0);
            concat[u] =
                reinterpret_cast<Vec<Unit, N>*>(plan.concat + (block.first_row + at.quotient) * plan.pitch) + at.remainder;
            staged[u] = reinterpret_cast<Unit*>(block.staged + at.quotient * plan.staged_pitch) + at.remainder * N;
            if (!to_concat && group_index < count) group[u] = *concat[u];
        }
#pragma unroll
        for (int u = 0; u < kRowConcatUnroll; ++u) {
            if (first + u * kRowConcatThreads >= count) continue;
#pragma unroll
            for (int unit = 0; unit < N; ++unit) {
                if (to_concat)
                    group[u].lane[unit] = staged[u][unit];
                else
                    staged[u][unit] = group[u].lane[unit];
            }
            if (to_concat) *concat[u] = group[u];
        }
    }
}

template <bool to_concat, class Word>
BK_DEVICE void move_rows(const RowConcat& plan, const RowConcatBlock& block) {
    using Words = RowConcatWords<Word>;
    using Unit = typename Words::Unit;
    if (plan.by_vectors)
        move_concat<to_concat, kVectorBytes / Words::kUnit, Unit>(plan, block);
    else
        move_concat<to_concat, 1, Unit>(plan, block);
}

template <class Word>
__global__ void __launch_bounds__(kRowConcatThreads, 5) concat_rows_kernel(const __grid_constant__ RowConcat plan) {
    BK_LAUNCH_SHARED(uint4, shared_memory);
    const RowConcatBlock block(plan, reinterpret_cast<char*>(shared_memory));
    if (plan.to_concat) {
        slices_to_shared<Word>(plan, block);
        __syncthreads();
        move_rows<true, Word>(plan, block);
    } else {
        move_rows<false, Word>(plan, block);
        __syncthreads();
        shared_to_slices<Word>(plan, block);
    }
}

// Returns false if this path does not apply.
template <class Word>
bool try_concat(const Launch& launch, const RowCopy* copies, int count, Status* status) {
    RowConcat plan;
    if (!plan_concat<Word>(copies, count, &plan)) return false;
    const Grid grid{dim3(ceil_div(plan.rows, plan.rows_per_block)), dim3(kRowConcatThreads), 1,
                    plan.rows_per_block * plan.staged_pitch};
    *status = launch_kernel(launch, grid, concat_rows_kernel<Word>, plan);
    return true;
}

// `bytes` is the widest word, at most 16; 8 is used for 16.
inline bool try_concat(const Launch& launch, const RowCopy* copies, int count, uint64_t bytes, Status* status) {
    switch (bytes) {
        case 1: return try_concat<uint8_t>(launch, copies, count, status);
        case 2: return try_concat<uint16_t>(launch, copies, count, status);
        case 4: return try_concat<uint32_t>(launch, copies, count, status);
        default: return try_concat<uint64_t>(launch, copies, count, status);
    }
}

}  // namespace bk
