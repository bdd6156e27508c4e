// SPDX-License-Identifier: Apache-2.0
// Convolutions whose channels are planes: the GEMM that Hopper's kernels get, computed by plain loops.
#define BK_FIBER_CLUSTERS  // sm_90
#define BK_HAS_SM90a 1

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "conv/conv_cuda.cuh"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

Status copy_strided(const Launch&, const CopyLayout&, int, const void*, void*) {
    return fail(Status::kInternal, "operands are copied");
}

int calls = 0;

template <class T>
Status matmul_sm90a(const Launch&, const Matmul<T>& p, int) {
    ++calls;
    for (int64_t g = 0; g < p.batch; ++g)
        for (int64_t i = 0; i < p.m; ++i)
            for (int64_t j = 0; j < p.n; ++j) {
                float sum = 0;
                for (int64_t k = 0; k < p.k; ++k)
                    sum += widen(p.a_at.matrix(p.a, g)[i * p.a_at.row + k * p.a_at.column]) *
                           widen(p.b_at.matrix(p.b, g)[k * p.b_at.row + j * p.b_at.column]);
                p.epilogue.store_one(g, i, j, sum);
            }
    return Status::kOk;
}

template <class T>
Status conv_sm90a(const Launch&, const ConvWgmma<T>&, const Epilogue<T>&) {
    return fail(Status::kInternal, "windows are loaded");
}

BK_CONV(bf16)

constexpr int64_t kImages = 64, kIn = 64, kOut = 128, kPixels = 192;
constexpr float kAlpha = 0.5f, kBeta = 2;

// Elements aligned for TMA: multiples of 1/8 between -1 and 1.
struct Elements {
    std::vector<Vec<bf16, 128>> memory;

    Elements(int64_t count, int64_t seed) : memory(static_cast<size_t>(ceil_div<int64_t>(count, 128))) {
        for (int64_t i = 0; i < count; ++i) data()[i] = narrow<bf16>(static_cast<float>((i * 7 + i / 11 + seed) % 17 - 8) / 8);
    }
    bf16* data() { return memory.front().lane; }
    float operator[](int64_t i) { return widen(data()[i]); }
};

bool run(ConvDirection direction) {
    ConvShape s;
    s.batch = kImages;
    s.c_in = kIn;
    s.c_out = kOut;
    s.axis[1].in = s.axis[1].out = 6;
    s.axis[2].in = s.axis[2].out = kPixels / 6;
    s.set_layout(ConvLayout::kChannelsFirst);
    Elements x(kImages * kIn * kPixels, 1), dy(kImages * kOut * kPixels, 5), w(kOut * kIn, 3), bias(kOut, 2),
        c(kImages * kOut * kPixels, 4), result(kImages * kOut * kPixels, 0);
    std::vector<Vec<float, 64>> space(1 << 14);
    const Launch launch{space.data(), space.size() * sizeof(space[0]), nullptr};
    ConvEpilogue<bf16> e;
    e.alpha = kAlpha;
    e.beta = kBeta;
    e.c = c.data();
    e.bias = bias.data();
    calls = 0;
    Status status = Status::kOk;
    if (direction == ConvDirection::kForward)
        status = conv_forward<bf16>(launch, s, x.data(), w.data(), result.data(), e);
    else if (direction == ConvDirection::kBackwardData)
        status = conv_backward_data<bf16>(launch, s, dy.data(), w.data(), result.data(), e);
    else
        status = conv_backward_filter<bf16>(launch, s, x.data(), dy.data(), result.data(), kAlpha, 0);
    if (status != Status::kOk || calls != 1) return false;

    const auto is_near = [&](int64_t at, float sum, float more) {
        const float want = kAlpha * sum + more;
        return std::abs(result[at] - want) <= std::abs(want) / 128;
    };
    const bool is_filter = direction == ConvDirection::kBackwardFilter, is_forward = direction == ConvDirection::kForward;
    const int64_t rows = is_forward || is_filter ? kOut : kIn;
    for (int64_t n = 0; n < (is_filter ? 1 : kImages); ++n)
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t column = 0; column < (is_filter ? kIn : kPixels); ++column) {
                float sum = 0;
                const int64_t at = is_filter ? row * kIn + column : (n * rows + row) * kPixels + column;
                if (is_filter) {
                    for (int64_t image = 0; image < kImages; ++image)
                        for (int64_t q = 0; q < kPixels; ++q)
                            sum += dy[(image * kOut + row) * kPixels + q] * x[(image * kIn + column) * kPixels + q];
                } else if (is_forward) {
                    for (int64_t i = 0; i < kIn; ++i) sum += x[(n * kIn + i) * kPixels + column] * w[row * kIn + i];
                } else {
                    for (int64_t k = 0; k < kOut; ++k) sum += dy[(n * kOut + k) * kPixels + column] * w[k * kIn + row];
                }
                if (!is_near(at, sum, is_filter ? 0 : kBeta * c[at] + bias[row])) return false;
            }
    return true;
}

}  // namespace bk

int main() {
    using bk::ConvDirection;
    for (const auto direction : {ConvDirection::kForward, ConvDirection::kBackwardData, ConvDirection::kBackwardFilter})
        if (!bk::run(direction)) {
            printf("direction %d is wrong\n", static_cast<int>(direction));
            return 1;
        }
    puts("ok");
}
