// Products on the CPU of factors that are not elements of matrices in memory: packed, sparse or quantised. Tiles are those of
// gemm/matmul_cpu.h, and what fills them is the problem's,
//     Arithmetic                                            the type whose tiles these are
//     m, n, k
//     void read_row(i, k, depth, Term* to) const            [i, k] to [i, k + depth) of A; k is a multiple of 8
//     void read_column(j, k, depth, Term* to) const         [k, j] to [k + depth, j] of B
//     void store(i, j, columns, const Sum* sums) const      what becomes of `columns` sums from [i, j]
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/matmul_cpu.h"

namespace bk {

template <class P, class Tile>
BK_HD void sum_read_tile(Tile& tile, const P& p, int64_t i0, int64_t j0, int64_t rows, int64_t columns) {
    using Term = typename Tile::Term;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < Tile::kColumns; ++j) tile.sums[i][j] = 0;
    for (int64_t k0 = 0; k0 < p.k; k0 += Tile::kDepth) {
        const int64_t depth = std::min<int64_t>(p.k - k0, Tile::kDepth);
        for (int64_t j = 0; j < Tile::kColumns; ++j) {
            Term(&line)[Tile::kDepth] = tile.rows[0];
            if (j < columns) p.read_column(j0 + j, k0, depth, line);
            for (int64_t k = 0; k < depth; ++k) tile.panel[k][j] = j < columns ? line[k] : Term(0);
        }
        for (int64_t i = 0; i < rows; i += Tile::kBlockRows) {
            const int64_t count = std::min<int64_t>(rows - i, Tile::kBlockRows);
            const Term* row[Tile::kBlockRows];
            for (int64_t r = 0; r < Tile::kBlockRows; ++r) row[r] = tile.rows[std::min(r, count - 1)];
            for (int64_t r = 0; r < count; ++r) p.read_row(i0 + i + r, k0, depth, tile.rows[r]);
            multiply_block<Tile, 1>(tile, depth, row, 1);
            for (int64_t r = 0; r < count; ++r)
                for (int64_t j = 0; j < Tile::kColumns; ++j) tile.sums[i + r][j] += tile.block[r][j];
        }
    }
}

template <class P, int kBytes>
__attribute__((noinline)) void compute_read_tiles(const P& p, int64_t tile_rows, int64_t begin, int64_t end) {
    using Tile = MatmulTile<typename P::Arithmetic, kBytes>;
    Tile tile;
    const int64_t across = ceil_div<int64_t>(p.n, Tile::kColumns);
    for (int64_t t = begin; t < end; ++t) {
        const int64_t j0 = t % across * Tile::kColumns, i0 = t / across * tile_rows;
        const int64_t rows = std::min<int64_t>(p.m - i0, tile_rows), columns = std::min<int64_t>(p.n - j0, Tile::kColumns);
        run_fused<kBytes>([&] { sum_read_tile(tile, p, i0, j0, rows, columns); });
        run_unfused<kBytes>([&] {
            for (int64_t i = 0; i < rows; ++i) p.store(i0 + i, j0, columns, tile.sums[i]);
        });
    }
}

template <class P, int kBytes>
void multiply_read_with(const P& p) {
    using Tile = MatmulTile<typename P::Arithmetic, kBytes>;
    const int64_t strips = ceil_div<int64_t>(p.n, Tile::kColumns), wanted = ceil_div<int64_t>(4 * thread_count(), strips);
    const int64_t blocks = ceil_div<int64_t>(ceil_div<int64_t>(p.m, wanted), Tile::kBlockRows);
    const int64_t tile_rows = std::min<int64_t>(Tile::kRows, blocks * Tile::kBlockRows);
    parallel_chunks(strips * ceil_div<int64_t>(p.m, tile_rows), grain_for(tile_rows * Tile::kColumns * (p.k + 1)),
                    [&](int64_t begin, int64_t end) { compute_read_tiles<P, kBytes>(p, tile_rows, begin, end); });
}

template <class P>
Status multiply_read(const P& p) {
    switch (vector_bytes()) {
        case 64: multiply_read_with<P, 64>(p); break;
        case 32: multiply_read_with<P, 32>(p); break;
        default: multiply_read_with<P, 16>(p);
    }
    return Status::kOk;
}

}  // namespace bk
