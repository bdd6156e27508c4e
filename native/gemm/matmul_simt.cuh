// Products of f32 matrices without tensor cores: each of 256 threads has 8 x 8 results of a tile of 128 x 128.
#pragma once

#include <cstdint>

#include "gemm/matmul_tensor.cuh"

namespace bk {

constexpr int kSimtSide = 128, kSimtDepth = 16, kSimtThreads = 256;
constexpr int kSimtPitch = kSimtSide + 4;
constexpr int kSimtLoads = kSimtSide * kSimtDepth / kSimtThreads / 4;  // of four elements

// A thread's share of a tile on its way from memory: four neighbours along k, or along the rows. `moves` says that they are
// aligned to 16 bytes, but for the ends.
// The upper half of the tile's rows is that of `gate`, from `first` on, where that is not null.
class SimtFeed {
    TileSource<float> source_;
    int64_t first_;
    bool is_wide_, moves_, is_whole_ = true;  // whole where rows are inside and moves, so that only the last tile may end early
    const float* gate_;
    const float* own_[kSimtLoads];  // the first tile's
    float lane_[kSimtLoads][4];

    BK_DEVICE void place(int thread, int i, int* row, int* k) const {
        const int index = thread + i * kSimtThreads;
        *row = is_wide_ ? index % (kSimtSide / 4) * 4 : index / (kSimtDepth / 4);
        *k = is_wide_ ? index / (kSimtSide / 4) : index % (kSimtDepth / 4) * 4;
    }

    BK_DEVICE int64_t row_of(int row) const {
        return first_ + (gate_ != nullptr && row >= kSimtSide / 2 ? row - kSimtSide / 2 : row);
    }

public:
    BK_DEVICE SimtFeed(const TileSource<float>& source, int64_t first, bool is_wide, bool moves, int thread,
                       const float* gate = nullptr)
        : source_(source), first_(first), is_wide_(is_wide), moves_(moves), gate_(gate) {
#pragma unroll
        for (int i = 0; i < kSimtLoads; ++i) {
            int row, k;
            place(thread, i, &row, &k);
            const bool is_gate = gate != nullptr && row >= kSimtSide / 2;
            const int64_t r = row_of(row);
            own_[i] = (is_gate ? gate : source.data) + r * source.row + k * source.column;
            is_whole_ = is_whole_ && moves && r + (is_wide ? 4 : 1) <= source.rows;
        }
    }

    BK_DEVICE void load_tile(int64_t tile, int thread) {
        const int64_t skipped = tile * kSimtDepth * source_.column;
        const bool is_whole = is_whole_ && (tile + 1) * kSimtDepth <= source_.depth;
#pragma unroll
        for (int i = 0; i < kSimtLoads; ++i) {
            if (is_whole) {
                const Vec<float, 4> four = load<4>(own_[i] + skipped);
                for (int v = 0; v < 4; ++v) lane_[i][v] = four.lane[v];
                continue;
            }
            int row, k;
            place(thread, i, &row, &k);
            const int64_t rows = source_.rows - row_of(row), terms = source_.depth - tile * kSimtDepth - k;
            const int64_t inside = is_wide_ ? (terms > 0 ? rows : 0) : (rows > 0 ? terms : 0),
                          step = is_wide_ ? source_.row : source_.column;
            const float* const from = own_[i] + skipped;
            if (moves_ && inside >= 4) {
                const Vec<float, 4> four = load<4>(from);
                for (int v = 0; v < 4; ++v) lane_[i][v] = four.lane[v];
            } else {
                for (int v = 0; v < 4; ++v) lane_[i][v] = v < inside ? from[v * step] : 0.f;
            }
        }
    }

