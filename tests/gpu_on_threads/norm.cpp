// SPDX-License-Identifier: Apache-2.0
// Norm kernels on fibers (tests/gpu_on_threads/core): one-pass gradients of rows, and channel groups, against plain
// loops in double.
#define __CUDA_ARCH_LIST__ 800

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "arrays.h"
#include "core/abi/workspace.h"
#include "core/types/dtype.h"
#include "norm/channel/channel_norm.h"
#include "norm/channel/channel_norm_backward.h"
#include "norm/row_norm.h"
#include "norm/row_norm_backward.h"

namespace {

template <class T>
bool rows_backward(int64_t rows, int64_t n, bool centered, bool has_workspace) {
    Aligned<T> dy(rows * n, 1), x(rows * n, 7), gamma(n, 3), mean(rows, 5), scale(rows), dx(rows * n), dgamma(n), dbeta(n);
    for (int64_t r = 0; r < rows; ++r) scale.data()[r] = narrow<T>(0.5f + 0.25f * static_cast<float>(r % 5));
    const int32_t shape[] = {static_cast<int32_t>(rows), static_cast<int32_t>(n)};
    const int64_t full[] = {n, 1}, saved[] = {1, 1};
    const RowNormBackward<T> op{{rows * n, 2, shape, 2, shape[1]}, full, full, saved, full, centered};
    Aligned<char> workspace(static_cast<int64_t>(op.workspace_size()) + 16);
    const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? op.workspace_size() : 0, nullptr};
    const Status status = op.run(launch, dy.data(), x.data(), gamma.data(), centered ? mean.data() : nullptr, scale.data(),
                                 dx.data(), dgamma.data(), centered ? dbeta.data() : nullptr);
    if (status != Status::kOk) return false;
    std::vector<double> of_gamma(static_cast<size_t>(n)), of_beta = of_gamma;
    for (int64_t r = 0; r < rows; ++r) {
        const double s = centered ? scale.at(r) : 1 / scale.at(r), m = centered ? mean.at(r) : 0;
        double level = 0, slope = 0;
        for (int64_t j = 0; j < n; ++j) {
            const double h = dy.at(r * n + j) * gamma.at(j), xh = (x.at(r * n + j) - m) * s;
            level += centered ? h / static_cast<double>(n) : 0;
            slope += h * xh / static_cast<double>(n);
            of_gamma[static_cast<size_t>(j)] += dy.at(r * n + j) * xh;
            of_beta[static_cast<size_t>(j)] += dy.at(r * n + j);
        }
        for (int64_t j = 0; j < n; ++j) {
            const double h = dy.at(r * n + j) * gamma.at(j), xh = (x.at(r * n + j) - m) * s;
            if (!is_near("dx", dx.data()[r * n + j], s * (h - level - xh * slope), 200)) return false;
        }
    }
    for (int64_t j = 0; j < n; ++j) {
        const double size = 20 * static_cast<double>(rows);
        if (!is_near("dgamma", dgamma.data()[j], of_gamma[static_cast<size_t>(j)], size)) return false;
        if (centered && !is_near("dbeta", dbeta.data()[j], of_beta[static_cast<size_t>(j)], size)) return false;
    }
    return true;
}

// Forward and gradients, for both kinds of groups.
template <class T>
bool channels(int32_t items, int32_t count, int32_t spatial, int32_t parts, int32_t kind) {
    const int64_t all = int64_t{items} * count * spatial, groups = kind == 0 ? count : items * parts;
    const int64_t size = all / groups, width = kind == 0 ? 1 : count / parts;
    Aligned<T> x(all, 7), gamma(count, 3), beta(count, 9), y(all), mean(groups), rstd(groups);
    Aligned<T> dy(all, 1), dx(all), dgamma(count), dbeta(count);
    const ChannelNorm<T> op{items, count, spatial, parts, kind, 1e-3f};
    const ChannelNormBackward<T> gradient{items, count, spatial, parts, kind};
    Aligned<char> workspace(static_cast<int64_t>(op.workspace_size()) + 16);
    Aligned<char> scratch(static_cast<int64_t>(gradient.workspace_size()) + 16);
    const Launch launch{workspace.data(), op.workspace_size(), nullptr};
    const Launch second{scratch.data(), gradient.workspace_size(), nullptr};
    if (op.run(x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data(), launch) != Status::kOk) return false;
    if (gradient.run(dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), dx.data(), dgamma.data(), dbeta.data(),
                     second) != Status::kOk)
        return false;
    const auto channel_of = [&](int64_t i) { return i / spatial % count; };
    const auto group_of = [&](int64_t i) {
        return kind == 0 ? channel_of(i) : i / (int64_t{count} * spatial) * parts + channel_of(i) / width;
    };
    std::vector<double> sum(static_cast<size_t>(groups)), square = sum, level = sum, slope = sum;
    std::vector<double> of_gamma(static_cast<size_t>(count)), of_beta = of_gamma;
    const double numel = static_cast<double>(size);
    for (int64_t i = 0; i < all; ++i) sum[static_cast<size_t>(group_of(i))] += x.at(i) / numel;
    for (int64_t i = 0; i < all; ++i) {
        const size_t g = static_cast<size_t>(group_of(i)), c = static_cast<size_t>(channel_of(i));
        square[g] += (x.at(i) - sum[g]) * (x.at(i) - sum[g]) / numel;
        const double xh = (x.at(i) - mean.at(group_of(i))) * rstd.at(group_of(i)), h = dy.at(i) * gamma.at(channel_of(i));
        level[g] += h / numel;
        slope[g] += h * xh / numel;
        of_gamma[c] += dy.at(i) * xh;
        of_beta[c] += dy.at(i);
    }
    for (int64_t i = 0; i < all; ++i) {
        const size_t g = static_cast<size_t>(group_of(i));
        const int64_t c = channel_of(i);
        const double want = (x.at(i) - sum[g]) / std::sqrt(square[g] + 1e-3f) * gamma.at(c) + beta.at(c);
        if (!is_near("y", y.data()[i], want, 20)) return false;
        const double xh = (x.at(i) - mean.at(group_of(i))) * rstd.at(group_of(i)), h = dy.at(i) * gamma.at(c);
        if (!is_near("dx", dx.data()[i], rstd.at(group_of(i)) * (h - level[g] - xh * slope[g]), 100)) return false;
    }
    for (int64_t c = 0; c < count; ++c) {
        const double most = 20.0 * items * spatial;
        if (!is_near("dgamma", dgamma.data()[c], of_gamma[static_cast<size_t>(c)], most)) return false;
        if (!is_near("dbeta", dbeta.data()[c], of_beta[static_cast<size_t>(c)], most)) return false;
    }
    return true;
}

