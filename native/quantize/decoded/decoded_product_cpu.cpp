// SPDX-License-Identifier: Apache-2.0
// The GEMM of decoded weights on the CPU.
#include "quantize/decoded/decoded_product.h"

#include "gemm/matmul.h"
#include "gemm/matmul_cpu.h"

namespace bk {

// Rows of x up to which multiplying by codes is faster: decoding costs as much as 16 to 24 rows, on AVX-512 with two threads.
constexpr int64_t kCodedRows = 32;

template <class T>
bool prefers_decoding(const DecodedProduct& p) {
    return p.backend == kDecodedBackend || p.m > kCodedRows;
}

template <class T>
size_t decoded_gemm_workspace(const DecodedProduct& p) {
    return matmul_workspace<T>({p.m, p.n, p.k, 1});
}

template <class T>
Status multiply_decoded(const Launch& launch, const DecodedProduct& p, const T* x, const T* weights, const T* bias, T* y,
                        bool* is_done) {
    *is_done = true;
    const MatrixStrides y_at{p.n, 1, 0};
    const Epilogue<T> epilogue{nullptr, y, bias, y_at, y_at, 1, 0, BiasType::kElement, Activation::kNone};
    return matmul(launch, Matmul<T>{p.m, p.n, p.k, 1, x, weights, {p.k, 1, 0}, {1, p.k, 0}, epilogue});
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
