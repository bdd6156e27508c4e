// SPDX-License-Identifier: Apache-2.0
// Functions of each target: a pass, and the transforms that passes cannot do. R is the real type, float or double; x and y
// are arrays of what the forms of the pass say.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "fft/problem.h"

namespace bk {

// Values of the longest transform of a pass on this device, without a workspace and with one of fft_tile_bytes for the tiles.
template <class R>
int64_t fft_most_values();
template <class R>
int64_t fft_most_tile_values();

// Bytes that transforms of n > fft_most_values() values need, in a pass over `lanes` of them.
template <class R>
int64_t fft_tile_bytes(int64_t n, int64_t lanes);

template <class R>
Status fft_pass(const FftPass& pass, const void* x, void* y, void* tiles, const Launch& launch);

// A whole fiber of any length from its definition, with N^2 products. x and y do not overlap; forms as in a pass.
template <class R>
Status fft_direct(const FftPass& fiber, const void* x, void* y, const Launch& launch);

// Moves the values of each fiber of y, which a split transform left in the order of its parts, into their positions.
template <class R>
Status fft_unscramble(const FftPass& fiber, const FftParts& parts, void* y, const Launch& launch);

// The GPU alone: chunks of a convolution y[k] = c[k + start] of fibers of `inputs` numbers with filters of `taps`.
struct FftChunks {
    int64_t inputs, taps, start, outputs;
    int64_t valid;  // results of a chunk
};

// The lanes of the pass are pairs of chunks, numbered by an axis's `rest`; its transforms have taps + valid - 1 values, and
// `position` leads to the filter's spectrum, which is divided by their number.
template <class R>
Status fft_convolve_chunks(const FftPass& pass, const FftChunks& chunks, const R* x, const R* spectra, R* y,
                           const Launch& launch);

// The CPU alone: a GPU's passes move as many bytes for real fibers as for complex ones of half the length.
// Transforms of n / 2 pairs of real numbers, in y, become the n / 2 + 1 values of the Hermitian fibers of length n.
template <class R>
Status fft_unpack(const FftPass& fiber, void* y, const Launch& launch);
// Hermitian fibers x of length n become transforms, in y, of the n / 2 pairs of their real inverse, without a scale.
template <class R>
Status fft_pack(const FftPass& fiber, const void* x, void* y, const Launch& launch);

}  // namespace bk
