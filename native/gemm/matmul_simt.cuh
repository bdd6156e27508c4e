// f32 GEMM on FMA: block tiles of 128 x 128 by four warps, 64 x 64 a warp, 16 x 8 a thread; or half of each extent.
// Operands arrive by cp.async, double-buffered, and keep their memory order in shared memory.
#pragma once

#include <cstdint>

#include "core/async_copy.cuh"
#include "gemm/matmul_tensor.cuh"

namespace bk {

constexpr int kSimtSide = 128;  // of large block tiles
constexpr int kSimtThreads = 128;
constexpr int kSimtDepth = 32, kSimtStages = 2;         // K elements and stages: 73 KB of the 99 of sm_86
constexpr int kSimtRowLanes = 4, kSimtColumnLanes = 8;  // of a warp
constexpr int kSimtTerms = 4;  // K elements in registers at once, for all columns and four rows of a thread
constexpr int kSimtAtOnce = 4;

// A tile of kSide rows of A or columns of B: kSide rows of kSimtDepth if K-major, else kSimtDepth rows of kSide. Rows
// are padded by four elements against bank conflicts.
template <Feed kFeed, int kSide>
struct SimtTile {
    static constexpr bool kIsWide = kFeed == Feed::kWide;
    static constexpr int kLine = kIsWide ? kSide : kSimtDepth, kLines = kIsWide ? kSimtDepth : kSide;
    static constexpr int kPitch = kLine + 4, kElements = kPitch * kLines;
    static constexpr int kChunks = kLine / 4;             // 16-byte vectors of a row
    static constexpr int kDown = kSimtThreads / kChunks;  // rows filled at once
    static constexpr int kTimes = kLines / kDown;

    // Row i of a thread in its warp's tile, one of kLanes threads: in groups of four, or every kLanes-th.
    template <int kLanes>
    static BK_HD int row(int lane, int i) {
        return kIsWide ? i / 4 * kLanes * 4 + lane * 4 + i % 4 : i * kLanes + lane;
    }

    // Loads kSimtTerms K elements from k on of a thread's rows from `first` on; the tile starts at the warp's first
    // row.
    template <int kLanes, int kCount>
    static BK_DEVICE void load_terms(float (&x)[kSimtTerms][kCount], const float* tile, int lane, int first, int k) {
        if constexpr (kIsWide) {
#pragma unroll
            for (int t = 0; t < kSimtTerms; ++t)
#pragma unroll
                for (int i = 0; i < kCount; i += 4) {
                    const auto four = load<4>(tile + (k + t) * kPitch + row<kLanes>(lane, first + i));
                    for (int v = 0; v < 4; ++v) x[t][i + v] = four.lane[v];
                }
        } else {
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                const auto terms = load<kSimtTerms>(tile + row<kLanes>(lane, first + i) * kPitch + k);
                for (int t = 0; t < kSimtTerms; ++t) x[t][i] = terms.lane[t];
            }
        }
    }
};

// A thread's share of loading tiles; elements outside the operand are zeros. If `gate` is not null, the upper half of
// the tile's rows comes from it, beginning at `first` too.
template <Feed kFeed, int kSide>
class SimtFeed {
    using Tile = SimtTile<kFeed, kSide>;
    static constexpr int kHalf = kSide / 2;
    const float *lower_, *upper_, *anywhere_;  // first tile's rows in each half; an MN-major row is in one half
    int64_t step_, along_, terms_;             // row stride, and K stride; K elements from the thread's first on
    int lower_left_, upper_left_, place_;      // rows from the thread's first on
    int whole_tiles_;                          // tiles inside the operand for all threads

public:
    BK_DEVICE SimtFeed(const TileSource<float>& source, int64_t first, int thread, const float* gate = nullptr)
        : anywhere_(source.data), step_(Tile::kDown * (Tile::kIsWide ? source.column : source.row)), along_(source.column) {
        const int line = thread / Tile::kChunks, chunk = thread % Tile::kChunks * 4;
        const int row = Tile::kIsWide ? chunk : line, k = Tile::kIsWide ? line : chunk;
        const int64_t rows = source.rows - first;
        terms_ = source.depth - k;
        place_ = line * Tile::kPitch + chunk;
        lower_ = upper_ = source.data + (first + row) * source.row + k * source.column;
        lower_left_ = upper_left_ = (rows < kSide ? static_cast<int>(rows) : kSide) - row;
        if (gate != nullptr) {
            upper_ = gate + (first + row - kHalf) * source.row + k * source.column;
            upper_left_ += kHalf;
            if (Tile::kIsWide && row >= kHalf) {
                lower_ = upper_;
                lower_left_ = upper_left_;
            }
        }
        const bool has_rows = kFeed != Feed::kElements && rows >= (gate == nullptr ? kSide : kHalf);
        whole_tiles_ = has_rows ? static_cast<int>(source.depth / kSimtDepth) : 0;
    }

