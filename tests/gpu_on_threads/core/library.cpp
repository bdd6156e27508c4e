// SPDX-License-Identifier: Apache-2.0
// Non-template parts of the CUDA library for kernels on fibers: copies as they are, and replacements for NVIDIA's own
// code.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/copy/block_pairs.cu"
#include "core/copy/copies.cu"
#include "core/copy/im2col.cu"
#include "core/copy/row_copies.cu"
#include "core/segmented/sort_pairs.h"
#include "core/sort/sort_rows.cu"
#include "core/topk/top_k_16bit.cu"
#include "core/topk/top_k_32bit.cu"
#include "core/topk/top_k_64bit.cu"
#include "core/topk/top_k_8bit.cu"
#include "core/vendor/vendor_cpu.cpp"
#include "gemm/cublaslt/cublaslt.h"

// Newton's method from Winitzki's approximation, on erfc where 1 - |x| is exact.
double erfinv(double x) {
    const double complement = 1 - std::fabs(x);
    if (!(complement > 0) || x == 0) return complement == 0 ? std::copysign(INFINITY, x) : complement < 0 ? NAN : x;
    const double a = 0.147, log = std::log1p(-x * x), t = 2 / (M_PI * a) + log / 2;
    double y = std::sqrt(std::sqrt(t * t - log / a) - t);
    for (int step = 0; step < 6; ++step) {
        const double miss = complement < 0.5 ? complement - std::erfc(y) : std::erf(y) - std::fabs(x);
        y -= miss * std::sqrt(M_PI) / 2 * std::exp(y * y);
    }
    return std::copysign(y, x);
}
float erfinvf(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }

namespace bk {

SortBuffers carve_sort(Carver* carver, int64_t count, uint32_t) {
    SortBuffers buffers{};
    for (int i = 0; i < 2; ++i) {
        buffers.keys[i] = carver->take<uint32_t>(count);
        buffers.values[i] = carver->take<uint32_t>(count);
    }
    buffers.scratch = carver->take<char>(buffers.scratch_bytes = 256);
    return buffers;
}

Status sort_pairs(const Launch& launch, SortBuffers* buffers, int64_t count, uint32_t largest_key) {
    const SortBuffers of = *buffers;
    std::swap(buffers->keys[0], buffers->keys[1]);
    std::swap(buffers->values[0], buffers->values[1]);
    const auto sort = [of, count, largest_key] {
        const uint32_t* const keys = of.keys[0];
        std::vector<uint32_t> order(static_cast<size_t>(count));
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(), [keys](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
        for (size_t i = 0; i < order.size(); ++i) {
            if (keys[i] > largest_key) fibers::die("a key is larger than the caller says");
            of.keys[1][i] = keys[order[i]];
            of.values[1][i] = of.values[0][order[i]];
        }
    };
    return submitted(device::submit(launch.stream, sort), "sort");
}

size_t library_workspace(int64_t, int64_t, int64_t) { return 0; }
bool has_library() { return false; }
Status require_library() { return fail(Status::kUnsupported, "there is no cuBLASLt"); }

bool matmul_by_library(const Launch&, const LibraryMatmul&, void*) { return false; }

}  // namespace bk
