// SPDX-License-Identifier: Apache-2.0
// The GEMM of decoded weights on the GPU: cuBLASLt, wgmma, or tiles of 128 x 128 by mma.sync.
#include "quantize/decoded/decoded_product.h"

#include "gemm/choice_cuda.cuh"

namespace bk {

namespace {

// y = x weights^T + bias; both operands are K-major.
template <class T>
Matmul<T> gemm_of(const DecodedProduct& p, const T* x, const T* weights, const T* bias, T* y) {
    const MatrixStrides y_at{p.n, 1, 0};
    const Epilogue<T> epilogue{nullptr, y, bias, y_at, y_at, 1, 0, BiasType::kElement, Activation::kNone};
    return {p.m, p.n, p.k, 1, x, weights, {p.k, 1, 0}, {1, p.k, 0}, epilogue};
}

// Microseconds on an H200. Dequantisation and small GEMMs move 3 TB/s, cuBLASLt's large 16-bit GEMMs compute 600 TFLOP/s and
// f32 ones 45, a block of this library's wgmma tiles takes 0.46 us and one of mma.sync tiles twice that for 64 K elements, and
// the two launches 5 us more than one. 4096 x 14336 weights in q4_K are decoded for more than 32 rows of bf16, where two passes
// over the codes take 113 us, and decoding and GEMM 91.
constexpr double kBytesPerUs = 3.0e6, kFlopsPerUs = 6.0e8, kF32FlopsPerUs = 4.5e7, kTileUs = 0.46, kLaunchUs = 5;

double coded_us(const DecodedProduct& p) {
    const int64_t passes = ceil_div(p.m, p.passes.rows), full = passes - 1, last = p.m - full * p.passes.rows;
    const auto pass = [&](int64_t rows) { return p.passes.first + p.passes.further * static_cast<double>(rows - 1); };
    const double per_weight = static_cast<double>(full) * pass(p.passes.rows) + pass(last);
    const double blocks = static_cast<double>(ceil_div<int64_t>(p.n, 32) * passes), sms = static_cast<double>(kReferenceSms);
    return 1e-6 * per_weight * static_cast<double>(p.n) * static_cast<double>(p.k) * std::max(1.0, sms / blocks);
}

template <class T>
double decoded_us(const DecodedProduct& p) {
    const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k), size = sizeof(T);
    const double decode = (static_cast<double>(p.code_bytes) + size * n * k) / kBytesPerUs,
                 least = size * (n * k + m * k + m * n) / kBytesPerUs;
    double multiply = 2 * m * n * k / (std::is_same_v<T, float> ? kF32FlopsPerUs : kFlopsPerUs);
    if (!has_library()) {
        const int64_t tiles = ceil_div<int64_t>(p.m, 128) * ceil_div<int64_t>(p.n, 128);
        const bool is_wgmma = suits_wgmma<T>({p.m, p.n, p.k, 1}, device_arch());
        multiply = static_cast<double>(ceil_div(tiles, kReferenceSms)) * k / 64 * (is_wgmma ? kTileUs : 2 * kTileUs);
    }
    return kLaunchUs + decode + std::max(multiply, least);
}

}  // namespace

template <class T>
bool prefers_decoding(const DecodedProduct& p) {
    if (std::is_same_v<T, float> && !has_library()) return false;  // f32 has no tiles here
    return p.backend == kDecodedBackend || decoded_us<T>(p) < coded_us(p);
}

template <class T>
size_t decoded_gemm_workspace(const DecodedProduct& p) {
    return library_workspace(p.m, p.n, p.k);
}

template <class T>
Status multiply_decoded(const Launch& launch, const DecodedProduct& p, const T* x, const T* weights, const T* bias, T* y,
                        bool* is_done) {
    const Matmul<T> gemm = gemm_of(p, x, weights, bias, y);
    LibraryMatmul problem;
    *is_done = library_matmul(gemm, &problem) && matmul_by_library(launch, problem, launch.workspace);
    if (*is_done) return Status::kOk;
    if constexpr (!std::is_same_v<T, float>) {
        *is_done = true;
        const MatmulShape shape = shape_of(launch, gemm);
        const int arch = device_arch();
        if (shape.a.fits_tma && shape.b.fits_tma && suits_wgmma<T>(shape, arch))
            return wgmma_on<T>(arch)(launch, gemm, wgmma_columns<T>(shape));
        return launch_tiles<T, 128, LoadMode::kKMajor, LoadMode::kKMajor>(launch, gemm, {});
    }
    return Status::kOk;
}

#define BK_INSTANTIATE(T)                                             \
    template bool prefers_decoding<T>(const DecodedProduct&);         \
    template size_t decoded_gemm_workspace<T>(const DecodedProduct&); \
    template Status multiply_decoded(const Launch&, const DecodedProduct&, const T*, const T*, const T*, T*, bool*);
BK_INSTANTIATE(float)
BK_INSTANTIATE(f16)
BK_INSTANTIATE(bf16)
#undef BK_INSTANTIATE

}  // namespace bk