    // Loads tile number `tile` along k.
    BK_DEVICE void fill(float* to, int64_t tile) const {
        const int64_t skipped = tile * kSimtDepth, left = terms_ - skipped;
        const int terms = left < 4 ? static_cast<int>(left) : 4;
        if (kFeed != Feed::kElements && tile < whole_tiles_) {
#pragma unroll
            for (int i = 0; i < Tile::kTimes; ++i) {
                const bool is_upper = !Tile::kIsWide && i >= Tile::kTimes / 2;
                start_copy_16(to + place_ + i * Tile::kDown * Tile::kPitch,
                              (is_upper ? upper_ : lower_) + skipped * along_ + i * step_, 16);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < Tile::kTimes; ++i) {
            const bool is_upper = !Tile::kIsWide && i >= Tile::kTimes / 2;
            const float* const from = (is_upper ? upper_ : lower_) + skipped * along_ + i * step_;
            const int rows = (is_upper ? upper_left_ : lower_left_) - (Tile::kIsWide ? 0 : i * Tile::kDown);
            const int count = Tile::kIsWide ? (i * Tile::kDown < left ? rows : 0) : (rows > 0 ? terms : 0);
            float* const place = to + place_ + i * Tile::kDown * Tile::kPitch;
            if constexpr (kFeed == Feed::kElements) {
#pragma unroll
                for (int v = 0; v < 4; ++v) start_copy_4(place + v, v < count ? from + v * along_ : anywhere_, v < count);
            } else {
                const int bytes = count <= 0 ? 0 : count < 4 ? count * 4 : 16;
                start_copy_16(place, bytes == 0 ? anywhere_ : from, bytes);
            }
        }
    }
};

template <int kSide, Feed kFeedA, Feed kFeedB>
constexpr unsigned kSimtBytes = kSimtStages * (SimtTile<kFeedA, kSide>::kElements + SimtTile<kFeedB, kSide>::kElements) * 4;

template <class T, int kSide, Feed kFeedA, Feed kFeedB>
__global__ void __launch_bounds__(kSimtThreads, kSide == kSimtSide ? 2 : 4)
    matmul_simt_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ PartsOf<T> parts, int64_t down,
                       int64_t across, bool in_pairs) {
    using A = SimtTile<kFeedA, kSide>;
    using B = SimtTile<kFeedB, kSide>;
    constexpr int kHalf = kSide / 2;                                                   // rows, and columns, of a warp tile
    constexpr int kRows = kHalf / kSimtRowLanes, kColumns = kHalf / kSimtColumnLanes;  // of a thread tile
    BK_LAUNCH_SHARED(float, scratch);
    float* const a_tiles = scratch;
    float* const b_tiles = scratch + kSimtStages * A::kElements;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int row_lane = lane / kSimtColumnLanes, column_lane = lane % kSimtColumnLanes;
    const int half_row = warp / 2 * kHalf, half_column = warp % 2 * kHalf;
    const MatmulPlace place = find_place(p, parts, down, across, kSide, static_cast<int>(columns_of(p, kSide)));
    if (place.end == 0) return;
    const SimtFeed<kFeedA, kSide> a(
        {first_term(p.a, p.a_at, p.a_at.column, place), place.end, place.terms, p.a_at.row, p.a_at.column}, place.row, thread);
    const SimtFeed<kFeedB, kSide> b(
        {first_term(p.b, p.b_at, p.b_at.row, place), place.width, place.terms, p.b_at.column, p.b_at.row}, place.column, thread,
        p.gate);
    const int tiles = static_cast<int>((place.terms + kSimtDepth - 1) / kSimtDepth);
    const auto start_tile = [&](int tile, int stage) {
        if (tile < tiles) {
            a.fill(a_tiles + stage * A::kElements, tile);
            b.fill(b_tiles + stage * B::kElements, tile);
        }
        end_copy_group();
    };
    float sum[kRows][kColumns] = {};
    for (int tile = 0; tile < kSimtStages - 1; ++tile) start_tile(tile, tile);
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_copies<kSimtStages - 2>();
        __syncthreads();
        start_tile(tile + kSimtStages - 1, stage == 0 ? kSimtStages - 1 : stage - 1);
        const float* const a_tile = a_tiles + stage * A::kElements + half_row * (A::kIsWide ? 1 : A::kPitch);
        const float* const b_tile = b_tiles + stage * B::kElements + half_column * (B::kIsWide ? 1 : B::kPitch);
        stage = stage == kSimtStages - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < kSimtDepth; k += kSimtTerms) {
            float columns[kSimtTerms][kColumns];
            B::template load_terms<kSimtColumnLanes>(columns, b_tile, column_lane, 0, k);
#pragma unroll
            for (int first = 0; first < kRows; first += kSimtAtOnce) {
                float rows[kSimtTerms][kSimtAtOnce];
                A::template load_terms<kSimtRowLanes>(rows, a_tile, row_lane, first, k);
#pragma unroll
                for (int t = 0; t < kSimtTerms; ++t)
#pragma unroll
                    for (int i = 0; i < kSimtAtOnce; ++i)
#pragma unroll
                        for (int next = 0; next < kColumns; ++next) {
                            // A serpentine order reads the column at each turning point once.
                            const int j = i % 2 == 0 ? next : kColumns - 1 - next;
                            sum[first + i][j] = math::fma(rows[t][i], columns[t][j], sum[first + i][j]);
                        }
            }
        }
    }
    wait_for_copies<0>();
    __syncthreads();

    // Stages one row of each thread at a time in shared memory: the epilogue is compiled once, not for each result.
    constexpr int kBandRows = 2 * kSimtRowLanes, kBandPitch = kSide + 4;
    static_assert(kBandRows * kBandPitch <= kSimtStages * A::kElements);
    float* const own_band = scratch + (warp / 2 * kSimtRowLanes + row_lane) * kBandPitch + half_column;
