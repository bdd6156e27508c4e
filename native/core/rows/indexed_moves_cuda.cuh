// A thread takes a few pieces of neighbours along the last axis: those of which plain and index are contiguous are
// loaded and stored as vectors, and rows that share an index move as words of up to 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/rows/indexed_moves.h"
#include "core/rows/scatter_moves.cuh"

namespace bk {

constexpr int kMoveThreads = 256;
constexpr int64_t kMostMoved = int64_t{1} << 30;  // places of a launch

// In pieces of N places; `placed_step` lies between neighbours of one piece.
struct IndexedWalk {
    LongWalk<3> offsets;
    uint32_t pieces;
    int64_t placed_step, extent, step;
};

template <class I>
BK_DEVICE bool is_inside(I index, int64_t extent) {
    const int64_t at = static_cast<int64_t>(index);
    return at >= 0 && at < extent;
}

template <bool kGathers, int N, int U, class W, class I>
__global__ void __launch_bounds__(kMoveThreads)
    indexed_move_kernel(std::conditional_t<kGathers, W, const W>* plain, const I* index,
                        std::conditional_t<kGathers, const W, W>* placed, const __grid_constant__ IndexedWalk walk) {
    const uint32_t first = blockIdx.x * (kMoveThreads * U) + threadIdx.x;
    int64_t offset[U][3];
    Vec<I, N> at[U];
    Vec<W, N> value[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const uint32_t piece = first + u * kMoveThreads;
        offset[u][0] = offset[u][1] = offset[u][2] = 0;
        if (piece >= walk.pieces) break;
        walk.offsets(piece, offset[u]);
        at[u] = load<N>(index + offset[u][1]);
        if constexpr (!kGathers) value[u] = load<N>(plain + offset[u][0]);
    }
    if constexpr (kGathers) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (first + u * kMoveThreads >= walk.pieces) break;
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (is_inside(at[u].lane[k], walk.extent))
                    value[u].lane[k] =
                        placed[offset[u][2] + k * walk.placed_step + static_cast<int64_t>(at[u].lane[k]) * walk.step];
        }
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
        if (first + u * kMoveThreads >= walk.pieces) break;
        bool inside[N], all = true;
#pragma unroll
        for (int k = 0; k < N; ++k) all = (inside[k] = is_inside(at[u].lane[k], walk.extent)) && all;
        if constexpr (kGathers) {
            if (all) {
                store_once<N>(plain + offset[u][0], value[u]);
                continue;
            }
        }
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if (!inside[k]) continue;
            if constexpr (kGathers)
                plain[offset[u][0] + k] = value[u].lane[k];
            else
                placed[offset[u][2] + k * walk.placed_step + static_cast<int64_t>(at[u].lane[k]) * walk.step] =
                    value[u].lane[k];
        }
    }
}

// Whether pieces of N places can be loaded and stored as vectors.
template <int N, class W, class I>
bool moves_vectors(const IndexedAxes& axes, const W* plain, const I* index) {
    const Layout<3>& at = axes.places;
    const int last = at.rank - 1;
    if (last < 0 || at.stride[0][last] != 1 || at.stride[1][last] != 1 || at.extent[last] % N != 0) return false;
    for (int d = 0; d < last; ++d)
        if (at.stride[0][d] % N != 0 || at.stride[1][d] % N != 0) return false;
    return is_aligned(plain, sizeof(W) * N) && is_aligned(index, sizeof(I) * N);
}

template <bool kGathers, int N, class W, class I>
Status launch_move(const Launch& launch, const IndexedAxes& axes, std::conditional_t<kGathers, W, const W>* plain,
                   const I* index, std::conditional_t<kGathers, const W, W>* placed) {
    constexpr int unroll = N == 1 ? 4 : 2;
    Layout<3> places = axes.places;
    const int last = places.rank - 1;
    const int64_t placed_step = last < 0 ? 0 : places.stride[2][last];
    if (N > 1) {
        places.extent[last] /= N;
        for (auto& stride : places.stride) stride[last] *= N;
    }
    const int64_t pieces = places.numel(), blocks = ceil_div<int64_t>(pieces, kMoveThreads * unroll);
    const IndexedWalk walk{LongWalk<3>(places), static_cast<uint32_t>(pieces), placed_step, axes.extent, axes.step};
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kMoveThreads)},
                         indexed_move_kernel<kGathers, N, unroll, W, I>, plain, index, placed, walk);
}

