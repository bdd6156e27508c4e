// SPDX-License-Identifier: Apache-2.0
// Tiles of gathered operands in shared memory, in the formats of gemm/tiled/matmul_tile.cuh.
//
// A warp computes the positions of a tile's K elements, one tile ahead; the block's threads add them to the positions of
// their rows, which do not change along k, and copy 16 bytes, or the elements that make up 16 bytes along k.
#pragma once

#include <cstdint>

#include "conv/tiled/conv_gemm.h"
#include "gemm/tiled/matmul_tile.cuh"

namespace bk {

// Entries of a tile's table: a position for each vector along k if tiles are K-major, else for each K element.
template <class E, LoadMode kMode>
constexpr int kGatherEntries = kMatmulDepth / (kMode == LoadMode::kKMajor ? kCopyBytes : static_cast<int>(sizeof(E)));

// Writes the table of the K elements from `first` on; those from `end` on are outside. By one warp.
template <class E, LoadMode kMode>
BK_DEVICE void write_gather_table(IndexPosition* table, const IndexMap& map, int64_t first, int64_t end, int lane) {
    constexpr int kEach = kMode == LoadMode::kKMajor ? kVectorLanes<E> : 1;
    for (int entry = lane; entry < kGatherEntries<E, kMode>; entry += 32) {
        const int64_t k = first + entry * kEach;
        IndexPosition position = map.locate(k < end ? k : 0);
        if (k >= end) position.at[1] = kOutside;
        table[entry] = position;
    }
}

// A thread's share of loading tiles: kRows rows of A or columns of B by 64 bytes along k. Positions of a plain operand have
// no coordinates but kOutside.
template <class E, int kRows, LoadMode kMode, bool kIsPlain>
class GatherLoader {
    static constexpr int kSize = static_cast<int>(sizeof(E)), kLanes = kCopyBytes / kSize;
    static constexpr int kVectors =
        kMode == LoadMode::kMnMajor ? kRows * kSize / kCopyBytes : kMatmulDepth / kCopyBytes;  // of a tile row
    static constexpr int kUnits = kRows * kMatmulDepth / kCopyBytes / kMatmulThreads;          // vectors of a thread
    static constexpr int kRowsAtOnce = kMatmulThreads / kVectors;
    static constexpr int kPositions = kMode == LoadMode::kMnMajor ? 1 : kUnits;

public:
    // `rows` are mapped from `first` on, with `offset` and `shift` added to their positions; those from `end` on are zeros.
    BK_DEVICE GatherLoader(const GatheredOperand<E>& source, const E* data, int64_t offset, const int32_t (&shift)[kConvAxes],
                           int64_t first, int64_t end, int thread)
        : data_(data), thread_(thread), is_copied_(kMode != LoadMode::kElements), is_along_rows_(false) {
        if constexpr (kMode == LoadMode::kElements) {
            is_copied_ = source.is_copied;
            is_along_rows_ = !is_copied_ && source.rows_are_adjacent;
        }
#pragma unroll
        for (int d = 0; d < kConvAxes; ++d) extent_[d] = static_cast<uint32_t>(source.extent[d]);
#pragma unroll
        for (int i = 0; i < kPositions; ++i) {
            const int64_t row = first + (kMode == LoadMode::kMnMajor ? thread % kVectors * kLanes : row_of(i));
            row_[i] = source.rows.locate(row < end ? row : 0);
            row_[i].offset += offset;
            for (int d = 0; d < kConvAxes; ++d) row_[i].at[d] += shift[d];
            if (row >= end) row_[i].at[0] = kOutside;
        }
    }

    // Loads the tile whose K elements are in `table`.
    BK_DEVICE void fill(char* to, const IndexPosition* table) const {
        if (kMode == LoadMode::kElements && !is_copied_) {
            fill_elements(to, table);
            return;
        }
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            constexpr bool kIsMnMajor = kMode == LoadMode::kMnMajor;
            const int vector = kIsMnMajor ? thread_ % kVectors : vector_of(i);
            const int tile_row = kIsMnMajor ? thread_ / kVectors + i * kRowsAtOnce : row_of(i);
            const IndexPosition& row = row_[kIsMnMajor ? 0 : i];
            const IndexPosition k = table[kIsMnMajor ? tile_row : vector * (kMode == LoadMode::kElements ? kLanes : 1)];
            const bool is_there = is_inside(row, k);
            const int offset = kIsMnMajor ? mn_major_offset<E, kRows>(tile_row, vector) : k_major_offset(tile_row, vector);
            start_copy_16(to + offset, is_there ? data_ + (row.offset + k.offset) : data_, is_there ? kCopyBytes : 0);
        }
    }

private:
    // Row and vector of unit i of a K-major tile: adjacent threads have adjacent vectors, or adjacent rows.
    BK_DEVICE int row_of(int i) const {
        const int unit = thread_ + i * kMatmulThreads;
        return is_along_rows_ ? unit % kRows : unit / kVectors;
    }
    BK_DEVICE int vector_of(int i) const {
        const int unit = thread_ + i * kMatmulThreads;
        return is_along_rows_ ? unit / kRows : unit % kVectors;
    }

    BK_DEVICE bool is_inside(const IndexPosition& row, const IndexPosition& k) const {
        if constexpr (kIsPlain) return (row.at[0] | k.at[1]) >= 0;
        bool is_inside = true;
#pragma unroll
        for (int d = 0; d < kConvAxes; ++d)
            is_inside = is_inside && static_cast<uint32_t>(row.at[d]) + static_cast<uint32_t>(k.at[d]) < extent_[d];
        return is_inside;
    }

    BK_DEVICE void fill_elements(char* to, const IndexPosition* table) const {
#pragma unroll 1
        for (int i = 0; i < kUnits; ++i) {
            const int vector = vector_of(i);
            E* const dst = reinterpret_cast<E*>(to + k_major_offset(row_of(i), vector));
            IndexPosition row = row_[0];
#pragma unroll
            for (int u = 1; u < kPositions; ++u)
                if (u == i) row = row_[u];
            if constexpr (kSize == 4) {
#pragma unroll
                for (int lane = 0; lane < kLanes; ++lane) {
                    const IndexPosition& k = table[vector * kLanes + lane];
                    const bool is_there = is_inside(row, k);
                    start_copy_4(dst + lane, is_there ? data_ + (row.offset + k.offset) : data_, is_there);
                }
            } else {
                Vec<E, kLanes> elements{};
#pragma unroll
                for (int lane = 0; lane < kLanes; ++lane) {
                    const IndexPosition& k = table[vector * kLanes + lane];
                    if (is_inside(row, k)) elements.lane[lane] = data_[row.offset + k.offset];
                }
                store(dst, elements);
            }
        }
    }

    const E* data_;
    int thread_;
    bool is_copied_, is_along_rows_;
    uint32_t extent_[kConvAxes];
    IndexPosition row_[kPositions];
};

}  // namespace bk
