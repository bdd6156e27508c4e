// Persistent warp-specialised Hopper GEMM. sm_90a alone.
//
// A block computes 128-row tiles one after another: one producer warp issues TMA loads into a ring of kStages stages,
// another loads block scales, and two consumer warpgroups run wgmma on 64 rows each, with all columns of the tile in
// registers. Clusters of two blocks compute vertically adjacent tiles: each loads half of B and multicasts it. Each
// tile accumulates in the order of k.
#include <algorithm>
#include <cstdint>

#include "core/cluster.cuh"
#include "core/matmul/bulk_copy.cuh"
#include "core/matmul/stage_ring.cuh"
#include "core/matmul/tensor_map.h"
#include "core/matmul/warpgroup_step.cuh"
#include "core/prefetch.cuh"
#include "gemm/matmul_group.h"
#include "gemm/matmul_group_store.cuh"

namespace bk {
namespace {

constexpr int kGroupThreads = 128, kGroups = 2, kBlockThreads = (kGroups + 1) * kGroupThreads;
constexpr int kStageBarriers = 2;
// Floats of a stage's block scales: those of the rows of A and of blocks of columns.
constexpr int kScalePitch = static_cast<int>(kGroupRows) + 4;

template <class T, int kColumns>
struct GroupTile {
    static constexpr bool kHasRests = std::is_same_v<T, tf32x3>;  // 3xTF32: a stage also holds the residuals
    static constexpr int kABytes = static_cast<int>(kGroupRows) * kSwizzleBytes, kBBytes = kColumns * kSwizzleBytes;
    static constexpr int kBytes = kABytes + kBBytes, kPitch = kHasRests ? 2 * kBytes : kBytes;
    static constexpr int kStages = kHasRests ? 2 : kColumns == 256 ? 4 : 6;
    static constexpr int kBandBytes = kGroups * kGroupThreads / 32 * 16 * kBandPitch * 4;
    static constexpr int kScaleBytes = kIsScaled<T> ? kStages * kScalePitch * 4 : 0;
    static constexpr int kShared =
        kStages * (kPitch + kStageBarriers * 8) + kBandBytes + kScaleBytes + 1024;  // tiles are 1024-byte aligned
    static constexpr int kHalf = kColumns / 2;                                      // columns of the box of B, and of the gate
};

// Tensor maps, operand layouts and the cluster size, 1 or 2.
struct GroupOperands {
    TensorMap a, b, gate;
    bool a_is_wide, b_is_wide, a_has_batch, b_has_batch;
    int blocks;
};

// This block's tile, out of tile number `index` of its cluster.
template <class T>
BK_DEVICE MatmulPlace find_group_place(const Matmul<T>& p, int64_t index, int64_t down, int64_t across, int columns, int blocks,
                                       int rank) {
    if (p.grouped == Grouped::kRows)
        return place_in_rows(p, static_cast<uint32_t>(index), static_cast<uint32_t>(across), kGroupRows, columns);
    MatmulPlace place;
    place.matrix = index / (down * across);
    place_tile(place, index % (down * across), down, across, blocks * static_cast<int>(kGroupRows), columns);
    place.row += rank * kGroupRows;
    place.end = p.m;
    place.terms = p.k;
    if (p.grouped == Grouped::kTerms) {
        place.first = group_offset(p.offsets, place.matrix, p.k);
        const int64_t terms = group_offset(p.offsets, place.matrix + 1, p.k) - place.first;
        place.terms = terms < 0 ? 0 : terms;
    }
    return place;
}

// Producer: one thread issues all TMA loads of a stage; in a cluster of two only its rank's half of B.
template <class T, int kColumns>
BK_DEVICE void copy_stage(char* to, const GroupOperands& operands, const MatmulPlace& place, bool is_gated, int k,
                          uint64_t* barrier, int rank) {
    using Tile = GroupTile<T, kColumns>;
    constexpr int kBox = 64 * kSwizzleBytes;  // of an MN-major operand
    const int a_matrix = operands.a_has_batch ? static_cast<int>(place.matrix) : 0;
    const int b_matrix = operands.b_has_batch ? static_cast<int>(place.matrix) : 0;
    const int row = static_cast<int>(place.row), column = static_cast<int>(place.column);
    arrive_expecting(barrier, Tile::kBytes);
    if (operands.a_is_wide) {
        start_box_copy(to, operands.a, row, k, a_matrix, barrier);
        start_box_copy(to + kBox, operands.a, row + 64, k, a_matrix, barrier);
    } else {
        start_box_copy(to, operands.a, k, row, a_matrix, barrier);
    }
    const bool is_shared = operands.blocks > 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (is_shared && half != rank) continue;
        const TensorMap& map = half == 1 && is_gated ? operands.gate : operands.b;
        const int at = half == 1 && !is_gated ? column + Tile::kHalf : column;
        char* const b = to + Tile::kABytes + half * (Tile::kBBytes / 2);
        const auto copy = [&](char* place_of_box, int first, int line) {
            if (is_shared)
                start_shared_box_copy(place_of_box, map, first, line, b_matrix, barrier, 3);
            else
                start_box_copy(place_of_box, map, first, line, b_matrix, barrier);
        };
        if (operands.b_is_wide) {
#pragma unroll
            for (int i = 0; i < kColumns / 128; ++i) copy(b + i * kBox, at + 64 * i, k);
        } else {
            copy(b, k, at);
        }
    }
}

// Prefetches the C or residual tile into L2 during the main loop.
template <class T>
BK_DEVICE void ask_for_tile(const Matmul<T>& p, const matmul_result_t<T>* from, const MatrixStrides& at,
                            const MatmulPlace& place, int columns, int lane) {
    const Epilogue<T>& e = p.epilogue;
    const int bytes = e.is_wide ? static_cast<int>(sizeof(float)) : static_cast<int>(sizeof(matmul_result_t<T>));
    const int width = static_cast<int>(min(static_cast<int64_t>(columns), p.n - place.column)) * bytes;
    const int rows = static_cast<int>(min(kGroupRows, place.end - place.row));  // none below the last row
    const char* const first = reinterpret_cast<const char*>(e.matrix(from, at, place.matrix)) + place.column * bytes;
#pragma unroll 1
    for (int i = lane; i < rows; i += 32)
#pragma unroll 1
        for (int byte = 0; byte < width; byte += kLineBytes) prefetch_line(first + (place.row + i) * at.row * bytes + byte);
}

// Rounds a stage of f32 operands to TF32 in place, by both warpgroups together, and stores the residuals: wgmma would
// truncate.
template <class T, int kColumns>
BK_DEVICE void round_stage(char* stage) {
    using Tile = GroupTile<T, kColumns>;
    constexpr int kThreads = kGroups * kGroupThreads, kRounds = Tile::kBytes / 16 / kThreads;
    uint4* const own = reinterpret_cast<uint4*>(stage) + threadIdx.x;
#pragma unroll 4
    for (int i = 0; i < kRounds; ++i) {
        const uint4 four = own[i * kThreads];
        const uint4 rounded =
            make_uint4(round_to_tf32(four.x), round_to_tf32(four.y), round_to_tf32(four.z), round_to_tf32(four.w));
        own[i * kThreads] = rounded;
        if constexpr (Tile::kHasRests)
            own[i * kThreads + Tile::kBytes / 16] =
                make_uint4(rest_of_tf32(four.x, rounded.x), rest_of_tf32(four.y, rounded.y), rest_of_tf32(four.z, rounded.z),
                           rest_of_tf32(four.w, rounded.w));
    }
    publish_writes();
    wait_for_groups<kThreads>();
}

// Issues the wgmmas of one stage. 3xTF32 adds the residual products first.
template <class T, int kColumns, bool kAIsWide, bool kBIsWide, class Sum>
BK_DEVICE void add_stage(Sum (&sums)[kColumns / 2], char* tiles, int at, int group, bool adds) {
    using Tile = GroupTile<T, kColumns>;
    using Step = GroupStep<matmul_element_t<T>, kColumns>;
    constexpr int kAdvanceDeep = 32, kAdvanceWide = 16 * kSwizzleBytes, kAcross = 64 * kSwizzleBytes;
    const uint32_t stage = shared_address(tiles) + static_cast<uint32_t>(at * Tile::kPitch);
    const uint32_t a = stage + static_cast<uint32_t>(group * 64 * kSwizzleBytes), b = stage + Tile::kABytes;
    const auto add = [&](uint32_t a_tile, uint32_t b_tile, bool adds_to) {
#pragma unroll
        for (int part = 0; part < kSwizzleBytes / 32; ++part)
            Step::template run<kAIsWide, kBIsWide>(
                sums, operand_descriptor(a_tile + part * (kAIsWide ? kAdvanceWide : kAdvanceDeep), kAcross),
                operand_descriptor(b_tile + part * (kBIsWide ? kAdvanceWide : kAdvanceDeep), kAcross), adds_to || part > 0);
    };
    begin_steps();
    if constexpr (Tile::kHasRests) {
        add(a + Tile::kBytes, b, adds);
        add(a, b + Tile::kBytes, true);
    }
    add(a, b, adds || Tile::kHasRests);
    end_steps();
}

// Zeros K elements from `terms` on in the boxes of a stage, which belong to the next group; MN-major boxes have 128
// bytes for each.
template <class T, int kColumns>
BK_DEVICE void clear_terms(char* stage, int terms) {
    constexpr int kThreads = kGroups * kGroupThreads, kBoxTerms = 64,
                  kBoxes = GroupTile<T, kColumns>::kBytes / kSwizzleBytes / kBoxTerms;
    constexpr int kWords = kSwizzleBytes / 16;
    const int words = (kBoxTerms - terms) * kWords;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kBoxes * words; i += kThreads) {
        const int word = (i / words * kBoxTerms + terms) * kWords + i % words;
        reinterpret_cast<uint4*>(stage)[word] = make_uint4(0, 0, 0, 0);
    }
    publish_writes();
    wait_for_groups<kThreads>();
}

