// SPDX-License-Identifier: Apache-2.0
// Shared-memory layout of the strided kernels' tiles.
#pragma once

#include "core/pointwise/pointwise.h"

namespace bk {

// A tile consists of squares of kTile x kTile elements.
constexpr int kTile = 32;

// Tiles are column-major in shared memory with a pitch of an odd number of 32-bit words, which avoids bank conflicts. A
// tile has 2 x 2 squares if all inputs' tiles fit 48 KiB (16-bit or narrower) or 27 KiB (eight blocks per SM), else
// one.
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
constexpr bool kAre16Bit = false;
template <class... T>
constexpr bool kAre16Bit<Outputs<T...>> = ((sizeof(T) == 2) && ...);
template <class... T>
constexpr bool kAre16Bit<Inputs<T...>> = ((sizeof(T) == 2) && ...);

// Whether tiles can be accessed by pairs of 16-bit elements.
template <class Out, class In>
constexpr bool kByPairs = kAre16Bit<Out> && kAre16Bit<In> && TileOf<In>::side % 2 == 0;

}  // namespace bk
