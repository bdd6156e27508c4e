// SPDX-License-Identifier: Apache-2.0
#include "core/segmented/sort_pairs.h"

#include <cub/device/device_radix_sort.cuh>
#include <utility>

namespace bk {

namespace {

int bits_of(uint32_t largest_key) {
    int bits = 1;
    while (bits < 32 && largest_key >> bits != 0) ++bits;
    return bits;
}

cudaError_t radix_sort(void* scratch, size_t* bytes, cub::DoubleBuffer<uint32_t>* keys, cub::DoubleBuffer<uint32_t>* values,
                       int64_t count, int bits, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, *keys, *values, static_cast<int>(count), 0, bits, stream);
}

}  // namespace

SortBuffers carve_sort(Carver* carver, int64_t count, uint32_t largest_key) {
    SortBuffers buffers{};
    for (int i = 0; i < 2; ++i) {
        buffers.keys[i] = carver->take<uint32_t>(count);
        buffers.values[i] = carver->take<uint32_t>(count);
    }
    cub::DoubleBuffer<uint32_t> keys(nullptr, nullptr), values(nullptr, nullptr);
    const bool clean = no_pending_error();
    // Without a device the size is 0; every launch would fail there anyway.
    if (radix_sort(nullptr, &buffers.scratch_bytes, &keys, &values, count, bits_of(largest_key), nullptr) != cudaSuccess &&
        clean)
        cudaGetLastError();
    buffers.scratch = carver->take<char>(static_cast<int64_t>(buffers.scratch_bytes));
    return buffers;
}

Status sort_pairs(const Launch& launch, SortBuffers* buffers, int64_t count, uint32_t largest_key) {
    cub::DoubleBuffer<uint32_t> keys(buffers->keys[0], buffers->keys[1]), values(buffers->values[0], buffers->values[1]);
    const bool clean = no_pending_error();
    BK_TRY(from_cuda(
        radix_sort(buffers->scratch, &buffers->scratch_bytes, &keys, &values, count, bits_of(largest_key), stream_of(launch)),
        clean, "radix sort"));
    if (keys.selector == 1) std::swap(buffers->keys[0], buffers->keys[1]);
    if (values.selector == 1) std::swap(buffers->values[0], buffers->values[1]);
    return Status::kOk;
}

}  // namespace bk