// Main loop of a consumer warpgroup's 64 rows. The last stage has `k_tail` K elements if that is not 0.
template <class T, int kColumns, bool kAIsWide, bool kBIsWide, class Sum>
BK_DEVICE void add_terms(Sum (&sums)[kColumns / 2], char* tiles, uint64_t* full, uint64_t* empty, StagePlace& at, int64_t steps,
                         int rest, int group, int lane, int blocks) {
    using Tile = GroupTile<T, kColumns>;
    constexpr bool kIsRounded = std::is_same_v<matmul_element_t<T>, float>;
    const auto receive = [&] {
        wait_for_phase(full + at.stage, at.parity);
        if constexpr (kIsRounded) round_stage<T, kColumns>(tiles + at.stage * Tile::kPitch);
    };
    int before = -1;
    if (kIsRounded && steps > 0) receive();
#pragma unroll 1
    for (int64_t step = 0; step < steps; ++step) {
        if (!kIsRounded) receive();
        if constexpr (kAIsWide && kBIsWide)
            if (rest != 0 && step + 1 == steps) clear_terms<T, kColumns>(tiles + at.stage * Tile::kPitch, rest);
        add_stage<T, kColumns, kAIsWide, kBIsWide>(sums, tiles, at.stage, group, step > 0);
        wait_for_steps<1>();  // the previous stage's wgmma has retired: release its buffer
        if (before >= 0) free_stage(empty + before, blocks, lane);
        before = at.stage;
        at.advance(Tile::kStages);
        if (kIsRounded && step + 1 < steps) receive();  // while this stage's wgmma is in flight
    }
    wait_for_steps<0>();
    if (before >= 0) free_stage(empty + before, blocks, lane);
}

