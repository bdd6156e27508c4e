// SPDX-License-Identifier: Apache-2.0
// Functions of each target: a pass, and the transforms that passes cannot do. R is the real type, float or double; x and y
// are arrays of what the forms of the pass say.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "fft/problem.h"

namespace bk {

struct FftCosineRows;

// Values of the longest transform of a pass on this device, without a workspace and with one of fft_tile_bytes for the tiles.
template <class R>
int64_t fft_most_values();
template <class R>
int64_t fft_most_tile_values();

// A GPU alone: whether one pass transforms whole fibers of n values, which also unpacks or packs pairs of real numbers.
template <class R>
bool fft_takes_fiber(int64_t n, bool packs);

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

// The CPU alone: on a GPU a pass of the transform unpacks or packs.
// Transforms of n / 2 pairs of real numbers, in y, become the n / 2 + 1 values of the Hermitian fibers of length n.
template <class R>
Status fft_unpack(const FftPass& fiber, void* y, const Launch& launch);
// Hermitian fibers x of length n become transforms, in y, of the n / 2 pairs of their real inverse, without a scale.
template <class R>
Status fft_pack(const FftPass& fiber, const void* x, void* y, const Launch& launch);

// A GPU alone: whether one pass computes these cosine transforms of dense rows, and that pass. y may be x.
template <class R>
bool fft_takes_cosine(const FftCosineRows& of);
template <class R>
Status fft_cosine_pass(const FftCosineRows& of, const R* x, R* y, const Launch& launch);

// A GPU alone: convolution of fibers of x, in segments, with filters. `spectra` are those of the filters, of n / 2 + 1 values
// over n. The axes of `lanes` have the strides of x and y, as positions those of spectra, and as rest the numbers of segments.
template <class R>
Status fft_convolve_pass(const FftPass& lanes, const FftSegments& of, const R* x, const R* spectra, R* y, const Launch& launch);

}  // namespace bk
