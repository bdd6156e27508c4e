// Tensors whose short rows lie side by side in those of another one, as of a stack along the last axis: joins of them, and the
// parts of a join. A block has some rows: it brings them into shared memory in the order of one side's memory, and writes them
// in that of the other's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/row_copies.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kRowJoinThreads = 256;
constexpr int kRowJoinUnroll = 4;         // groups of a thread that are in flight together
constexpr int kRowJoinBytes = 24 * 1024;  // of shared memory, at most

// Of words, each as wide as all rows and addresses allow. A thread takes groups of them: a few that follow one another in a
// part, which are of several rows, and as many bytes of a row of the whole as one access takes.
struct RowJoin {
    char* part[kMostRowCopies];
    char* whole;
    int64_t pitch;                   // of the whole, in bytes
    FastDiv<uint32_t> part_groups;   // of a block's rows in a part
    FastDiv<uint32_t> part_words;    // of a row of a part
    FastDiv<uint32_t> whole_groups;  // of a row of all parts
    uint32_t parts, rows, rows_of_block;
    uint32_t staged_pitch;  // bytes, from row to row in shared memory
    bool to_whole;          // else to the parts
    bool by_vectors;        // groups of the whole are of 16 bytes, else of one unit
};

// Shared memory is accessed by units where it holds what lies side by side in the whole.
template <class Word>
struct RowJoinWords {
    using Unit = std::conditional_t<(sizeof(Word) < 4), uint32_t, Word>;
    static constexpr int kWord = static_cast<int>(sizeof(Word)), kUnit = static_cast<int>(sizeof(Unit));
    static constexpr int kPartGroup = kWord == 1 ? 4 : 8 / kWord;  // words; of bytes more would meet in one bank
};

// False where the rows are no such ones, or too few or too wide to gain.
template <class Word>
bool plan_join(const RowCopy* copies, int count, RowJoin* join) {
    using Words = RowJoinWords<Word>;
    constexpr int64_t kLongRow = 32, kFewRows = 64, kPartBytes = int64_t{Words::kPartGroup} * Words::kWord;
    const RowCopy& first = copies[0];
    if (count < 2 || first.bytes >= kLongRow || first.rows < kFewRows) return false;
    const auto is_join = [&](auto whole, auto whole_pitch, auto part_pitch) {
        return std::all_of(copies, copies + count, [&](const RowCopy& copy) {
            return copy.*whole == first.*whole + (&copy - copies) * first.bytes && copy.*whole_pitch == first.*whole_pitch &&
                   copy.*part_pitch == first.bytes && copy.bytes == first.bytes && copy.rows == first.rows;
        });
    };
    RowJoin j{};
    j.to_whole = is_join(&RowCopy::to, &RowCopy::to_pitch, &RowCopy::from_pitch);
    if (!j.to_whole && !is_join(&RowCopy::from, &RowCopy::from_pitch, &RowCopy::to_pitch)) return false;
    for (int k = 0; k < count; ++k) {
        j.part[k] = j.to_whole ? const_cast<char*>(copies[k].from) : copies[k].to;
        if (!is_aligned(j.part[k], kPartBytes)) return false;
    }
    const int64_t row = count * first.bytes;
    j.whole = j.to_whole ? first.to : const_cast<char*>(first.from);
    j.pitch = j.to_whole ? first.to_pitch : first.from_pitch;
    const auto goes_by = [&](int64_t bytes) {
        return row % bytes == 0 && j.pitch % bytes == 0 && is_aligned(j.whole, static_cast<size_t>(bytes));
    };
    if (!goes_by(Words::kUnit)) return false;
    j.by_vectors = goes_by(kVectorBytes);
    const int64_t staged = (row / Words::kUnit | 1) * Words::kUnit;  // rows begin at different banks
    const int64_t fit = kRowJoinBytes / staged, of_block = fit >= 64 ? fit / 64 * 64 : fit / 4 * 4;
    j.part_groups = FastDiv<uint32_t>(of_block * first.bytes / kPartBytes);
    j.part_words = FastDiv<uint32_t>(first.bytes / Words::kWord);
    j.whole_groups = FastDiv<uint32_t>(row / (j.by_vectors ? kVectorBytes : Words::kUnit));
    j.parts = static_cast<uint32_t>(count);
    j.rows = static_cast<uint32_t>(first.rows), j.rows_of_block = static_cast<uint32_t>(of_block);
    j.staged_pitch = static_cast<uint32_t>(staged);
    *join = j;
    return true;
}

