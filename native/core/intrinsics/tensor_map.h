// SPDX-License-Identifier: Apache-2.0
// Tensor maps (CUtensorMap) that TMA loads take. The driver encodes them; its function is looked up at run time, not
// linked.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "core/abi/launch_cuda.h"
#include "core/types/dtype.h"

namespace bk {

using TensorMap = CUtensorMap;

template <class E>
constexpr CUtensorMapDataType tensor_type() {
    if (sizeof(E) == 1) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    if (sizeof(E) == 4) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    return std::is_same_v<E, bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

// Looks the driver's function up once, as `known`; null if the driver lacks it.
inline void* driver_function(const char* name, void** known) {
    void* found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (found == nullptr) {
        const bool clean = no_pending_error();
        cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
        const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
        const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
        if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) found = nullptr;
        if (error != cudaSuccess && clean) cudaGetLastError();
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found;
}

inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
    static void* known = nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled", &known));
}

// Whether `encode` succeeds. The driver wants a current context, which a thread has not whose first call this is:
// cudaSetDevice makes the device's primary context current (from CUDA 12 on).
template <class F>
bool encode_in_context(const F& encode) {
    if (encode() == CUDA_SUCCESS) return true;
    const bool clean = no_pending_error();
    int device = 0;
    const bool is_current = cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
    if (!is_current && clean) cudaGetLastError();
    return is_current && encode() == CUDA_SUCCESS;
}

// Describes `count` matrices of outer x inner elements; data, `pitch` and `step` are aligned to 16 bytes. A box has
// `box_outer` rows of 128 bytes with the 128-byte swizzle, or of another multiple of 16 bytes without one. Returns
// false if no such map exists.
template <class E>
bool make_tensor_map(TensorMap* map, const E* data, int64_t inner, int64_t outer, int64_t pitch, int64_t count, int64_t step,
                     int box_outer, int inner_bytes = 128) {
    const auto encode = tensor_map_encoder();
    if (encode == nullptr) return false;
    constexpr cuuint64_t kSize = sizeof(E), kMaxOperandBytes = cuuint64_t(1) << 40;
    const cuuint64_t extents[] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(outer),
                                  static_cast<cuuint64_t>(count)};
    const cuuint64_t byte_strides[] = {static_cast<cuuint64_t>(pitch) * kSize, static_cast<cuuint64_t>(step) * kSize};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(inner_bytes / kSize), static_cast<cuuint32_t>(box_outer), 1},
                     element_strides[] = {1, 1, 1};
    if (byte_strides[0] == 0 || byte_strides[1] == 0 || byte_strides[0] >= kMaxOperandBytes ||
        byte_strides[1] >= kMaxOperandBytes)
        return false;
    const auto swizzle = inner_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;
    return encode_in_context([&] {
        return encode(map, tensor_type<E>(), 3, const_cast<E*>(data), extents, byte_strides, box, element_strides,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    });
}

// One axis of a tensor of four: its extent and its stride in elements.
struct TensorMapAxis {
    int64_t extent, stride;
};

// Describes [outer[2]][outer[1]][outer[0]][inner] elements; a box has box_rows of outer[0], 128 bytes of each with the
// 128-byte swizzle. Data and strides are aligned to 16 bytes; an axis of extent 1 may have any stride. Returns false if no
// such map exists.
template <class E>
bool make_tensor_map(TensorMap* map, const E* data, int64_t inner, const TensorMapAxis (&outer)[3], int box_rows) {
    const auto encode = tensor_map_encoder();
    if (encode == nullptr) return false;
    constexpr cuuint64_t kSize = sizeof(E), kMaxOperandBytes = cuuint64_t(1) << 40;
    constexpr cuuint32_t kBoxBytes = 128;
    cuuint64_t extents[4] = {static_cast<cuuint64_t>(inner)}, byte_strides[3];
    for (int axis = 0; axis < 3; ++axis) {
        const bool is_single = outer[axis].extent <= 1;
        extents[axis + 1] = is_single ? 1 : static_cast<cuuint64_t>(outer[axis].extent);
        byte_strides[axis] = is_single ? kBoxBytes : static_cast<cuuint64_t>(outer[axis].stride) * kSize;
        if (byte_strides[axis] == 0 || byte_strides[axis] % 16 != 0 || byte_strides[axis] >= kMaxOperandBytes) return false;
    }
    const cuuint32_t box[] = {kBoxBytes / static_cast<cuuint32_t>(kSize), static_cast<cuuint32_t>(box_rows), 1, 1},
                     element_strides[] = {1, 1, 1, 1};
    return encode_in_context([&] {
        return encode(map, tensor_type<E>(), 4, const_cast<E*>(data), extents, byte_strides, box, element_strides,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    });
}

}  // namespace bk
