// Products of matrices by warp groups: wgmma over tiles that bulk tensor copies bring, several stages ahead. sm_90a alone.
//
// A block computes one tile of 128 rows after another: a warp asks for boxes of A and B, two groups of four warps have 64 rows
// each, with all columns of the tile in registers. Sums of a tile are added in the order of k.
#include <algorithm>
#include <cstdint>

#include "core/matmul/bulk_copy.cuh"
#include "core/matmul/tensor_map.h"
#include "core/matmul/warpgroup_step.cuh"
#include "gemm/matmul_group.h"

namespace bk {
namespace {

constexpr int kGroupThreads = 128, kGroups = 2, kBlockThreads = (kGroups + 1) * kGroupThreads;
constexpr int kStageBarriers = 2;
constexpr int kBandColumns = 32, kBandPitch = kBandColumns + 8;

template <int kColumns>
struct GroupTile {
    static constexpr int kABytes = static_cast<int>(kGroupRows) * kSwizzleBytes, kBBytes = kColumns * kSwizzleBytes;
    static constexpr int kBytes = kABytes + kBBytes, kStages = kColumns == 256 ? 4 : 6;
    static constexpr int kBandBytes = kGroups * kGroupThreads / 32 * 16 * kBandPitch * 4;
    static constexpr int kShared =
        kStages * (kBytes + kStageBarriers * 8) + kBandBytes + 1024;  // the tiles are aligned to so many
    static constexpr int kHalf = kColumns / 2;                        // columns of the box of B, and of the gate
};

// What the kernel is launched with beside the product: maps of A, B and the gate, and how the operands lie.
struct GroupOperands {
    TensorMap a, b, gate;
    bool a_is_wide, b_is_wide, a_has_batch, b_has_batch;
};

struct StagePlace {
    int stage = 0, parity = 0;

