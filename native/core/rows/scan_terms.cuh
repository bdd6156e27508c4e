// What the kernels of scans share: the grid of threads and rows, the order of lanes, how a term is added.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/pointwise/long_walk.h"
#include "core/rows/scan.h"
#include "core/types/vec.h"

namespace bk {

// Of rows in parts, without a workspace: a block takes all parts of a row, or one, of which it leaves what it comes to, or
// whose results it writes.
enum class ScanRole { kRow, kSum, kResults };

template <int Operands>
struct ScanGrid {
    LongWalk<Operands> row;
    int64_t step[Operands];
    uint32_t rows;
    int64_t length, part;  // part: terms of a row that a block scans
    int width, deep;       // lanes and warps that share a row, powers of two; several warps only of whole ones
    int vectors;           // of a thread in a tile
    bool is_dense;         // vectors may be loaded and stored as such
    int parts;             // of a row, of more than one its block's warps take each tile together; 1 where there is a chain
    ScanRole role;
};

// Of a whole tile all N terms of each vector exist, in all rows of the block: what asks for that is left out.
template <int N, bool kWhole>
BK_DEVICE int existing(int64_t place, int64_t end) {
    return kWhole || end - place >= N ? N : end > place ? static_cast<int>(end - place) : 0;
}

// The lanes in the opposite order where `turned`. Halves of words are moved by words.
template <int N, class T>
BK_DEVICE Vec<T, N> turned_if(bool turned, const Vec<T, N>& x) {
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        struct Words {
            uint32_t word[N / 2];
        };
        const Words given = bit_cast<Words>(x);
        Words result;
#pragma unroll
        for (int w = 0; w < N / 2; ++w) {
            const uint32_t other = given.word[N / 2 - 1 - w];
            result.word[w] = turned ? other >> 16 | other << 16 : given.word[w];
        }
        return bit_cast<Vec<T, N>>(result);
    } else {
        Vec<T, N> result;
#pragma unroll
        for (int i = 0; i < N; ++i) result.lane[i] = turned ? x.lane[N - 1 - i] : x.lane[i];
        return result;
    }
}

// Scans may have extend(earlier, i, x...), which is join(earlier, term(i, x...)) in fewer instructions.
template <class S, class Void, class... C>
constexpr bool kExtends = false;
template <class S, class... C>
constexpr bool kExtends<S,
                        std::void_t<decltype(std::declval<const S&>().extend(std::declval<const typename S::State&>(),
                                                                             int64_t{}, std::declval<C>()...))>,
                        C...> = true;

template <class S, class State = typename S::State, class... C>
BK_DEVICE State extended(const S& scan, const State& earlier, int64_t i, C... x) {
    if constexpr (kExtends<S, void, C...>)
        return scan.extend(earlier, i, x...);
    else
        return scan.join(earlier, scan.term(i, x...));
}

// Whether an operand is dense along the axis, walked as the others are, and its vectors of N are aligned in each row.
template <int N, class T, int Operands>
bool has_vectors(const ScanAxes<Operands>& axes, int operand, const T* first) {
    const bool turned = axes.step[0] < 0;
    if (axes.step[operand] != (turned ? -1 : 1)) return false;
    for (int d = 0; d < axes.rows.rank; ++d)
        if (axes.rows.stride[operand][d] % N != 0) return false;
    return is_aligned(turned ? first - (N - 1) : first, sizeof(T) * N);
}

template <int N, int kAhead, int Operands, class... Out, class... In, size_t... O, size_t... I>
bool all_have_vectors(const ScanAxes<Operands>& axes, const Outputs<Out...>& out, const Inputs<In...>& in,
                      std::index_sequence<O...>, std::index_sequence<I...>) {
    return (has_vectors<N>(axes, O, get<O>(out.pointer)) && ...) &&
           ((kAhead == static_cast<int>(I) || has_vectors<N>(axes, sizeof...(Out) + I, get<I>(in.pointer))) && ...);
}

}  // namespace bk