    BK_DEVICE void store_tile(float (*to)[kSimtPitch], int thread) const {
#pragma unroll
        for (int i = 0; i < kSimtLoads; ++i) {
            int row, k;
            place(thread, i, &row, &k);
            for (int v = 0; v < 4; ++v) to[is_wide_ ? k : k + v][is_wide_ ? row + v : row] = lane_[i][v];
        }
    }
};

// Row or column v of a thread's eight: two groups of four neighbours, half a tile apart.
BK_DEVICE int simt_place(int thread_place, int v) { return thread_place * 4 + v / 4 * (kSimtSide / 2) + v % 4; }

template <class T>
__global__ void __launch_bounds__(kSimtThreads, 2)
    matmul_simt_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ PartsOf<T> parts, int64_t down,
                       int64_t across, bool a_moves, bool b_moves, bool in_pairs) {
    __shared__ float a_tile[2][kSimtDepth][kSimtPitch], b_tile[2][kSimtDepth][kSimtPitch];
    const int thread = static_cast<int>(threadIdx.x), thread_row = thread / 16, thread_column = thread % 16;
    const MatmulPlace place = find_place(p, parts, down, across, kSimtSide, static_cast<int>(columns_of(p, kSimtSide)));
    if (place.end == 0) return;
    SimtFeed a({first_term(p.a, p.a_at, p.a_at.column, place), place.end, place.terms, p.a_at.row, p.a_at.column}, place.row,
               p.a_at.row == 1, a_moves, thread);
    SimtFeed b({first_term(p.b, p.b_at, p.b_at.row, place), place.width, place.terms, p.b_at.column, p.b_at.row}, place.column,
               p.b_at.column == 1, b_moves, thread, p.gate);
    const int64_t tiles = (place.terms + kSimtDepth - 1) / kSimtDepth;
    float sum[8][8] = {};
    if (tiles > 0) {
        a.load_tile(0, thread);
        b.load_tile(0, thread);
        a.store_tile(a_tile[0], thread);
        b.store_tile(b_tile[0], thread);
    }
    __syncthreads();
    for (int64_t tile = 0; tile < tiles; ++tile) {
        const int now = static_cast<int>(tile % 2);
        if (tile + 1 < tiles) {
            a.load_tile(tile + 1, thread);
            b.load_tile(tile + 1, thread);
        }
#pragma unroll
        for (int k = 0; k < kSimtDepth; ++k) {
            Vec<float, 4> rows[2], columns[2];
            for (int half = 0; half < 2; ++half) {
                rows[half] = load<4>(&a_tile[now][k][simt_place(thread_row, 4 * half)]);
                columns[half] = load<4>(&b_tile[now][k][simt_place(thread_column, 4 * half)]);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    sum[i][j] = math::fma(rows[i / 4].lane[i % 4], columns[j / 4].lane[j % 4], sum[i][j]);
        }
        if (tile + 1 < tiles) {
            a.store_tile(a_tile[1 - now], thread);
            b.store_tile(b_tile[1 - now], thread);
        }
        __syncthreads();
    }

    // The results by way of shared memory, a row of each thread at a time: the last steps are there once, not 64 times.
    float (&band)[kSimtDepth][kSimtPitch] = a_tile[0];
#pragma unroll 1
    for (int pass = 0; pass < 8; ++pass) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (i != pass) continue;
#pragma unroll
            for (int j = 0; j < 8; ++j) band[thread_row][simt_place(thread_column, j)] = sum[i][j];
        }
        __syncthreads();
#pragma unroll 1
        for (int index = thread; index < 16 * kSimtSide / 2; index += kSimtThreads) {
            const int line = index / (kSimtSide / 2), at = index % (kSimtSide / 2) * 2;
            const int64_t row = place.row + simt_place(line, pass), column = place.column + at;
            if (row >= place.end || column >= place.width || (p.gate != nullptr && at >= kSimtSide / 2)) continue;
            if (p.gate != nullptr)
                for (int v = 0; v < 2 && column + v < place.width; ++v)
                    p.epilogue.store_gated(row, column + v, band[line][at + v], band[line][at + v + kSimtSide / 2]);
            else if (parts.count > 1)
                store_part(parts, place, p.m, p.n, row, column, band[line][at], band[line][at + 1]);
            else
                store_pair(p.epilogue, place.matrix, row, column, place.width, band[line][at], band[line][at + 1], in_pairs);
        }
        __syncthreads();
    }
}

template <class T>
Status matmul_by_fma(const Launch& launch, const Matmul<T>& p, const PartsOf<T>& parts = {}) {
    int64_t tiles = 0;
    BK_TRY(count_blocks(p, parts, kSimtSide, &tiles));
    return launch_kernel(
        launch, {dim3(static_cast<unsigned>(tiles)), dim3(kSimtThreads)}, matmul_simt_kernel<T>, p, parts,
        ceil_div<int64_t>(p.m, kSimtSide), ceil_div<int64_t>(p.n, columns_of(p, kSimtSide)), moves_by_16(p.a, p.a_at),
        moves_by_16(p.b, p.b_at) && (p.gate == nullptr || moves_by_16(p.gate, p.b_at)), stores_pairs(p.epilogue));
}

}  // namespace bk