    BK_DEVICE void advance(int stages) {
        if (++stage < stages) return;
        stage = 0;
        parity ^= 1;
    }
};

template <class T>
BK_DEVICE MatmulPlace find_group_place(const Matmul<T>& p, int64_t index, int64_t down, int64_t across, int columns) {
    if (p.grouped == Grouped::kRows)
        return place_in_rows(p, static_cast<uint32_t>(index), static_cast<uint32_t>(across), kGroupRows, columns);
    MatmulPlace place;
    place.matrix = index / (down * across);
    place_tile(place, index % (down * across), down, across, kGroupRows, columns);
    place.end = p.m;
    place.terms = p.k;
    return place;
}

// Everything that one thread asks for of one tile.
template <class E, int kColumns>
BK_DEVICE void copy_stage(char* to, const GroupOperands& operands, const MatmulPlace& place, bool is_gated, int k,
                          uint64_t* barrier) {
    using Tile = GroupTile<kColumns>;
    constexpr int kBox = 64 * kSwizzleBytes;  // of a wide operand
    const int a_matrix = operands.a_has_batch ? static_cast<int>(place.matrix) : 0;
    const int b_matrix = operands.b_has_batch ? static_cast<int>(place.matrix) : 0;
    const int row = static_cast<int>(place.row), column = static_cast<int>(place.column);
    const TensorMap& upper = is_gated ? operands.gate : operands.b;
    const int upper_column = is_gated ? column : column + Tile::kHalf;
    arrive_expecting(barrier, Tile::kBytes);
    if (operands.a_is_wide) {
        start_box_copy(to, operands.a, row, k, a_matrix, barrier);
        start_box_copy(to + kBox, operands.a, row + 64, k, a_matrix, barrier);
    } else {
        start_box_copy(to, operands.a, k, row, a_matrix, barrier);
    }
    char* const b = to + Tile::kABytes;
    if (operands.b_is_wide) {
#pragma unroll
        for (int i = 0; i < kColumns / 128; ++i) {
            start_box_copy(b + i * kBox, operands.b, column + 64 * i, k, b_matrix, barrier);
            start_box_copy(b + Tile::kBBytes / 2 + i * kBox, upper, upper_column + 64 * i, k, b_matrix, barrier);
        }
    } else {
        start_box_copy(b, operands.b, k, column, b_matrix, barrier);
        start_box_copy(b + Tile::kBBytes / 2, upper, k, upper_column, b_matrix, barrier);
    }
}

// Asks the cache for what the results of a tile are added to, line by line, while its sums are made.
template <class T>
BK_DEVICE void ask_for_tile(const Matmul<T>& p, const matmul_result_t<T>* from, const MatrixStrides& at,
                            const MatmulPlace& place, int columns, int lane) {
    constexpr int kLine = 128;
    const Epilogue<T>& e = p.epilogue;
    const int bytes = e.is_wide ? static_cast<int>(sizeof(float)) : static_cast<int>(sizeof(matmul_result_t<T>));
    const int width = static_cast<int>(min(static_cast<int64_t>(columns), p.n - place.column)) * bytes;
    const int rows = static_cast<int>(min(kGroupRows, place.end - place.row));
    const char* const first = reinterpret_cast<const char*>(e.matrix(from, at, place.matrix)) + place.column * bytes;
#pragma unroll 1
    for (int i = lane; i < rows; i += 32)
#pragma unroll 1
        for (int byte = 0; byte < width; byte += kLine) ask_for_line(first + (place.row + i) * at.row * bytes + byte);
}

// Factors of f32 that a stage brought, rounded to TF32 where they lie by both groups together: each thread 16 bytes of as many
// as there are threads, and so on. The instruction would cut off what TF32 has not.
template <int kColumns>
BK_DEVICE void round_stage(char* stage) {
    constexpr int kThreads = kGroups * kGroupThreads, kRounds = GroupTile<kColumns>::kBytes / 16 / kThreads;
    uint4* const own = reinterpret_cast<uint4*>(stage) + threadIdx.x;
#pragma unroll 4
    for (int i = 0; i < kRounds; ++i) {
        uint4 four = own[i * kThreads];
        four.x = round_to_tf32(four.x);
        four.y = round_to_tf32(four.y);
        four.z = round_to_tf32(four.z);
        four.w = round_to_tf32(four.w);
        own[i * kThreads] = four;
    }
    publish_writes();
    wait_for_groups<kThreads>();
}

// The steps of one stage, which begin with its first sums or add to those that are there.
template <class E, int kColumns, bool kAIsWide, bool kBIsWide, class Sum>
BK_DEVICE void add_stage(Sum (&sums)[kColumns / 2], char* tiles, int at, int group, bool adds) {
    using Tile = GroupTile<kColumns>;
    constexpr int kAdvanceDeep = 32, kAdvanceWide = 16 * kSwizzleBytes, kAcross = 64 * kSwizzleBytes;
    const uint32_t stage = shared_address(tiles) + static_cast<uint32_t>(at * Tile::kBytes);
    const uint32_t a = stage + static_cast<uint32_t>(group * 64 * kSwizzleBytes), b = stage + Tile::kABytes;
    begin_steps();
#pragma unroll
    for (int part = 0; part < kSwizzleBytes / 32; ++part)
        GroupStep<E, kColumns>::template run<kAIsWide, kBIsWide>(
            sums, operand_descriptor(a + part * (kAIsWide ? kAdvanceWide : kAdvanceDeep), kAcross),
            operand_descriptor(b + part * (kBIsWide ? kAdvanceWide : kAdvanceDeep), kAcross), adds || part > 0);
    end_steps();
}

// The sums of a group's 64 rows over all terms of a tile.
template <class E, int kColumns, bool kAIsWide, bool kBIsWide, class Sum>
BK_DEVICE void add_terms(Sum (&sums)[kColumns / 2], char* tiles, uint64_t* full, uint64_t* empty, StagePlace& at, int64_t steps,
                         int group, int lane) {
    using Tile = GroupTile<kColumns>;
    constexpr bool kIsRounded = std::is_same_v<E, float>;
    const auto receive = [&] {
        wait_for_phase(full + at.stage, at.parity);
        if constexpr (kIsRounded) round_stage<kColumns>(tiles + at.stage * Tile::kBytes);
    };
    int before = -1;
    if (kIsRounded && steps > 0) receive();
#pragma unroll 1
    for (int64_t step = 0; step < steps; ++step) {
        if (!kIsRounded) receive();
        add_stage<E, kColumns, kAIsWide, kBIsWide>(sums, tiles, at.stage, group, step > 0);
        wait_for_steps<1>();  // those of the stage before, which may be filled again
        if (before >= 0 && lane == 0) arrive(empty + before);
        before = at.stage;
        at.advance(Tile::kStages);
        if (kIsRounded && step + 1 < steps) receive();  // while the steps of this stage are under way
    }
    wait_for_steps<0>();
    if (before >= 0 && lane == 0) arrive(empty + before);
}

// The sums of fp8, whose steps keep about 14 bits of what they add up (arXiv 2412.19437, 3.3.2): those of a stage, the 128
// terms of a block of scales, are added up in f32, of blocks with their scales.
template <class T, int kColumns>
BK_DEVICE void add_blocks(float (&totals)[kColumns / 2], const Matmul<T>& p, char* tiles, uint64_t* full, uint64_t* empty,
                          StagePlace& at, int64_t steps, const MatmulPlace& place, int64_t row, int group, int lane) {
    using Tile = GroupTile<kColumns>;
    static_assert(kSwizzleBytes == kScaleTerms && kColumns == kScaleTerms, "a stage is of one block of terms and columns");
    for (int v = 0; v < kColumns / 2; ++v) totals[v] = 0;
    int64_t rows[2];
    for (int half = 0; half < 2; ++half) rows[half] = min(row + lane / 4 + 8 * half, place.end - 1);
    float sums[kColumns / 2];
#pragma unroll 1
    for (int64_t step = 0; step < steps; ++step) {
        float scale[2] = {1, 1};
        if (p.epilogue.is_by_blocks())
            for (int half = 0; half < 2; ++half)
                scale[half] = p.epilogue.scale_of_row(rows[half], step) * p.epilogue.scale_of_column(place.column, step);
        wait_for_phase(full + at.stage, at.parity);
        add_stage<matmul_element_t<T>, kColumns, false, false>(sums, tiles, at.stage, group, false);
        wait_for_steps<0>();
        if (lane == 0) arrive(empty + at.stage);
        at.advance(Tile::kStages);
#pragma unroll
        for (int v = 0; v < kColumns / 2; ++v) totals[v] += sums[v] * scale[v / 2 % 2];
    }
}

// What the kernel is told of the epilogue: whether pairs of results may be stored at a time, and straight from registers.
struct GroupStores {
    bool in_pairs, is_direct;
};

// Results with nothing but alpha, a bias and relu behind the sums, of a tile that ends within the columns.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_directly(const Matmul<T>& p, Sum (&sums)[kColumns / 2], const MatmulPlace& place, int64_t row, int lane) {
    using E = matmul_result_t<T>;
    using S = matmul_scalar_t<T>;
    const Epilogue<T>& e = p.epilogue;
    const int64_t column = place.column + lane % 4 * 2;
    const E* const bias = static_cast<const E*>(e.bias);
    const bool has_bias = bias != nullptr, is_relu = e.activation == Activation::kRelu;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t i = row + lane / 4 + 8 * half;
        if (i >= place.end) continue;
        E* const to = e.d + place.matrix * e.d_at.step + i * e.d_at.row + column;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
            S x[2];
            for (int v = 0; v < 2; ++v) x[v] = e.alpha * TensorKind<T>::finished(sums[4 * j + 2 * half + v], p.k);
            if (has_bias) {
                const Vec<E, 2> two = load<2>(bias + column + 8 * j);
                for (int v = 0; v < 2; ++v) x[v] += Epilogue<T>::element_of(two.lane[v]);
            }
            if (is_relu)
                for (int v = 0; v < 2; ++v) x[v] = Epilogue<T>::template activated_as<S>(Activation::kRelu, x[v]);
            Vec<E, 2> pair;
            for (int v = 0; v < 2; ++v) pair.lane[v] = Epilogue<T>::stored(x[v]);
            store(to + 8 * j, pair);
        }
    }
}