#pragma unroll 1
    for (int pass = 0; pass < kRows; ++pass) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            if (i != pass) continue;
#pragma unroll
            for (int j = 0; j < kColumns; ++j) own_band[B::template row<kSimtColumnLanes>(column_lane, j)] = sum[i][j];
        }
        __syncthreads();
#pragma unroll 1
        for (int index = thread; index < kBandRows * kHalf; index += kSimtThreads) {
            const int line = index / kHalf, at = index % kHalf * 2;
            const float* const band = scratch + line * kBandPitch + at;
            const int in_half = A::template row<kSimtRowLanes>(line % kSimtRowLanes, pass);
            const int64_t row = place.row + line / kSimtRowLanes * kHalf + in_half, column = place.column + at;
            if (row >= place.end || column >= place.width || (p.gate != nullptr && at >= kHalf)) continue;
            if (p.gate != nullptr)
                for (int v = 0; v < 2 && column + v < place.width; ++v)
                    p.epilogue.store_gated(row, column + v, band[v], band[v + kHalf]);
            else if (parts.count > 1)
                store_part(parts, place, p.m, p.n, row, column, band[0], band[1]);
            else
                store_pair(p.epilogue, place.matrix, row, column, place.width, band[0], band[1], in_pairs);
        }
        __syncthreads();
    }
}

template <int kSide, Feed kFeedA, Feed kFeedB, class T>
Status launch_fma(const Launch& launch, const Matmul<T>& p, const PartsOf<T>& parts) {
    int64_t tiles = 0;
    BK_TRY(count_blocks(p, parts, kSide, &tiles));
    const Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kSimtThreads), 1, kSimtBytes<kSide, kFeedA, kFeedB>};
    return launch_kernel(launch, grid, matmul_simt_kernel<T, kSide, kFeedA, kFeedB>, p, parts, ceil_div<int64_t>(p.m, kSide),
                         ceil_div<int64_t>(p.n, columns_of(p, kSide)), stores_pairs(p.epilogue));
}

template <int kSide, class T>
Status launch_fma_by_feed(const Launch& launch, const Matmul<T>& p, const PartsOf<T>& parts) {
    if (!moves_by_16(p.a, p.a_at) || !moves_by_16(p.b, p.b_at) || (p.gate != nullptr && !moves_by_16(p.gate, p.b_at)))
        return launch_fma<kSide, Feed::kElements, Feed::kElements>(launch, p, parts);
    const bool b_deep = p.b_at.row == 1;
    if (p.a_at.column == 1)
        return b_deep ? launch_fma<kSide, Feed::kDeep, Feed::kDeep>(launch, p, parts)
                      : launch_fma<kSide, Feed::kDeep, Feed::kWide>(launch, p, parts);
    return b_deep ? launch_fma<kSide, Feed::kWide, Feed::kDeep>(launch, p, parts)
                  : launch_fma<kSide, Feed::kWide, Feed::kWide>(launch, p, parts);
}

// Small tiles, a quarter of the results, run at 7 / 8 of the rate of large ones, two of which an SM computes in the
// time of one; they win if large ones leave SMs idle.
template <class T>
Status matmul_by_fma(const Launch& launch, const Matmul<T>& p, const PartsOf<T>& parts = {}) {
    constexpr int64_t kManyWaves = 64;
    int64_t large = 0, small = 0;
    BK_TRY(count_blocks(p, parts, kSimtSide, &large));
    const int64_t waves = ceil_div(large, 2 * kMultiprocessors);
    if (waves >= kManyWaves) return launch_fma_by_feed<kSimtSide>(launch, p, parts);
    BK_TRY(count_blocks(p, parts, kSimtSide / 2, &small));
    return ceil_div(small, kMultiprocessors) < 7 * waves ? launch_fma_by_feed<kSimtSide / 2>(launch, p, parts)
                                                         : launch_fma_by_feed<kSimtSide>(launch, p, parts);
}

}  // namespace bk
