// SPDX-License-Identifier: Apache-2.0
// Shared by the scan kernels: launch geometry, element order within vectors, adding one element to a state.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/layout/long_walk.h"
#include "core/scan/scan.h"
#include "core/types/vec.h"

namespace bk {

// Without a workspace a split row takes one launch (kSingle: one block a row) or a reduce and a scan launch.
enum class ScanPass { kSingle, kReduce, kScan };

template <int Operands>
struct ScanGrid {
    LongWalk<Operands> row;
    int64_t step[Operands];
    uint32_t rows;
    int64_t length, split_length;  // split_length: elements of a row that one block scans
    int width, warps;              // lanes and warps that share a row, powers of two; warps > 1 only with all lanes
    int vectors;                   // per thread in a tile
    bool is_dense;                 // vector loads and stores apply
    int splits;                    // splits of a row; 1 with look-back
    ScanPass pass;
};

// The valid elements among N from `index` on. A whole tile (kWhole) needs no bounds check.
template <int N, bool kWhole>
BK_DEVICE int valid_count(int64_t index, int64_t end) {
    return kWhole || end - index >= N ? N : end > index ? static_cast<int>(end - index) : 0;
}

// Reverses the lanes if `reversed`; pairs of 16-bit lanes move as 32-bit words.
template <int N, class T>
BK_DEVICE Vec<T, N> reverse_if(bool reversed, const Vec<T, N>& x) {
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        struct Words {
            uint32_t word[N / 2];
        };
        const Words given = bit_cast<Words>(x);
        Words result;
#pragma unroll
        for (int w = 0; w < N / 2; ++w) {
            const uint32_t other = given.word[N / 2 - 1 - w];
            result.word[w] = reversed ? other >> 16 | other << 16 : given.word[w];
        }
        return bit_cast<Vec<T, N>>(result);
    } else {
        Vec<T, N> result;
#pragma unroll
        for (int i = 0; i < N; ++i) result.lane[i] = reversed ? x.lane[N - 1 - i] : x.lane[i];
        return result;
    }
}

// An operator may have extend(earlier, i, x...): earlier combined with element i, in fewer instructions.
template <class S, class Void, class... C>
constexpr bool kHasExtend = false;
template <class S, class... C>
constexpr bool kHasExtend<S,
                          std::void_t<decltype(std::declval<const S&>().extend(std::declval<const typename S::State&>(),
                                                                               int64_t{}, std::declval<C>()...))>,
                          C...> = true;

template <class S, class State = typename S::State, class... C>
BK_DEVICE State extend_state(const S& scan, const State& earlier, int64_t i, C... x) {
    if constexpr (kHasExtend<S, void, C...>)
        return scan.extend(earlier, i, x...);
    else
        return scan.combine(earlier, scan.lift(i, x...));
}

// Whether the operand has unit stride in the direction of the scan, and vectors of N are aligned in every row.
template <int N, class T, int Operands>
bool has_vectors(const ScanAxes<Operands>& axes, int operand, const T* first) {
    const bool reversed = axes.step[0] < 0;
    if (axes.step[operand] != (reversed ? -1 : 1)) return false;
    for (int d = 0; d < axes.rows.rank; ++d)
        if (axes.rows.stride[operand][d] % N != 0) return false;
    return is_aligned(reversed ? first - (N - 1) : first, sizeof(T) * N);
}

template <int N, int kLookaheadInput, int Operands, class... Out, class... In, size_t... O, size_t... I>
bool all_have_vectors(const ScanAxes<Operands>& axes, const Outputs<Out...>& out, const Inputs<In...>& in,
                      std::index_sequence<O...>, std::index_sequence<I...>) {
    return (has_vectors<N>(axes, O, get<O>(out.pointer)) && ...) &&
           ((kLookaheadInput == static_cast<int>(I) || has_vectors<N>(axes, sizeof...(Out) + I, get<I>(in.pointer))) && ...);
}

}  // namespace bk