// A pass over a warp's band: two columns of every second row of its 16.
template <class T>
BK_DEVICE void store_band(const Matmul<T>& p, const matmul_scalar_t<T>* band, const MatmulPlace& place, int64_t row, int line,
                          int at, int64_t column, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    constexpr int kLines = 8, kApart = 16 / kLines;
    const S* const pair = band + line * kBandPitch + at;
    if (column >= p.n) return;
    if (kIsScaled<T> || !in_pairs || column + 1 >= p.n) {
#pragma unroll 1
        for (int i = 0; i < kLines; ++i) {
            const int64_t at_row = row + line + i * kApart;
            const S* const two = pair + i * kApart * kBandPitch;
            if (at_row < place.end)
                store_pair(p.epilogue, place.matrix, at_row, column, p.n, two[0], two[1], kIsScaled<T> && in_pairs);
        }
        return;
    }
    if constexpr (!kIsScaled<T>) {
        PairStores<T, kLines> stores{p.epilogue, place.matrix, column, {}, {}};
        stores.load_of_columns();
        S x[kLines][2];
#pragma unroll
        for (int i = 0; i < kLines; ++i) {
            stores.row[i] = row + line + i * kApart;
            stores.has[i] = stores.row[i] < place.end;
            for (int v = 0; v < 2; ++v) x[i][v] = pair[i * kApart * kBandPitch + v];
        }
        stores.store(x);
    }
}