// Whether accumulators are promoted to f32 after each stage: fp8 wgmma keeps about 14 bits (arXiv 2412.19437, 3.3.2).
template <class T>
constexpr bool kHasTotals = kIsFp8<matmul_element_t<T>>;

// Whether stages carry block scales.
template <class T>
BK_DEVICE bool has_scales_of_blocks(const Matmul<T>& p) {
    if constexpr (kIsScaled<T>) return p.epilogue.is_by_blocks();
    return false;
}

// One warp loads the scales of each stage of a tile into registers while it waits for the stage to be free.
template <class T, int kColumns>
BK_DEVICE void copy_scales(const Matmul<T>& p, const MatmulPlace& place, float* scales, uint64_t* full, uint64_t* empty,
                           StagePlace& at, int64_t steps, int lane) {
    constexpr int kRows = static_cast<int>(kGroupRows) / 32, kBlocks = kColumns / kScaleTerms;
    for (int64_t step = 0; step < steps; ++step) {
        float of_row[kRows], of_block = 0;
        for (int i = 0; i < kRows; ++i)
            of_row[i] = p.epilogue.scale_of_row(min(place.row + lane + 32 * i, place.end - 1), step);
        if (lane < kBlocks) of_block = p.epilogue.scale_of_column(min(place.column + lane * kScaleTerms, p.n - 1), step);
        wait_for_phase(empty + at.stage, at.parity ^ 1);
        float* const to = scales + at.stage * kScalePitch;
        for (int i = 0; i < kRows; ++i) to[lane + 32 * i] = of_row[i];
        if (lane < kBlocks) to[kGroupRows + lane] = of_block;
        __syncwarp();
        if (lane == 0) arrive(full + at.stage);
        at.advance(GroupTile<T, kColumns>::kStages);
    }
}

