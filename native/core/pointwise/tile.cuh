// Shared memory of the strided kernels' tiles.
#pragma once

#include "core/pointwise/pointwise.h"

namespace bk {

// Tiles consist of squares of kTile rows and columns.
constexpr int kTile = 32;

// A tile's columns lie one after another in shared memory, an odd number of 32-bit words apart against bank conflicts; it has
// 2 * 2 squares for operands of 16 bits or fewer, and where 8 blocks with those of all inputs fit a multiprocessor, else 1.
template <class In>
struct TileOf;
template <class... T>
struct TileOf<Inputs<T...>> {
    template <class U, int Side>
    static constexpr int pitch_of = Side * kTile + (sizeof(U) < 4 ? 4 / static_cast<int>(sizeof(U)) : 1);
    template <int Side>
    static constexpr int bytes_of =
        (0 + ... + ((static_cast<int>(sizeof(T)) * Side * kTile * pitch_of<T, Side> + 15) / 16 * 16));
    static constexpr int side = bytes_of<2> <= (Inputs<T...>::widest <= 2 ? 48 : 27) * 1024 ? 2 : 1;
    template <class U>
    static constexpr int pitch = pitch_of<U, side>;
    static constexpr int bytes = bytes_of<side>;
};

template <class Operands>
constexpr bool kAreHalves = false;
template <class... T>
constexpr bool kAreHalves<Outputs<T...>> = ((sizeof(T) == 2) && ...);
template <class... T>
constexpr bool kAreHalves<Inputs<T...>> = ((sizeof(T) == 2) && ...);

// Whether tiles can be accessed by pairs of 16-bit neighbours.
template <class Out, class In>
constexpr bool kByPairs = kAreHalves<Out> && kAreHalves<In> && TileOf<In>::side % 2 == 0;

}  // namespace bk