// Gradients that recompute the statistics against those that are given them.
bool recomputed(int32_t items, int32_t count, int32_t spatial, int32_t parts, int32_t kind) {
    const int64_t all = int64_t{items} * count * spatial, groups = kind == 0 ? count : items * parts;
    Aligned<float> dy(all, 1), x(all, 7), gamma(count, 3), y(all), mean(groups), rstd(groups), same_mean(groups),
        same_rstd(groups);
    Aligned<float> dx(all), dgamma(count), dbeta(count), same_dx(all), same_dgamma(count), same_dbeta(count);
    const ChannelNorm<float> op{items, count, spatial, parts, kind, 1e-3f};
    const ChannelNormBackward<float> given{items, count, spatial, parts, kind};
    const ChannelNormRecomputeBackward<float> found{items, count, spatial, parts, kind, 1e-3};
    Aligned<char> workspace(static_cast<int64_t>(found.workspace_size()) + 16);
    const Launch launch{workspace.data(), found.workspace_size(), nullptr}, alone{nullptr, 0, nullptr};
    if (op.run(x.data(), gamma.data(), nullptr, y.data(), mean.data(), rstd.data(), alone) != Status::kOk ||
        given.run(dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), dx.data(), dgamma.data(), dbeta.data(), alone) !=
            Status::kOk ||
        found.run(dy.data(), x.data(), gamma.data(), same_mean.data(), same_rstd.data(), same_dx.data(), same_dgamma.data(),
                  same_dbeta.data(), launch) != Status::kOk)
        return false;
    bool right = true;
    for (int64_t g = 0; g < groups; ++g)
        right = right && is_near("mean", same_mean.data()[g], mean.at(g), 10) &&
                is_near("rstd", same_rstd.data()[g], rstd.at(g), 10);
    for (int64_t i = 0; i < all; ++i) right = right && is_near("dx", same_dx.data()[i], dx.at(i), 100);
    for (int64_t c = 0; c < count; ++c)
        right = right && is_near("dgamma", same_dgamma.data()[c], dgamma.at(c), 20.0 * items * spatial) &&
                is_near("dbeta", same_dbeta.data()[c], dbeta.at(c), 20.0 * items * spatial);
    return right;
}

template <class T>
bool all_right(const char* name) {
    constexpr int64_t kRows[][2] = {{1, 8}, {70, 16}, {37, 64}, {9, 200}, {5, 1000}, {3, 2056}, {300, 24}, {2, 4100}, {5, 33}};
    bool right = true;
    for (const auto& shape : kRows)
        for (const bool centered : {false, true}) {
            if (rows_backward<T>(shape[0], shape[1], centered, true)) continue;
            printf("%s is wrong: %d rows of %d\n", name, static_cast<int>(shape[0]), static_cast<int>(shape[1]));
            right = false;
        }
    constexpr int32_t kChannels[][5] = {{3, 4, 6, 4, 0},
                                        {3, 4, 32, 4, 0},
                                        {3, 4, 37, 4, 0},
                                        {3, 4, 6, 2, 1},
                                        {3, 6, 32, 2, 1},
                                        {2, 4, 300, 1, 1},
                                        {3, 4, 32, 4, 1},
                                        {2, 8, 1, 2, 1},
                                        // Cached in shared memory; the first shape only in part.
                                        {3, 2, 4096, 2, 0},
                                        {7, 3, 200, 1, 0},
                                        {2, 6, 1024, 2, 1},
                                        {3, 10, 232, 1, 1}};
    for (const auto& c : kChannels) {
        if (channels<T>(c[0], c[1], c[2], c[3], c[4])) continue;
        printf("%s is wrong: [%d, %d, %d], %d groups of kind %d\n", name, c[0], c[1], c[2], c[3], c[4]);
        right = false;
    }
    return right;
}

}  // namespace

int main() {
    bool right = rows_backward<float>(5, 40, true, false) && all_right<float>("f32");
    right = recomputed(3, 2, 1024, 1, 0) && recomputed(2, 6, 1024, 2, 1) && recomputed(3, 4, 37, 2, 1) && right;
    right = all_right<bf16>("bf16") && right;
    if (right) puts("ok");
    return right ? 0 : 1;
}