// FP8 main loop: promotes the tensor-core accumulator to f32 every 128 K elements, applying block scales if present,
// 128 columns at a time. The warpgroups alternate, so that one promotes while the other's wgmma runs.
template <class T, int kColumns>
BK_DEVICE void add_totals(float (&totals)[kColumns / 2], const Matmul<T>& p, char* tiles, uint64_t* full, uint64_t* empty,
                          const float* scales, StagePlace& at, int64_t steps, int group, int lane, int blocks) {
    using Tile = GroupTile<T, kColumns>;
    constexpr int kPart = kScaleTerms, kParts = kColumns / kPart;
    static_assert(kSwizzleBytes == kScaleTerms && kColumns % kPart == 0, "a stage is of one block of terms");
    for (int v = 0; v < kColumns / 2; ++v) totals[v] = 0;
#pragma unroll 1
    for (int64_t step = 0; step < steps; ++step) {
        float of_row[2] = {1, 1}, of_part[kParts];
        for (int part = 0; part < kParts; ++part) of_part[part] = 1;
        const uint32_t stage = shared_address(tiles) + static_cast<uint32_t>(at.stage * Tile::kPitch);
        const uint32_t a = stage + static_cast<uint32_t>(group * 64 * kSwizzleBytes), b = stage + Tile::kABytes;
        wait_for_phase(full + at.stage, at.parity);
        if (has_scales_of_blocks(p)) {
            const float* const of_stage = scales + at.stage * kScalePitch;
            const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
            for (int half = 0; half < 2; ++half) of_row[half] = of_stage[row + 8 * half];
            for (int part = 0; part < kParts; ++part) of_part[part] = of_stage[kGroupRows + part];
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            float sums[kPart / 2];
            wait_for_turn<kGroups * kGroupThreads>(group);
            begin_steps();
#pragma unroll
            for (int i = 0; i < kSwizzleBytes; i += 32)
                GroupStep<matmul_element_t<T>, kPart>::template run<false, false>(
                    sums, operand_descriptor(a + i, 0), operand_descriptor(b + part * (kPart * kSwizzleBytes) + i, 0), i > 0);
            end_steps();
            give_turn<kGroups * kGroupThreads>(1 - group);
            wait_for_steps<0>();
            if (part + 1 == kParts) free_stage(empty + at.stage, blocks, lane);
#pragma unroll
            for (int v = 0; v < kPart / 2; ++v) totals[part * (kPart / 2) + v] += sums[v] * (of_row[v / 2 % 2] * of_part[part]);
        }
        at.advance(Tile::kStages);
    }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 1)
    group_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ GroupOperands operands, int64_t down,
                 int64_t across, int64_t count, const __grid_constant__ GroupStores stores) {
    using E = matmul_element_t<T>;
    using Tile = GroupTile<T, kColumns>;
    using Sum = typename GroupStep<E, kHasTotals<T> ? kScaleTerms : kColumns>::Sum;
    constexpr int kDepth = kSwizzleBytes / static_cast<int>(sizeof(E));
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const base = reinterpret_cast<char*>(shared_words);
    char* const tiles = base + (1024 - shared_address(base) % 1024) % 1024;
    auto* const full = reinterpret_cast<uint64_t*>(tiles + Tile::kStages * Tile::kPitch);
    uint64_t* const empty = full + Tile::kStages;
    auto* const bands = reinterpret_cast<matmul_scalar_t<T>*>(empty + Tile::kStages);
    auto* const scales = reinterpret_cast<float*>(reinterpret_cast<char*>(bands) + Tile::kBandBytes);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int columns = static_cast<int>(columns_of(p, kColumns)), blocks = operands.blocks, rank = rank_in_cluster() % blocks;
    if (thread == 0) {
        for (int stage = 0; stage < Tile::kStages; ++stage) {
            init_barrier(full + stage, has_scales_of_blocks(p) ? 2 : 1);
            init_barrier(empty + stage, blocks * kGroups * kGroupThreads / 32);
        }
        publish_barriers();
    }
    sync_cluster();

    StagePlace at;
    if (warp >= kGroups * kGroupThreads / 32) {
        give_registers<40>();
        constexpr int kFirst = kGroups * kGroupThreads / 32;
        const bool copies = warp == kFirst;
        if constexpr (kIsScaled<T>)
            if (warp == kFirst + 1 && has_scales_of_blocks(p)) {
                for (int64_t index = blockIdx.x / blocks; index < count; index += gridDim.x / blocks) {
                    const MatmulPlace place = find_group_place(p, index, down, across, columns, blocks, rank);
                    if (place.end != 0)
                        copy_scales<T, kColumns>(p, place, scales, full, empty, at, (place.terms + kDepth - 1) / kDepth, lane);
                }
            }
        for (int64_t index = blockIdx.x / blocks; copies && index < count; index += gridDim.x / blocks) {
            const MatmulPlace place = find_group_place(p, index, down, across, columns, blocks, rank);
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
                    copy_stage<T, kColumns>(tiles + at.stage * Tile::kPitch, operands, place,
                                            kMayBeGated<T> && p.gate != nullptr, static_cast<int>(place.first + step * kDepth),
                                            full + at.stage, rank);
                __syncwarp();
                at.advance(Tile::kStages);
            }
        }
    } else {
        take_registers<232>();
        const int group = warp / (kGroupThreads / 32);
        auto* const band = bands + warp * 16 * kBandPitch;
        if (kHasTotals<T> && group == 1) give_turn<kGroups * kGroupThreads>(0);
        for (int64_t index = blockIdx.x / blocks; index < count; index += gridDim.x / blocks) {
            const MatmulPlace place = find_group_place(p, index, down, across, columns, blocks, rank);
            if (place.end == 0) continue;
            const int64_t steps = (place.terms + kDepth - 1) / kDepth;
            Sum sums[kColumns / 2];
            if (steps == 0)
                for (int v = 0; v < kColumns / 2; ++v) sums[v] = 0;
            const int64_t row = place.row + 16 * warp;
            if constexpr (kHasTotals<T>) {
                add_totals<T, kColumns>(sums, p, tiles, full, empty, scales, at, steps, group, lane, blocks);
            } else if constexpr (sizeof(E) == 2) {
                const int rest = p.grouped == Grouped::kTerms ? static_cast<int>(place.terms % kDepth) : 0;
                const auto add = [&](auto a_is_wide, auto b_is_wide) {
                    add_terms<T, kColumns, decltype(a_is_wide)::value, decltype(b_is_wide)::value>(
                        sums, tiles, full, empty, at, steps, rest, group, lane, blocks);
                };
                constexpr std::true_type kWide;
                constexpr std::false_type kDeep;
                if (operands.a_is_wide)
                    operands.b_is_wide ? add(kWide, kWide) : add(kWide, kDeep);
                else
                    operands.b_is_wide ? add(kDeep, kWide) : add(kDeep, kDeep);
            } else {
                add_terms<T, kColumns, false, false>(sums, tiles, full, empty, at, steps, 0, group, lane, blocks);
            }
            store_sums<T, kColumns>(p, sums, band, place, row, lane, stores);
        }
        if (kHasTotals<T> && group == 0) wait_for_turn<kGroups * kGroupThreads>(0);  // the other warpgroup's last arrival
    }
    sync_cluster();  // peers may still arrive at this block's barriers
}

