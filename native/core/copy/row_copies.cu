// SPDX-License-Identifier: Apache-2.0
// A thread copies a few words, as wide as all copies allow. Consecutive blocks work on one copy or, if rows are short,
// alternate between copies, so that adjacent rows of the destination are written at about the same time and combine in
// L2. Shorter rows still, adjacent on one side, use the tiles of row_concat.cuh.
#include "core/copy/row_copies.h"

#include "core/copy/row_concat.cuh"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

namespace {

constexpr int kCopyThreads = 256;
constexpr int kCopyUnroll = 4;
constexpr int kCopyTile = kCopyThreads * kCopyUnroll;
constexpr int64_t kShortRow = 256;  // bytes

// Rows in words, pitches included.
struct WordRows {
    const char* from;
    char* to;
    int64_t from_pitch, to_pitch;
    FastDiv<uint32_t> row;
    uint32_t words, first_block;
};

struct WordCopies {
    WordRows of[kMaxRowCopies];
    FastDiv<uint32_t> alternation;  // number of copies, if blocks alternate
    int32_t count;
    int32_t alternates;
};

static_assert(sizeof(WordCopies) <= 4096 - 64, "arguments of a kernel");

template <class Word>
__global__ void __launch_bounds__(kCopyThreads) copy_rows_kernel(const __grid_constant__ WordCopies copies) {
    uint32_t tile = blockIdx.x;
    int which = 0;
    if (copies.alternates) {
        const auto split = copies.alternation(tile);
        which = static_cast<int>(split.remainder), tile = split.quotient;
    } else {
        for (int step = kMaxRowCopies / 2; step > 0; step /= 2)
            if (which + step < copies.count && copies.of[which + step].first_block <= tile) which += step;
        tile -= copies.of[which].first_block;
    }
    const WordRows& rows = copies.of[which];
    const Word* const from = reinterpret_cast<const Word*>(rows.from);
    Word* const to = reinterpret_cast<Word*>(rows.to);
    const int64_t first = int64_t{tile} * kCopyTile + threadIdx.x;
    Word value[kCopyUnroll];
    int64_t target[kCopyUnroll];
#pragma unroll
    for (int u = 0; u < kCopyUnroll; ++u) {
        const int64_t word = first + u * kCopyThreads;
        target[u] = 0;
        if (word >= rows.words) continue;
        const auto at = rows.row(static_cast<uint32_t>(word));
        value[u] = from[at.quotient * rows.from_pitch + at.remainder];
        target[u] = at.quotient * rows.to_pitch + at.remainder;
    }
#pragma unroll
    for (int u = 0; u < kCopyUnroll; ++u)
        if (first + u * kCopyThreads < rows.words) to[target[u]] = value[u];
}

template <class Word>
Status copy_words(const Launch& launch, const RowCopy* copies, int count) {
    constexpr int64_t kWord = sizeof(Word);
    WordCopies given{};
    int64_t blocks = 0, most_blocks = 0;
    bool is_short = count > 1;
    for (int k = 0; k < count; ++k) {
        const RowCopy& copy = copies[k];
        const int64_t words = copy.rows * (copy.bytes / kWord), own_blocks = ceil_div<int64_t>(words, kCopyTile);
        given.of[k] = {copy.from,
                       copy.to,
                       copy.from_pitch / kWord,
                       copy.to_pitch / kWord,
                       FastDiv<uint32_t>(copy.bytes / kWord),
                       static_cast<uint32_t>(words),
                       static_cast<uint32_t>(blocks)};
        blocks += own_blocks;
        most_blocks = std::max(most_blocks, own_blocks);
        is_short = is_short && copy.rows > 1 && copy.bytes < kShortRow;
    }
    given.count = count;
    given.alternates = is_short && most_blocks * count <= 2 * blocks;
    given.alternation = FastDiv<uint32_t>(count);
    if (given.alternates) blocks = most_blocks * count;
    // Blocks fit into a grid: at most kMaxRowCopies * 2^30 bytes, of which a block copies kCopyTile or more.
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kCopyThreads)}, copy_rows_kernel<Word>, given);
}

}  // namespace

Status copy_rows(const Launch& launch, const RowCopy* copies, int count) {
    uint64_t bits = kVectorBytes;  // the lowest bit is the widest word that divides addresses, rows and pitches
    for (int k = 0; k < count; ++k) {
        const RowCopy& copy = copies[k];
        bits |=
            reinterpret_cast<uintptr_t>(copy.from) | reinterpret_cast<uintptr_t>(copy.to) | static_cast<uint64_t>(copy.bytes);
        if (copy.rows > 1) bits |= static_cast<uint64_t>(copy.from_pitch) | static_cast<uint64_t>(copy.to_pitch);
    }
    const uint64_t word = bits & (~bits + 1);
    Status status = Status::kOk;
    if (try_concat(launch, copies, count, word, &status)) return status;
    switch (word) {
        case 16: return copy_words<uint4>(launch, copies, count);
        case 8: return copy_words<uint2>(launch, copies, count);
        case 4: return copy_words<uint32_t>(launch, copies, count);
        case 2: return copy_words<uint16_t>(launch, copies, count);
        default: return copy_words<uint8_t>(launch, copies, count);
    }
}

}  // namespace bk
