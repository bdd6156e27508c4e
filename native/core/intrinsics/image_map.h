// SPDX-License-Identifier: Apache-2.0
// Tensor maps of images whose boxes are pixels under one tap of a filter (PTX ISA, "im2col mode"): TMA walks the windows of
// a convolution, so that no operand is copied into a matrix. sm_90 and newer.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/image_axis.h"
#include "core/intrinsics/tensor_map.h"
#include "core/platform.h"

namespace bk {

// Describes `images` images, `image_stride` elements apart, of axes depth, height, width and `channels` adjacent channels. A
// box is `pixels` windows, in row-major order, by 128 bytes of channels, with the 128-byte swizzle. Data and strides are
// aligned to 16 bytes. Returns false if no such map exists.
template <class E>
bool make_image_map(TensorMap* map, const E* data, int64_t channels, const ImageAxis (&axes)[kImageAxes], int64_t images,
                    int64_t image_stride, int pixels) {
    static void* known = nullptr;
    const auto encode =
        reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(driver_function("cuTensorMapEncodeIm2col", &known));
    if (encode == nullptr) return false;
    constexpr cuuint64_t kSize = sizeof(E);
    constexpr cuuint32_t kBoxBytes = 128;
    cuuint64_t extents[kImageAxes + 2] = {static_cast<cuuint64_t>(channels)}, byte_strides[kImageAxes + 1];
    int lower[kImageAxes], upper[kImageAxes];
    cuuint32_t element_strides[kImageAxes + 2] = {1};
    const auto set_extent = [&](int i, int64_t extent, int64_t stride) {
        extents[i + 1] = static_cast<cuuint64_t>(extent);
        byte_strides[i] = extent <= 1 ? kBoxBytes : static_cast<cuuint64_t>(stride) * kSize;
    };
    for (int i = 0; i < kImageAxes; ++i) {
        const ImageAxis& axis = axes[kImageAxes - 1 - i];
        set_extent(i, axis.extent, axis.stride);
        lower[i] = static_cast<int>(axis.first);
        upper[i] = static_cast<int>(axis.first + (axis.windows - 1) * axis.step + 1 - axis.extent);
        element_strides[i + 1] = static_cast<cuuint32_t>(axis.step);
    }
    set_extent(kImageAxes, images, image_stride);
    element_strides[kImageAxes + 1] = 1;
    return encode_in_context([&] {
        return encode(map, tensor_type<E>(), kImageAxes + 2, const_cast<E*>(data), extents, byte_strides, lower, upper,
                      kBoxBytes / static_cast<cuuint32_t>(kSize), static_cast<cuuint32_t>(pixels), element_strides,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    });
}

// Position of a window's first tap.
struct ImagePixel {
    int width, height, depth, image;
};

// Offset of a tap from its window's first one.
struct TapOffset {
    uint16_t width, height, depth;
};

// Loads the box of windows from `pixel` on, `channel` and the channels behind it, at one tap; pixels outside are zeros.
BK_DEVICE void tma_load_image(void* to, const TensorMap& map, int channel, const ImagePixel& pixel, const TapOffset& tap,
                              uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10};" ::"r"(shared_address(to)),
        "l"(&map), "r"(channel), "r"(pixel.width), "r"(pixel.height), "r"(pixel.depth), "r"(pixel.image),
        "r"(shared_address(barrier)), "h"(tap.width), "h"(tap.height), "h"(tap.depth)
        : "memory");
}

// Loads it into each block of the cluster whose bit is set in `blocks`, at the same address.
BK_DEVICE void tma_load_image_multicast(void* to, const TensorMap& map, int channel, const ImagePixel& pixel,
                                        const TapOffset& tap, uint64_t* barrier, int blocks) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10}, %11;" ::"r"(shared_address(to)),
        "l"(&map), "r"(channel), "r"(pixel.width), "r"(pixel.height), "r"(pixel.depth), "r"(pixel.image),
        "r"(shared_address(barrier)), "h"(tap.width), "h"(tap.height), "h"(tap.depth), "h"(static_cast<uint16_t>(blocks))
        : "memory");
}

}  // namespace bk