template <class E>
bool map_operand(TensorMap* map, const E* data, int64_t rows, int64_t k, int64_t pitch, int64_t batch, int64_t step,
                 bool is_wide, int box) {
    const int64_t length = is_wide ? rows : k, lines = is_wide ? k : rows;
    const bool has_batch = batch > 1 && step != 0;
    return pitch >= length && make_tensor_map(map, data, length, lines, pitch, has_batch ? batch : 1,
                                              has_batch ? step : pitch * lines, is_wide ? 64 : box);
}

// Whether vertically adjacent tiles form clusters of two: an odd count leaves one block idle.
bool shares_b(Grouped grouped, int64_t down) {
    constexpr int64_t kFewLeftIdle = 16;
    return grouped != Grouped::kRows && down > 1 && (down % 2 == 0 || down > kFewLeftIdle);
}

template <class T, int kColumns>
Status launch_groups(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    using E = matmul_element_t<T>;
    using Tile = GroupTile<T, kColumns>;
    const bool a_is_wide = p.a_at.column != 1, b_is_wide = p.b_at.row != 1;
    const int64_t a_batch = p.grouped == Grouped::kRows ? 1 : p.batch;
    const bool has_batch = p.grouped != Grouped::kTerms && p.batch > 1;
    const int64_t a_pitch = a_is_wide ? p.a_at.column : p.a_at.row, b_pitch = b_is_wide ? p.b_at.row : p.b_at.column;
    GroupOperands operands;
    operands.a_is_wide = a_is_wide;
    operands.b_is_wide = b_is_wide;
    operands.a_has_batch = has_batch && p.grouped != Grouped::kRows && p.a_at.step != 0;
    operands.b_has_batch = has_batch && p.b_at.step != 0;
    const int64_t a_count = operands.a_has_batch ? p.batch : 1, b_count = operands.b_has_batch ? p.batch : 1;
    if (!map_operand(&operands.a, p.a, p.m, p.k, a_pitch, a_count, p.a_at.step, a_is_wide, kGroupRows) ||
        !map_operand(&operands.b, p.b, p.n, p.k, b_pitch, b_count, p.b_at.step, b_is_wide, Tile::kHalf))
        return Status::kOk;
    operands.gate = operands.b;
    if (p.gate != nullptr &&
        !map_operand(&operands.gate, p.gate, p.n, p.k, b_pitch, b_count, p.b_at.step, b_is_wide, Tile::kHalf))
        return Status::kOk;
    const int64_t tiles_down = ceil_div<int64_t>(p.m, kGroupRows);
    operands.blocks = shares_b(p.grouped, tiles_down) ? 2 : 1;
    const int64_t down = ceil_div<int64_t>(tiles_down, operands.blocks);
    const int64_t across = ceil_div<int64_t>(p.n, columns_of(p, kColumns));
    int64_t count = 0;
    BK_TRY(count_tiles(operands.blocks > 1 ? down : count_down(p, kGroupRows), across, a_batch, &count));
    const auto kernel = group_kernel<T, kColumns>;
    const int64_t clusters = std::min(count, kMultiprocessors / operands.blocks);
    Grid grid{dim3(static_cast<unsigned>(clusters * operands.blocks)), dim3(kBlockThreads)};
    grid.cluster = static_cast<unsigned>(operands.blocks);
    grid.shared = Tile::kShared;
    *is_taken = true;
    return launch_kernel(launch, grid, kernel, p, operands, down, across, count, stores_of(p));
}

}  // namespace