// What a block has of a join.
struct RowJoinBlock {
    uint32_t first_row, rows;
    char* staged;

    BK_DEVICE RowJoinBlock(const RowJoin& join, char* shared)
        : first_row(blockIdx.x * join.rows_of_block), rows(min(join.rows_of_block, join.rows - first_row)), staged(shared) {}
};

// A group of a part: in memory from `words` on, of which the block's rows have `count`, the first one staged at `line` +
// `along`.
template <class Word>
struct PartGroup {
    static constexpr int N = RowJoinWords<Word>::kPartGroup;
    Word* words;
    Word* line;
    uint32_t along, count;

    BK_DEVICE void find(const RowJoin& join, const RowJoinBlock& block, uint32_t group) {
        const DivMod<uint32_t> of = join.part_groups(group);
        const uint32_t word = of.remainder * N, row_words = join.part_words.divisor(), all = block.rows * row_words;
        const DivMod<uint32_t> at = join.part_words(word);
        line = reinterpret_cast<Word*>(block.staged + at.quotient * join.staged_pitch) + of.quotient * row_words;
        along = at.remainder;
        count = word >= all ? 0 : min(all - word, static_cast<uint32_t>(N));
        words = reinterpret_cast<Word*>(join.part[of.quotient]) + (static_cast<int64_t>(block.first_row) * row_words + word);
    }
    // each(lane, where the word is staged)
    template <class Each>
    BK_DEVICE void each_word(const RowJoin& join, const Each& each) const {
        Word* own = line;
        uint32_t at = along;
#pragma unroll
        for (uint32_t lane = 0; lane < N; ++lane) {
            if (lane < count) each(lane, own + at);
            if (++at < join.part_words.divisor()) continue;
            at = 0, own += join.staged_pitch / static_cast<uint32_t>(sizeof(Word));
        }
    }
};

template <class Word>
BK_DEVICE void parts_to_shared(const RowJoin& join, const RowJoinBlock& block) {
    constexpr int N = PartGroup<Word>::N;
    const uint32_t count = join.parts * join.part_groups.divisor();
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += kRowJoinThreads * kRowJoinUnroll) {
        PartGroup<Word> of[kRowJoinUnroll];
        Vec<Word, N> group[kRowJoinUnroll];
#pragma unroll
        for (int u = 0; u < kRowJoinUnroll; ++u) {
            const uint32_t number = first + u * kRowJoinThreads;
            of[u].count = 0;
            if (number < count) of[u].find(join, block, number);
            if (of[u].count == N) {
                group[u] = load<N>(of[u].words);
                continue;
            }
            for (uint32_t lane = 0; lane < N; ++lane)
                if (lane < of[u].count) group[u].lane[lane] = of[u].words[lane];
        }
#pragma unroll
        for (int u = 0; u < kRowJoinUnroll; ++u)
            of[u].each_word(join, [&](uint32_t lane, Word* to) { *to = group[u].lane[lane]; });
    }
}