// Of a gated product, whose gates lie half a band behind.
template <class T, int kLines>
BK_DEVICE void store_gated_band(const Matmul<T>& p, const matmul_scalar_t<T>* band, const MatmulPlace& place, int64_t row,
                                int line, int at, int64_t column, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    constexpr int kApart = 16 / kLines, kGate = kBandColumns / 2;
    const Epilogue<T>& e = p.epilogue;
    const int count = column + 1 < p.n ? 2 : column < p.n ? 1 : 0;
    S bias[2] = {}, gate_bias[2] = {};
    for (int v = 0; v < count; ++v) {
        if (e.bias != nullptr) bias[v] = e.bias_of(column + v);
        if (e.gate_bias != nullptr) gate_bias[v] = Epilogue<T>::element_of(e.gate_bias[column + v]);
    }
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
        const int64_t at_row = row + line + i * kApart;
        if (at_row >= place.end || count == 0) continue;
        const S* const pair = band + (line + i * kApart) * kBandPitch + at;
        S two[2] = {};
        for (int v = 0; v < count; ++v) two[v] = e.gated(at_row, column + v, pair[v], pair[v + kGate], bias[v], gate_bias[v]);
        if (count == 2 && in_pairs)
            keep_two(e, e.d, at_row * e.d_at.row + column, two);
        else
            for (int v = 0; v < count; ++v) e.keep(e.d, at_row * e.d_at.row + column + v, two[v]);
    }
}