// 256-column tiles read less, 128-column ones leave fewer SMs idle.
template <class T>
Status matmul_sm90a(const Launch& launch, const Matmul<T>& p, bool* is_taken) {
    using E = matmul_element_t<T>;
    const bool a_is_deep = p.a_at.column == 1, b_is_deep = p.b_at.row == 1;
    const bool is_possible = moves_by_16(p.a, p.a_at) && moves_by_16(p.b, p.b_at) && p.a_at.step >= 0 && p.b_at.step >= 0 &&
                             (p.gate == nullptr || moves_by_16(p.gate, p.b_at)) && (sizeof(E) == 2 || (a_is_deep && b_is_deep));
    const bool has_foreign_terms = p.grouped == Grouped::kTerms && (sizeof(E) != 2 || a_is_deep || b_is_deep);
    if (!is_possible || has_foreign_terms) return Status::kOk;
    if constexpr (sizeof(E) == 2 || kHasTotals<T>) {
        const int64_t batch = p.grouped == Grouped::kRows ? 1 : p.batch;
        const int64_t wide = ceil_div<int64_t>(p.m, kGroupRows) * ceil_div<int64_t>(p.n, columns_of(p, 256));
        if (p.n <= 128 || wide < ceil_div(kMultiprocessors, batch)) return launch_groups<T, 128>(launch, p, is_taken);
    }
    return launch_groups<T, 256>(launch, p, is_taken);
}

template Status matmul_sm90a(const Launch&, const Matmul<f16>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<bf16>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<tf32>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<tf32x3>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<e4m3>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<e5m2>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e4m3>>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e5m2>>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<int8_t>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<uint8_t>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<whole_sums<int8_t>>&, bool*);
template Status matmul_sm90a(const Launch&, const Matmul<whole_sums<uint8_t>>&, bool*);

}  // namespace bk
