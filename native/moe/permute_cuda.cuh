// SPDX-License-Identifier: Apache-2.0
// Rows of tokens in the order of experts, token by token: a row is read once and written to all its positions, where a walk in
// the order of experts would read it from memory for each of them as soon as x is larger than the L2 cache.
//
// A thread block has some adjacent tokens. It reads the whole order, a few bytes beside the rows, and links the positions of
// each of its tokens; a warp copies a part of a row to them. What depends on timing is the order of the copies alone.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/vec.h"

namespace bk::moe {

constexpr int kPermuteThreads = 1024, kPermuteWarps = kPermuteThreads / 32;
constexpr int kPermutePositions = 4096, kPermuteTokens = 1024;  // of a thread block, at most
constexpr int kPermuteVectors = 4;                              // of a lane, read together
constexpr int64_t kPermuteCached = int64_t{24} << 20;           // bytes that the L2 cache keeps for sure

struct PermuteWalk {
    int64_t tokens, rows, top_k, vectors;  // vectors of 16 bytes in a row
    int64_t tokens_of_block, rows_of_block;
    const uint4* x;
    const int32_t* order;
    uint4* y;

    BK_DEVICE int64_t token_of(int32_t pair) const { return static_cast<uint32_t>(pair) / static_cast<uint32_t>(top_k); }
    BK_DEVICE bool has_token(int32_t pair) const { return pair >= 0 && token_of(pair) < tokens; }
};

// Positions p that read each token, as linked lists; those of absent tokens come last.
struct PermutePositions {
    int32_t position[kPermutePositions], next[kPermutePositions];
    int32_t first[kPermuteTokens + 1];
    int32_t count;

    BK_DEVICE void add(int32_t p, int token) {
        const int at = atomicAdd(&count, 1);
        if (at >= kPermutePositions) return;
        position[at] = p;
        next[at] = atomicExch(&first[token], at);
    }
};

// Adds the positions that this block has to write.
BK_DEVICE void find_positions(const PermuteWalk& walk, PermutePositions& positions, int64_t begin, int64_t end) {
    constexpr int kLoads = 8;
    const int64_t first_pair = begin * walk.top_k, pairs = (end - begin) * walk.top_k;
    const int64_t own = blockIdx.x * walk.rows_of_block;
    for (int64_t from = threadIdx.x; from < walk.rows; from += kLoads * kPermuteThreads) {
        int32_t pair[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            const int64_t p = from + i * kPermuteThreads;
            pair[i] = p < walk.rows ? walk.order[p] : -1;
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            const int64_t p = from + i * kPermuteThreads, offset = pair[i] - first_pair;
            if (pair[i] >= 0 && offset >= 0 && offset < pairs)
                positions.add(static_cast<int32_t>(p),
                              static_cast<int>(static_cast<uint32_t>(offset) / static_cast<uint32_t>(walk.top_k)));
            else if (p >= own && p < own + walk.rows_of_block && p < walk.rows && !walk.has_token(pair[i]))
                positions.add(static_cast<int32_t>(p), kPermuteTokens);
        }
    }
}

// Copies vectors from `begin` on, 32 * kPermuteVectors at most, of a row, or zeros for a null one, to the positions of a list:
// each `step`th from number `skipped` on.
BK_DEVICE void copy_part(const PermuteWalk& walk, const PermutePositions& positions, const uint4* row, int list, int64_t begin,
                         int skipped, int step) {
    const int64_t first = begin + threadIdx.x % 32;
    uint4 values[kPermuteVectors];
#pragma unroll
    for (int i = 0; i < kPermuteVectors; ++i)
        values[i] = row != nullptr && first + i * 32 < walk.vectors ? row[first + i * 32] : uint4{};
    for (int at = positions.first[list]; at >= 0; at = positions.next[at]) {
        if (skipped-- > 0) continue;
        skipped = step - 1;
        uint4* const to = walk.y + positions.position[at] * walk.vectors + first;
#pragma unroll
        for (int i = 0; i < kPermuteVectors; ++i)
            if (first + i * 32 < walk.vectors) to[i * 32] = values[i];
    }
}

// An order with more positions of a block than lists hold, which no sort makes: warps look for them again and copy them.
BK_DEVICE void copy_unlisted(const PermuteWalk& walk, int64_t begin, int64_t end) {
    const int lane = threadIdx.x % 32;
    const int64_t own = blockIdx.x * walk.rows_of_block;
    for (int64_t p = threadIdx.x / 32; p < walk.rows; p += kPermuteWarps) {
        const int32_t pair = walk.order[p];
        const bool has = walk.has_token(pair);
        const int64_t token = has ? walk.token_of(pair) : 0;
        if (has ? token < begin || token >= end : p < own || p >= own + walk.rows_of_block) continue;
        for (int64_t at = lane; at < walk.vectors; at += 32)
            walk.y[p * walk.vectors + at] = has ? walk.x[token * walk.vectors + at] : uint4{};
    }
}

__global__ void __launch_bounds__(kPermuteThreads) permute_tokens_kernel(const PermuteWalk walk) {
    constexpr int64_t kPart = 32 * kPermuteVectors;
    __shared__ PermutePositions positions;
    const int warp = threadIdx.x / 32;
    const int64_t begin = blockIdx.x * walk.tokens_of_block, stop = begin + walk.tokens_of_block;
    const int64_t end = stop < walk.tokens ? stop : walk.tokens;
    for (int i = threadIdx.x; i <= kPermuteTokens; i += kPermuteThreads) positions.first[i] = -1;
    if (threadIdx.x == 0) positions.count = 0;
    __syncthreads();
    find_positions(walk, positions, begin, end);
    __syncthreads();
    if (positions.count > kPermutePositions) return copy_unlisted(walk, begin, end);
    const int64_t parts = (walk.vectors + kPart - 1) / kPart, items = (end - begin) * parts;
    for (int64_t item = warp; item < items; item += kPermuteWarps) {
        const int list = static_cast<int>(static_cast<uint32_t>(item) / static_cast<uint32_t>(parts));
        copy_part(walk, positions, walk.x + (begin + list) * walk.vectors, list, (item - list * parts) * kPart, 0, 1);
    }
    for (int64_t part = 0; part < parts; ++part)
        copy_part(walk, positions, nullptr, kPermuteTokens, part * kPart, warp, kPermuteWarps);
}

// Whether tokens are walked: x is larger than the L2 cache, rows are read more than once, and the order, which each block
// reads, is little beside the block's rows.
inline bool walks_tokens(int64_t tokens, int64_t rows, int64_t top_k, int64_t row_bytes) {
    const int64_t blocks = device_sms();
    return blocks > 0 && row_bytes % kVectorBytes == 0 && tokens * row_bytes >= kPermuteCached && rows >= 2 * tokens &&
           row_bytes >= 16 * blocks && ceil_div(tokens, blocks) <= kPermuteTokens &&
           ceil_div(tokens, blocks) * top_k + ceil_div(rows, blocks) <= kPermutePositions;
}

// x, y and their rows are aligned to vectors.
inline Status permute_tokens(const Launch& launch, int64_t tokens, int64_t rows, int64_t top_k, int64_t row_bytes,
                             const void* x, const int32_t* order, void* y) {
    const int64_t blocks = device_sms();
    const PermuteWalk walk{tokens,
                           rows,
                           top_k,
                           row_bytes / kVectorBytes,
                           ceil_div(tokens, blocks),
                           ceil_div(rows, blocks),
                           static_cast<const uint4*>(x),
                           order,
                           static_cast<uint4*>(y)};
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPermuteThreads)}, permute_tokens_kernel, walk);
}

}  // namespace bk::moe