// A warp's 16 rows, by way of its own piece of shared memory, so that stores go along rows.
template <class T, int kColumns, class Sum>
BK_DEVICE void store_group(const Matmul<T>& p, const Sum (&sums)[kColumns / 2], matmul_scalar_t<T>* band,
                           const MatmulPlace& place, int64_t row, int lane, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    const bool is_gated = kMayBeGated<T> && p.gate != nullptr;
#pragma unroll 1
    for (int pass = 0; pass < kColumns / kBandColumns; ++pass) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
            // eights of a pass: four neighbours, or two and the two of the gate
            const int upper = j >= kColumns / 16;
            const int own = is_gated ? (j - upper * (kColumns / 16)) / 2 : j / 4;
            const int place_in_band = is_gated ? j % 2 + 2 * upper : j % 4;
            if (own != pass) continue;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                S* const to = band + (lane / 4 + 8 * half) * kBandPitch + 8 * place_in_band + lane % 4 * 2;
                Vec<S, 2> two;
                for (int v = 0; v < 2; ++v) two.lane[v] = TensorKind<T>::finished(sums[4 * j + 2 * half + v], p.k);
                store(to, two);
            }
        }
        __syncwarp();
        if constexpr (kMayBeGated<T>)
            if (is_gated) {
                const int at = lane % 8 * 2;
                store_gated_band<T, 4>(p, band, place, row, lane / 8, at, place.column + pass * (kBandColumns / 2) + at,
                                       in_pairs);
                continue;
            }
        const int at = lane % 16 * 2;
        store_band(p, band, place, row, lane / 16, at, place.column + pass * kBandColumns + at, in_pairs);
    }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 1)
    group_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ GroupOperands operands, int64_t down,
                 int64_t across, int64_t count, const __grid_constant__ GroupStores stores) {
    using E = matmul_element_t<T>;
    using Tile = GroupTile<kColumns>;
    using Sum = typename GroupStep<E, kColumns>::Sum;
    constexpr int kDepth = kSwizzleBytes / static_cast<int>(sizeof(E));
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const base = reinterpret_cast<char*>(shared_words);
    char* const tiles = base + (1024 - shared_address(base) % 1024) % 1024;
    auto* const full = reinterpret_cast<uint64_t*>(tiles + Tile::kStages * Tile::kBytes);
    uint64_t* const empty = full + Tile::kStages;
    auto* const bands = reinterpret_cast<matmul_scalar_t<T>*>(empty + Tile::kStages);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int columns = static_cast<int>(columns_of(p, kColumns));
    if (thread == 0) {
        for (int stage = 0; stage < Tile::kStages; ++stage) {
            init_barrier(full + stage, 1);
            init_barrier(empty + stage, kGroups * kGroupThreads / 32);
        }
        publish_barriers();
    }
    __syncthreads();

    StagePlace at;
    if (warp >= kGroups * kGroupThreads / 32) {
        give_registers<40>();
        if (warp != kGroups * kGroupThreads / 32) return;
        for (int64_t index = blockIdx.x; index < count; index += gridDim.x) {
            const MatmulPlace place = find_group_place(p, index, down, across, columns);
            if (place.end == 0) continue;
            const int64_t steps = (place.terms + kDepth - 1) / kDepth;
            if constexpr (!kIsScaled<T>) {
                if (p.epilogue.residual != nullptr)
                    ask_for_tile(p, p.epilogue.residual, p.epilogue.residual_at, place, columns, lane);
                if (p.epilogue.c != nullptr) ask_for_tile(p, p.epilogue.c, p.epilogue.c_at, place, columns, lane);
            }
            for (int64_t step = 0; step < steps; ++step) {
                wait_for_phase(empty + at.stage, at.parity ^ 1);
                if (lane == 0)
                    copy_stage<E, kColumns>(tiles + at.stage * Tile::kBytes, operands, place,
                                            kMayBeGated<T> && p.gate != nullptr, static_cast<int>(step * kDepth),
                                            full + at.stage);
                __syncwarp();
                at.advance(Tile::kStages);
            }
        }
        return;
    }
    take_registers<232>();
    const int group = warp / (kGroupThreads / 32);
    auto* const band = bands + warp * 16 * kBandPitch;
    for (int64_t index = blockIdx.x; index < count; index += gridDim.x) {
        const MatmulPlace place = find_group_place(p, index, down, across, columns);
        if (place.end == 0) continue;
        const int64_t steps = (place.terms + kDepth - 1) / kDepth;
        Sum sums[kColumns / 2];
        if (steps == 0)
            for (int v = 0; v < kColumns / 2; ++v) sums[v] = 0;
        const int64_t row = place.row + 16 * warp;
        if constexpr (kIsScaled<T>) {
            add_blocks<T, kColumns>(sums, p, tiles, full, empty, at, steps, place, row, group, lane);
        } else if constexpr (sizeof(E) == 2) {
            if (operands.a_is_wide && operands.b_is_wide)
                add_terms<E, kColumns, true, true>(sums, tiles, full, empty, at, steps, group, lane);
            else if (operands.a_is_wide)
                add_terms<E, kColumns, true, false>(sums, tiles, full, empty, at, steps, group, lane);
            else if (operands.b_is_wide)
                add_terms<E, kColumns, false, true>(sums, tiles, full, empty, at, steps, group, lane);
            else
                add_terms<E, kColumns, false, false>(sums, tiles, full, empty, at, steps, group, lane);
        } else {
            add_terms<E, kColumns, false, false>(sums, tiles, full, empty, at, steps, group, lane);
        }
        if constexpr (!kIsScaled<T>)
            if (stores.is_direct && place.column + kColumns <= p.n) {
                store_directly<T, kColumns>(p, sums, place, row, lane);
                continue;
            }
        store_group<T, kColumns>(p, sums, band, place, row, lane, stores.in_pairs);
    }
}

// Whether results need nothing but what store_directly() does.
template <class T>
bool is_direct(const Matmul<T>& p) {
    const Epilogue<T>& e = p.epilogue;
    const bool has_more = e.c != nullptr || e.row_scale != nullptr || e.column_scale != nullptr || e.row_bias != nullptr ||
                          e.residual != nullptr || e.z != nullptr || e.is_wide || p.gate != nullptr;
    const bool has_simple_bias =
        e.bias == nullptr || (e.bias_type == BiasType::kElement && is_aligned(e.bias, 2 * sizeof(matmul_result_t<T>)));
    return !has_more && has_simple_bias && (e.activation == Activation::kNone || e.activation == Activation::kRelu);
}
template <class T>
bool is_direct(const Matmul<scaled<T>>&) {
    return false;
}