// run(axes, plain, index, placed) of parts that are small enough for a launch.
template <class P, class I, class Q, class Run>
Status move_in_parts(IndexedAxes axes, P* plain, const I* index, Q* placed, const Run& run) {
    if (axes.places.numel() <= kMostMoved) return run(axes, plain, index, placed);
    int widest = 0;
    for (int d = 1; d < axes.places.rank; ++d)
        if (axes.places.extent[d] > axes.places.extent[widest]) widest = d;
    // Parts of all but the last axis are as aligned as the whole; of that axis at the vectors' ends.
    const int64_t extent = axes.places.extent[widest], half = extent > 512 ? extent / 2 / 256 * 256 : extent / 2;
    axes.places.extent[widest] = half;
    BK_TRY(move_in_parts(axes, plain, index, placed, run));
    axes.places.extent[widest] = extent - half;
    return move_in_parts(axes, plain + half * axes.places.stride[0][widest], index + half * axes.places.stride[1][widest],
                         placed + half * axes.places.stride[2][widest], run);
}

template <bool kGathers, class P, class I, class Q>
Status move_along(const Launch& launch, const IndexedAxes& given, P* plain, const I* index, Q* placed) {
    IndexedAxes axes = given;
    axes.places = collapse(given.places);
    return move_in_parts(axes, plain, index, placed, [&](const IndexedAxes& part, P* to, const I* by, Q* from) {
        return with_widest_words(part, to, from, [&](const IndexedAxes& words, auto* word_plain, auto* word_placed) {
            using W = std::remove_const_t<std::remove_pointer_t<decltype(word_plain)>>;
            constexpr int widest = sizeof(W) > sizeof(I) ? sizeof(W) : sizeof(I), N = kVectorBytes / widest;
            if constexpr (N > 1)
                if (moves_vectors<N>(words, word_plain, by))
                    return launch_move<kGathers, N, W>(launch, words, word_plain, by, word_placed);
            return launch_move<kGathers, 1, W>(launch, words, word_plain, by, word_placed);
        });
    });
}

template <class Bits, class I>
Status gather_along(const Launch& launch, const IndexedAxes& axes, Bits* plain, const I* index, const Bits* placed) {
    return move_along<true>(launch, axes, plain, index, placed);
}

// --- one target for several places ------------------------------------------------------------------------------------

// Of plain, index, placed, a place's own number along the axis, and the cells' owners.
struct OwnedWalk {
    LongWalk<5> offsets;
    uint32_t places;
    int64_t extent, step, owner_step, first;  // first: number of the part's first place along the axis
};

template <class Owner, class I>
__global__ void __launch_bounds__(kMoveThreads)
    mark_owner_kernel(const I* index, Owner* owner, const __grid_constant__ OwnedWalk walk) {
    const uint32_t place = blockIdx.x * kMoveThreads + threadIdx.x;
    if (place >= walk.places) return;
    int64_t offset[5] = {};
    walk.offsets(place, offset);
    const I at = index[offset[1]];
    if (is_inside(at, walk.extent))
        atomicMax(owner + offset[4] + static_cast<int64_t>(at) * walk.owner_step, static_cast<Owner>(walk.first + offset[3]));
}

