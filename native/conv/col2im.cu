// SPDX-License-Identifier: Apache-2.0
// col2im_1d on the GPU: a thread adds the columns that reach its element of the image, in the order of taps.
#include <cstdint>

#include "conv/core.h"
#include "core/types/dtype.h"

namespace bk {

namespace {

constexpr int kCol2ImThreads = 256;

template <class T>
BK_DEVICE T col2im_1d_element(const Col2Im1d& p, const T* columns, int64_t i, T element) {
    compute_t<T> sum = 0;
    for (int64_t t = 0; t < p.taps; ++t) {
        const int64_t at = i + p.pad - t * p.dilation;
        if (at < 0 || at % p.step != 0 || at / p.step >= p.windows) continue;
        sum += widen(columns[t * p.windows + at / p.step]);
    }
    return narrow<T>(widen(element) + sum);
}

template <class T>
__global__ void __launch_bounds__(kCol2ImThreads)
    col2im_1d_kernel(const __grid_constant__ Col2Im1d p, const T* columns, T* image) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kCol2ImThreads + threadIdx.x;
    if (i >= p.extent) return;
    for (int64_t n = blockIdx.y; n < p.images; n += gridDim.y)
        image[n * p.extent + i] = col2im_1d_element(p, columns + n * p.taps * p.windows, i, image[n * p.extent + i]);
}

}  // namespace

template <class T>
Status add_col2im_1d(const Launch& launch, const Col2Im1d& p, const T* columns, T* image) {
    const int64_t blocks = ceil_div<int64_t>(p.extent, kCol2ImThreads), images = p.images < kMaxGridY ? p.images : kMaxGridY;
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(images)), dim3(kCol2ImThreads)};
    return launch_kernel(launch, grid, col2im_1d_kernel<T>, p, columns, image);
}

template Status add_col2im_1d<float>(const Launch&, const Col2Im1d&, const float*, float*);
template Status add_col2im_1d<double>(const Launch&, const Col2Im1d&, const double*, double*);
template Status add_col2im_1d<f16>(const Launch&, const Col2Im1d&, const f16*, f16*);
template Status add_col2im_1d<bf16>(const Launch&, const Col2Im1d&, const bf16*, bf16*);

}  // namespace bk