// A map of one operand, with rows of A or columns of B beside one another if it is wide.
template <class E>
bool map_operand(TensorMap* map, const E* data, int64_t rows, int64_t k, int64_t pitch, int64_t batch, int64_t step,
                 bool is_wide, int box) {
    const int64_t length = is_wide ? rows : k, lines = is_wide ? k : rows;
    const bool has_batch = batch > 1 && step != 0;
    return pitch >= length && make_tensor_map(map, data, length, lines, pitch, has_batch ? batch : 1,
                                              has_batch ? step : pitch * lines, is_wide ? 64 : box);
}

template <class T, int kColumns>
Status launch_groups(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    using E = matmul_element_t<T>;
    using Tile = GroupTile<kColumns>;
    const bool a_is_wide = p.a_at.column != 1, b_is_wide = p.b_at.row != 1;
    const int64_t a_batch = p.grouped == Grouped::kRows ? 1 : p.batch;
    const int64_t a_pitch = a_is_wide ? p.a_at.column : p.a_at.row, b_pitch = b_is_wide ? p.b_at.row : p.b_at.column;
    GroupOperands operands;
    operands.a_is_wide = a_is_wide;
    operands.b_is_wide = b_is_wide;
    operands.a_has_batch = a_batch > 1 && p.a_at.step != 0;
    operands.b_has_batch = p.batch > 1 && p.b_at.step != 0;
    if (!map_operand(&operands.a, p.a, p.m, p.k, a_pitch, a_batch, p.a_at.step, a_is_wide, kGroupRows) ||
        !map_operand(&operands.b, p.b, p.n, p.k, b_pitch, p.batch, p.b_at.step, b_is_wide, Tile::kHalf))
        return Status::kOk;
    operands.gate = operands.b;
    if (p.gate != nullptr &&
        !map_operand(&operands.gate, p.gate, p.n, p.k, b_pitch, p.batch, p.b_at.step, b_is_wide, Tile::kHalf))
        return Status::kOk;
    const int64_t down = ceil_div<int64_t>(p.m, kGroupRows), across = ceil_div<int64_t>(p.n, columns_of(p, kColumns));
    int64_t count = 0;
    BK_TRY(count_tiles(count_down(p, kGroupRows), across, a_batch, &count));
    const auto kernel = group_kernel<T, kColumns>;
    Grid grid{dim3(static_cast<unsigned>(std::min(count, kMultiprocessors))), dim3(kBlockThreads)};
    grid.shared = Tile::kShared;
    const bool in_pairs = stores_pairs(p.epilogue);
    *is_taken = true;
    return launch_kernel(launch, grid, kernel, p, operands, down, across, count,
                         GroupStores{in_pairs, in_pairs && is_direct(p)});
}

}  // namespace

// Wide tiles read less, narrow ones leave fewer multiprocessors idle.
template <class T>
Status matmul_sm90a(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    using E = matmul_element_t<T>;
    const bool a_is_deep = p.a_at.column == 1, b_is_deep = p.b_at.row == 1;
    const bool is_possible = moves_by_16(p.a, p.a_at) && moves_by_16(p.b, p.b_at) && p.a_at.step >= 0 && p.b_at.step >= 0 &&
                             (p.gate == nullptr || moves_by_16(p.gate, p.b_at)) && (sizeof(E) == 2 || (a_is_deep && b_is_deep));
    if (!is_possible) return Status::kOk;
    if constexpr (sizeof(E) == 2) {
        const int64_t batch = p.grouped == Grouped::kRows ? 1 : p.batch;
        const int64_t wide = ceil_div<int64_t>(p.m, kGroupRows) * ceil_div<int64_t>(p.n, columns_of(p, 256));
        if (p.n <= 128 || wide < ceil_div(kMultiprocessors, batch)) return launch_groups<T, 128>(launch, p, is_taken);
    }
    return launch_groups<T, kIsScaled<T> ? 128 : 256>(launch, p, is_taken);
}

template Status matmul_sm90a(const Launch&, const Matmul<f16>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<bf16>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<tf32>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e4m3>>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e5m2>>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<int8_t>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<uint8_t>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<whole_sums<int8_t>>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<whole_sums<uint8_t>>&, bool*);

}  // namespace bk