template <class Owner, class Bits, class I>
__global__ void __launch_bounds__(kMoveThreads) move_owned_kernel(const Bits* plain, const I* index, Bits* placed,
                                                                  const Owner* owner, const __grid_constant__ OwnedWalk walk) {
    const uint32_t place = blockIdx.x * kMoveThreads + threadIdx.x;
    if (place >= walk.places) return;
    int64_t offset[5] = {};
    walk.offsets(place, offset);
    const I at = index[offset[1]];
    if (is_inside(at, walk.extent) &&
        owner[offset[4] + static_cast<int64_t>(at) * walk.owner_step] == static_cast<Owner>(walk.first + offset[3]))
        placed[offset[2] + static_cast<int64_t>(at) * walk.step] = plain[offset[0]];
}

template <class Owner>
size_t scatter_workspace(int64_t cells) {
    Carver carver;
    carver.take<Owner>(cells);
    return carver.bytes();
}

// Places along all axes, `first` the number of the first of them along the axis.
template <class Run>
Status owned_in_parts(Layout<5> places, const int64_t (&from)[5], const Run& run) {
    if (places.numel() <= kMostMoved) return run(places, from);
    int widest = 0;
    for (int d = 1; d < places.rank; ++d)
        if (places.extent[d] > places.extent[widest]) widest = d;
    const int64_t extent = places.extent[widest], half = extent / 2;
    int64_t next[5];
    for (int k = 0; k < 5; ++k) next[k] = from[k] + half * places.stride[k][widest];
    places.extent[widest] = half;
    BK_TRY(owned_in_parts(places, from, run));
    places.extent[widest] = extent - half;
    return owned_in_parts(places, next, run);
}

template <class Owner, class Bits, class I>
Status scatter_owned(const Launch& launch, const IndexedAxes& axes, int axis, const Bits* plain, const I* index, Bits* placed,
                     Owner* owner, int64_t cells) {
    Layout<5> places;
    int64_t owner_stride[8], cell = 1;
    for (int d = axes.places.rank - 1; d >= 0; --d) {
        owner_stride[d] = cell;
        cell *= d == axis ? axes.extent : axes.places.extent[d];
    }
    for (int d = 0; d < axes.places.rank; ++d)
        places.append(axes.places.extent[d], {axes.places.stride[0][d], axes.places.stride[1][d], axes.places.stride[2][d],
                                              d == axis, d == axis ? 0 : owner_stride[d]});
    places = collapse(places);
    BK_TRY(fill_bytes(launch, owner, 0xff, sizeof(Owner) * static_cast<size_t>(cells)));
    for (const bool marks : {true, false}) {
        const auto run = [&](const Layout<5>& part, const int64_t (&from)[5]) {
            const int64_t count = part.numel();
            const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(count, kMoveThreads))), dim3(kMoveThreads)};
            const OwnedWalk walk{LongWalk<5>(part), static_cast<uint32_t>(count), axes.extent,
                                 axes.step,         owner_stride[axis],           from[3]};
            if (marks) return launch_kernel(launch, grid, mark_owner_kernel<Owner, I>, index + from[1], owner + from[4], walk);
            return launch_kernel(launch, grid, move_owned_kernel<Owner, Bits, I>, plain + from[0], index + from[1],
                                 placed + from[2], owner + from[4], walk);
        };
        BK_TRY(owned_in_parts(places, {0, 0, 0, 0, 0}, run));
    }
    return Status::kOk;
}

template <class Owner, class Bits, class I>
Status scatter_along(const Launch& launch, const IndexedAxes& axes, int axis, const Bits* plain, const I* index, Bits* placed) {
    int64_t cells = axes.extent;
    for (int d = 0; d < axes.places.rank; ++d) cells *= d == axis ? 1 : axes.places.extent[d];
    const bool found = workspace_holds(launch, scatter_workspace<Owner>(cells));
    const LineMoves lines = LineMoves::of<Bits>(axes);
    if (lines.lines > 0) return move_lines(launch, lines, plain, index, placed);
    if (!found) return move_along<false>(launch, axes, plain, index, placed);
    Carver carver(launch.workspace);
    Owner* const owner = carver.take<Owner>(cells);
    return scatter_owned(launch, axes, axis, plain, index, placed, owner, cells);
}

}  // namespace bk
