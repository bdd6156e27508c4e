// SPDX-License-Identifier: Apache-2.0
// Pixel shuffle (Shi et al. 2016): [N, C r^2, H, W] <-> [N, C, H r, W r], big[n, c, h r + i, w r + j] = small[n, c r^2 + i r +
// j, h, w]. Both directions are copies that permute axes; a GPU moves blocks of 2 x 2 by vectors.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/copy/block_pairs.h"
#include "core/copy/copies.h"

namespace bk::image {

struct PixelBlocks {
    int32_t n, c, h, w, r;

    int64_t small_channels() const { return int64_t{c} * r * r; }
    int64_t big_height() const { return int64_t{h} * r; }
    int64_t big_width() const { return int64_t{w} * r; }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"c", c}, {"h", h}, {"w", w}}));
        if (r < 1) return fail(Status::kInvalidProblem, "r is %d, must be >= 1", r);
        const int64_t wide = r;
        const struct {
            const char* name;
            int64_t value, factor;
        } axes[] = {{"r", r, wide}, {"c", c, wide * wide}, {"h", h, wide}, {"w", w, wide}};
        for (const auto& axis : axes)
            if (axis.value > 0 && axis.factor > INT32_MAX / axis.value)
                return fail(Status::kInvalidProblem,
                            "%s is %lld: with r %d images would have 2^31 elements along an axis, or more than 2^47 bytes",
                            axis.name, static_cast<long long>(axis.value), r);
        return Status::kOk;
    }
    bool is_empty() const { return n == 0 || c == 0 || h == 0 || w == 0; }
    // The axes n, c, h, i, w, j; strides of the destination, then of the source.
    CopyLayout layout(bool to_big) const {
        const int64_t extents[6] = {n, c, h, r, w, r};
        const int64_t plane = int64_t{h} * w, wide = big_width(), image = int64_t{c} * r * r * plane;
        const int64_t big[6] = {image, plane * r * r, r * wide, wide, r, 1};
        const int64_t small[6] = {image, plane * r * r, w, r * plane, 1, plane};
        CopyLayout layout;
        for (int d = 0; d < 6; ++d) layout.append(extents[d], {to_big ? big[d] : small[d], to_big ? small[d] : big[d]});
        return layout;
    }
};

template <class T, bool kToBig>
struct PixelCopy {
    int32_t n, c, h, w, r;

    PixelBlocks blocks() const { return {n, c, h, w, r}; }
    int64_t small_channels() const { return blocks().small_channels(); }
    int64_t big_height() const { return blocks().big_height(); }
    int64_t big_width() const { return blocks().big_width(); }
    Work work() const { return blocks().is_empty() ? Work::kNone : Work::kAll; }
    Status check() const { return blocks().check(); }
    Status run(const T* input, T* output, const Launch& launch) const {
#if BK_CUDA
        const BlockPairs pairs{int64_t{n} * c, h, w};
        if (r == 2 && has_block_vectors(pairs, sizeof(T), input, output))
            return copy_block_pairs(launch, pairs, kToBig, sizeof(T), input, output);
#endif
        return copy_strided(launch, blocks().layout(kToBig), sizeof(T), input, output);
    }
};

template <class T>
struct PixelShuffle : PixelCopy<T, true> {};
template <class T>
struct PixelUnshuffle : PixelCopy<T, false> {};

}  // namespace bk::image
