// SPDX-License-Identifier: Apache-2.0
// Blocks of 2 x 2 by vectors: a thread interleaves 8 bytes of two small rows into 16 of a big row, or the reverse, so that
// both sides are whole cache lines. Compiled once per element width.
#include "core/copy/block_pairs.h"

#include "core/collectives/items.h"
#include "core/types/vec.h"

namespace bk {

namespace {

template <class Bits>
struct BlockPairsJob {
    static constexpr int kHalf = 8 / static_cast<int>(sizeof(Bits));

    const Bits* x;
    Bits* y;
    ItemSplit<4> split;  // small planes of a block's corner, rows, rows of a block, vectors
    int64_t height, width;
    bool is_to_big;

    BK_HD void operator()(int64_t item) const {
        int64_t at[4];
        split.indices(item, at);
        const int64_t plane = height * width, column = at[3] * kHalf;
        const int64_t small = (4 * at[0] + 2 * at[2]) * plane + at[1] * width + column;
        const int64_t big = (2 * (at[0] * height + at[1]) + at[2]) * 2 * width + 2 * column;
        if (is_to_big) {
            const Vec<Bits, kHalf> even = load<kHalf>(x + small), odd = load<kHalf>(x + small + plane);
            Vec<Bits, 2 * kHalf> both;
            BK_UNROLL
            for (int k = 0; k < kHalf; ++k) both.lane[2 * k] = even.lane[k], both.lane[2 * k + 1] = odd.lane[k];
            store<2 * kHalf>(y + big, both);
        } else {
            const Vec<Bits, 2 * kHalf> both = load<2 * kHalf>(x + big);
            Vec<Bits, kHalf> even, odd;
            BK_UNROLL
            for (int k = 0; k < kHalf; ++k) even.lane[k] = both.lane[2 * k], odd.lane[k] = both.lane[2 * k + 1];
            store<kHalf>(y + small, even);
            store<kHalf>(y + small + plane, odd);
        }
    }
};

template <class Bits>
Status run_block_pairs(const Launch& launch, const BlockPairs& blocks, bool is_to_big, const void* x, void* y) {
    BlockPairsJob<Bits> job{};
    job.x = static_cast<const Bits*>(x);
    job.y = static_cast<Bits*>(y);
    job.split = ItemSplit<4>::of({blocks.planes, blocks.height, 2, blocks.width / BlockPairsJob<Bits>::kHalf});
    job.height = blocks.height;
    job.width = blocks.width;
    job.is_to_big = is_to_big;
    return run_items(launch, job.split.items, 32, job);
}

}  // namespace

bool has_block_vectors(const BlockPairs& blocks, int bytes, const void* x, const void* y) {
    return bytes <= 8 && blocks.width % (8 / bytes) == 0 && is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes);
}

Status copy_block_pairs(const Launch& launch, const BlockPairs& blocks, bool is_to_big, int bytes, const void* x, void* y) {
    switch (bytes) {
        case 1: return run_block_pairs<uint8_t>(launch, blocks, is_to_big, x, y);
        case 2: return run_block_pairs<uint16_t>(launch, blocks, is_to_big, x, y);
        case 4: return run_block_pairs<uint32_t>(launch, blocks, is_to_big, x, y);
        default: return run_block_pairs<uint64_t>(launch, blocks, is_to_big, x, y);
    }
}

}  // namespace bk
