// SPDX-License-Identifier: Apache-2.0
// The C++ functions under nvcc: a stream of CUDA's, a workspace of device memory in its order, elements of CUDA's types.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <baracuda/elementwise/unary.hpp>
#include <baracuda/segment.hpp>

static cudaStream_t of(baracuda::stream on) { return static_cast<cudaStream_t>(on.handle()); }

static void* allocate(void*, std::size_t bytes, baracuda::stream on) {
    void* memory = nullptr;
    return cudaMallocAsync(&memory, bytes, of(on)) == cudaSuccess ? memory : nullptr;
}

static void release(void*, void* memory, std::size_t, baracuda::stream on) { cudaFreeAsync(memory, of(on)); }

void sum(cudaStream_t stream, const float* x, const std::int32_t* ids, float* y, const __half* h, __half* negated) {
    baracuda::workspace scratch({allocate, release});
    baracuda::unsorted_segment_sum(6, 2, 4, x, ids, y, {stream, &scratch});
    baracuda::unary_neg(6, baracuda::elements<baracuda::f16>(h), baracuda::elements<baracuda::f16>(negated), {stream});
}