template <class Word>
BK_DEVICE void shared_to_parts(const RowJoin& join, const RowJoinBlock& block) {
    constexpr int N = PartGroup<Word>::N;
    const uint32_t count = join.parts * join.part_groups.divisor();
#pragma unroll 2
    for (uint32_t number = threadIdx.x; number < count; number += kRowJoinThreads) {
        PartGroup<Word> of;
        of.find(join, block, number);
        Vec<Word, N> group;
        of.each_word(join, [&](uint32_t lane, const Word* from) { group.lane[lane] = *from; });
        if (of.count == N) {
            store<N>(of.words, group);
            continue;
        }
        for (uint32_t lane = 0; lane < N; ++lane)
            if (lane < of.count) of.words[lane] = group.lane[lane];
    }
}

// Groups are of N units.
template <bool to_whole, int N, class Unit>
BK_DEVICE void move_whole(const RowJoin& join, const RowJoinBlock& block) {
    const uint32_t count = block.rows * join.whole_groups.divisor();
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += kRowJoinThreads * kRowJoinUnroll) {
        Vec<Unit, N>* whole[kRowJoinUnroll];
        Unit* staged[kRowJoinUnroll];
        Vec<Unit, N> group[kRowJoinUnroll];
#pragma unroll
        for (int u = 0; u < kRowJoinUnroll; ++u) {
            const uint32_t number = first + u * kRowJoinThreads;
            const DivMod<uint32_t> at = join.whole_groups(number < count ? number : 0);
            whole[u] =
                reinterpret_cast<Vec<Unit, N>*>(join.whole + (block.first_row + at.quotient) * join.pitch) + at.remainder;
            staged[u] = reinterpret_cast<Unit*>(block.staged + at.quotient * join.staged_pitch) + at.remainder * N;
            if (!to_whole && number < count) group[u] = *whole[u];
        }
#pragma unroll
        for (int u = 0; u < kRowJoinUnroll; ++u) {
            if (first + u * kRowJoinThreads >= count) continue;
#pragma unroll
            for (int unit = 0; unit < N; ++unit) {
                if (to_whole)
                    group[u].lane[unit] = staged[u][unit];
                else
                    staged[u][unit] = group[u].lane[unit];
            }
            if (to_whole) *whole[u] = group[u];
        }
    }
}

template <bool to_whole, class Word>
BK_DEVICE void move_rows(const RowJoin& join, const RowJoinBlock& block) {
    using Words = RowJoinWords<Word>;
    using Unit = typename Words::Unit;
    if (join.by_vectors)
        move_whole<to_whole, kVectorBytes / Words::kUnit, Unit>(join, block);
    else
        move_whole<to_whole, 1, Unit>(join, block);
}

template <class Word>
__global__ void __launch_bounds__(kRowJoinThreads, 5) join_rows_kernel(const __grid_constant__ RowJoin join) {
    BK_LAUNCH_SHARED(uint4, shared_memory);
    const RowJoinBlock block(join, reinterpret_cast<char*>(shared_memory));
    if (join.to_whole) {
        parts_to_shared<Word>(join, block);
        __syncthreads();
        move_rows<true, Word>(join, block);
    } else {
        move_rows<false, Word>(join, block);
        __syncthreads();
        shared_to_parts<Word>(join, block);
    }
}

// False where there is no such join.
template <class Word>
bool try_join(const Launch& launch, const RowCopy* copies, int count, Status* status) {
    RowJoin join;
    if (!plan_join<Word>(copies, count, &join)) return false;
    const Grid grid{dim3(ceil_div(join.rows, join.rows_of_block)), dim3(kRowJoinThreads), 1,
                    join.rows_of_block * join.staged_pitch};
    *status = launch_kernel(launch, grid, join_rows_kernel<Word>, join);
    return true;
}

// Of words of `bytes` bytes, or of fewer.
inline bool try_join(const Launch& launch, const RowCopy* copies, int count, uint64_t bytes, Status* status) {
    switch (bytes) {
        case 1: return try_join<uint8_t>(launch, copies, count, status);
        case 2: return try_join<uint16_t>(launch, copies, count, status);
        case 4: return try_join<uint32_t>(launch, copies, count, status);
        default: return try_join<uint64_t>(launch, copies, count, status);
    }
}

}  // namespace bk
