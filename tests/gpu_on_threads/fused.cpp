// SPDX-License-Identifier: Apache-2.0
// Kernels of fused add-norm, batch norm with running statistics, L2 normalisation and masked softmax on fibers
// (tests/gpu_on_threads/core) against plain loops in double.
#define __CUDA_ARCH_LIST__ 800

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "arrays.h"
#include "core/abi/workspace.h"
#include "norm/add_norm.h"
#include "norm/add_norm_backward.h"
#include "norm/channel/batch_norm.h"
#include "norm/channel/batch_norm_backward.h"
#include "norm/l2_normalize.h"
#include "softmax/entmax.h"
#include "softmax/masked_softmax.h"
#include "softmax/softmax_to_f32.h"

namespace {

constexpr Launch kNoWorkspace{nullptr, 0, nullptr};

template <class T>
bool sums(int64_t rows, int64_t n, bool has_residual) {
    using C = compute_t<T>;
    Aligned<T> x(rows * n, 1), residual(rows * n, 7), gamma(n, 3), beta(n, 9), y(rows * n), sum(rows * n), dy(rows * n, 5);
    Aligned<T> dsum(rows * n, 2), dx(rows * n), dgamma(n), dbeta(n);
    Aligned<C> mean(rows), scale(rows);
    const int32_t shape[] = {static_cast<int32_t>(rows), static_cast<int32_t>(n)};
    const int64_t full[] = {n, 1};
    const AddNorm<T> op{{rows * n, 2, shape, 2, shape[1]}, full, full, full, full, 1e-3f, 1.0f, true};
    if (op.run(kNoWorkspace, x.data(), has_residual ? residual.data() : nullptr, gamma.data(), beta.data(), y.data(),
               sum.data(), mean.data(), scale.data()) != Status::kOk)
        return false;
    const AddNormGradient<T> gradient{{rows * n, 2, shape, 2, shape[1]}, full, full, full, full, 1.0f, true};
    if (gradient.run(kNoWorkspace, dy.data(), has_residual ? dsum.data() : nullptr, sum.data(), gamma.data(), mean.data(),
                     scale.data(), dx.data(), dgamma.data(), dbeta.data()) != Status::kOk)
        return false;
    const double count = static_cast<double>(n);
    for (int64_t r = 0; r < rows; ++r) {
        double m = 0, square = 0, level = 0, slope = 0;
        for (int64_t j = 0; j < n; ++j) {
            const double want = x.at(r * n + j) + (has_residual ? residual.at(r * n + j) : 0);
            if (!is_near("sum", sum.data()[r * n + j], want, 1)) return false;
            m += sum.at(r * n + j) / count;
        }
        for (int64_t j = 0; j < n; ++j) square += (sum.at(r * n + j) - m) * (sum.at(r * n + j) - m) / count;
        const double s = 1 / std::sqrt(square + 1e-3f);
        if (!is_near("scale", scale.data()[r], s, 10)) return false;
        for (int64_t j = 0; j < n; ++j) {
            const double h = dy.at(r * n + j) * (gamma.at(j) + 1), xh = (sum.at(r * n + j) - m) * s;
            level += h / count;
            slope += h * xh / count;
            if (!is_near("y", y.data()[r * n + j], xh * (gamma.at(j) + 1) + beta.at(j), 20)) return false;
        }
        for (int64_t j = 0; j < n; ++j) {
            const double h = dy.at(r * n + j) * (gamma.at(j) + 1), xh = (sum.at(r * n + j) - m) * s;
            const double want = s * (h - level - xh * slope) + (has_residual ? dsum.at(r * n + j) : 0);
            if (!is_near("dx", dx.data()[r * n + j], want, 500)) return false;
        }
    }
    return true;
}

template <class T>
bool batches(int32_t items, int32_t count, int32_t spatial, int32_t last) {
    using C = compute_t<T>;
    const int64_t all = int64_t{items} * count * spatial;
    Aligned<T> x(all, 7), y(all), dy(all, 1), dx(all);
    Aligned<C> gamma(count, 3), beta(count, 9), mean(count), rstd(count), running(count, 4), var(count, 6), dgamma(count);
    Aligned<C> dbeta(count);
    const std::vector<C> old_mean(running.data(), running.data() + count), old_var(var.data(), var.data() + count);
    const BatchNormTraining<T> op{items, count, spatial, last, 1e-3f, 0.25f};
    const BatchNormTrainingBackward<T> gradient{items, count, spatial, last};
    if (op.run(x.data(), gamma.data(), beta.data(), running.data(), var.data(), y.data(), mean.data(), rstd.data(),
               running.data(), var.data(), kNoWorkspace) != Status::kOk ||
        gradient.run(dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), dx.data(), dgamma.data(), dbeta.data(),
                     kNoWorkspace) != Status::kOk)
        return false;
    const double numel = static_cast<double>(items) * spatial;
    for (int64_t c = 0; c < count; ++c) {
        const auto index_of = [&](int64_t i) {
            const int64_t item = i / spatial, s = i % spatial;
            return last != 0 ? (item * spatial + s) * count + c : (item * count + c) * spatial + s;
        };
        const int64_t m = int64_t{items} * spatial;
        double level = 0, square = 0, of_gamma = 0, of_beta = 0;
        for (int64_t i = 0; i < m; ++i) level += x.at(index_of(i)) / numel;
        for (int64_t i = 0; i < m; ++i) square += (x.at(index_of(i)) - level) * (x.at(index_of(i)) - level);
        const double scale = 1 / std::sqrt(square / numel + 1e-3f);
        const size_t at = static_cast<size_t>(c);
        if (!is_near("running mean", running.data()[c], 0.75 * old_mean[at] + 0.25 * level, 10)) return false;
        if (!is_near("running var", var.data()[c], 0.75 * old_var[at] + 0.25 * square / (numel - 1), 100)) return false;
        for (int64_t i = 0; i < m; ++i) {
            const double xh = (x.at(index_of(i)) - level) * scale;
            of_gamma += dy.at(index_of(i)) * xh;
            of_beta += dy.at(index_of(i));
            if (!is_near("y", y.data()[index_of(i)], xh * gamma.at(c) + beta.at(c), 20)) return false;
        }
        for (int64_t i = 0; i < m; ++i) {
            const double xh = (x.at(index_of(i)) - level) * scale;
            const double want = gamma.at(c) * scale * (dy.at(index_of(i)) - of_beta / numel - xh * of_gamma / numel);
            if (!is_near("dx", dx.data()[index_of(i)], want, 100)) return false;
        }
    }
    return true;
}

template <class T>
bool lengths(int64_t rows, int64_t n) {
    Aligned<T> v(rows * n, 1), g(rows, 3), w(rows * n), dw(rows * n, 5), dv(rows * n), dg(rows);
    const int32_t shape[] = {static_cast<int32_t>(rows), static_cast<int32_t>(n)};
    const int64_t full[] = {n, 1};
    const WeightNorm<T> op{rows * n, 2, shape, full, full, 2, shape[1]};
    const WeightNormBackward<T> gradient{rows * n, 2, shape, full, full, full, 2, shape[1]};
    if (op.run(v.data(), g.data(), w.data(), nullptr, kNoWorkspace) != Status::kOk ||
        gradient.run(dw.data(), v.data(), g.data(), dv.data(), dg.data(), kNoWorkspace) != Status::kOk)
        return false;
    for (int64_t r = 0; r < rows; ++r) {
        double square = 0, along = 0;
        for (int64_t j = 0; j < n; ++j) square += v.at(r * n + j) * v.at(r * n + j);
        const double norm = std::sqrt(square);
        for (int64_t j = 0; j < n; ++j) along += dw.at(r * n + j) * v.at(r * n + j) / norm;
        if (!is_near("dg", dg.data()[r], along, 4 * norm)) return false;
        for (int64_t j = 0; j < n; ++j) {
            const double u = v.at(r * n + j) / norm, want = g.at(r) / norm * (dw.at(r * n + j) - u * along);
            if (!is_near("w", w.data()[r * n + j], g.at(r) * u, 4)) return false;
            if (!is_near("dv", dv.data()[r * n + j], want, 10)) return false;
        }
    }
    return true;
}

// Masks: causal, one row shared by all, or neither bias nor mask.
template <class T>
bool masks(int64_t heads, int64_t queries, int64_t keys, int64_t offset, bool has_masks) {
    const int64_t all = heads * queries * keys;
    Aligned<T> x(all, 1), bias(keys, 7), y(all);
    std::vector<uint8_t> mask(static_cast<size_t>(keys + 16));
    for (size_t j = 0; j < mask.size(); ++j) mask[j] = j % 5 != 3;
    const int32_t shape[] = {static_cast<int32_t>(heads), static_cast<int32_t>(queries), static_cast<int32_t>(keys)};
    const int64_t full[] = {queries * keys, keys, 1}, one[] = {0, 0, 1};
    const MaskedSoftmax<T, false> op{all, 3, shape, full, one, one, full, 2, 0.5f, 1, offset};
    if (op.run(x.data(), has_masks ? bias.data() : nullptr, has_masks ? mask.data() : nullptr, y.data(), kNoWorkspace) !=
        Status::kOk)
        return false;
    for (int64_t r = 0; r < heads * queries; ++r) {
        const auto keeps = [&](int64_t j) {
            return j <= r % queries + offset && (!has_masks || mask[static_cast<size_t>(j)] != 0);
        };
        const auto logit = [&](int64_t j) { return 0.5 * x.at(r * keys + j) + (has_masks ? bias.at(j) : 0); };
        double total = 0;
        for (int64_t j = 0; j < keys; ++j) total += keeps(j) ? std::exp(logit(j)) : 0;
        for (int64_t j = 0; j < keys; ++j) {
            const double want = keeps(j) ? std::exp(logit(j)) / total : 0;
            if (!is_near("masked y", y.data()[r * keys + j], want, 1)) return false;
            if (!keeps(j) && static_cast<double>(widen(y.data()[r * keys + j])) != 0) return false;
        }
    }
    return true;
}

bool in_f32(int64_t rows, int64_t n) {
    Aligned<bf16> x(rows * n, 1), dx(rows * n);
    Aligned<float> y(rows * n), dy(rows * n, 5);
    const int32_t shape[] = {static_cast<int32_t>(rows), static_cast<int32_t>(n)};
    const int64_t full[] = {n, 1};
    const SoftmaxToF32<bf16, false> op{rows * n, 2, shape, full, full, 1};
    const SoftmaxToF32Backward<bf16, false> gradient{rows * n, 2, shape, full, full, full, 1};
    if (op.run(x.data(), y.data(), kNoWorkspace) != Status::kOk ||
        gradient.run(dy.data(), y.data(), dx.data(), kNoWorkspace) != Status::kOk)
        return false;
    for (int64_t r = 0; r < rows; ++r) {
        double total = 0, product = 0;
        for (int64_t j = 0; j < n; ++j) total += std::exp(x.at(r * n + j));
        for (int64_t j = 0; j < n; ++j) {
            if (!is_near("y in f32", y.data()[r * n + j], std::exp(x.at(r * n + j)) / total, 1)) return false;
            product += y.at(r * n + j) * dy.at(r * n + j);
        }
        for (int64_t j = 0; j < n; ++j)
            if (!is_near("dx of f32", dx.data()[r * n + j], y.at(r * n + j) * (dy.at(r * n + j) - product), 4)) return false;
    }
    return true;
}

// y = max(x / 2 - tau, 0)^2 with one tau per row, and sums to 1.
template <class T>
bool entmax(int64_t rows, int64_t n) {
    Aligned<T> x(rows * n, 1), y(rows * n);
    const int32_t shape[] = {static_cast<int32_t>(rows), static_cast<int32_t>(n)};
    const int64_t full[] = {n, 1};
    if (Entmax15<T>{rows * n, 2, shape, full, full, 1}.run(x.data(), y.data(), kNoWorkspace) != Status::kOk) return false;
    for (int64_t r = 0; r < rows; ++r) {
        double low = -100, high = 100;
        for (int step = 0; step < 100; ++step) {
            const double middle = (low + high) / 2;
            double total = 0;
            for (int64_t j = 0; j < n; ++j) total += std::pow(std::fmax(0, x.at(r * n + j) / 2 - middle), 2);
            (total > 1 ? low : high) = middle;
        }
        for (int64_t j = 0; j < n; ++j)
            if (!is_near("entmax", y.data()[r * n + j], std::pow(std::fmax(0, x.at(r * n + j) / 2 - low), 2), 2)) return false;
    }
    return true;
}

template <class T>
bool all_right(const char* name) {
    constexpr int64_t kRows[][2] = {{1, 8}, {70, 16}, {9, 200}, {5, 1000}, {2, 4100}, {5, 33}};
    bool right = true;
    const auto expect = [&](bool is_right, const char* what, int64_t a, int64_t b, int64_t c) {
        if (!is_right)
            printf("%s of %s is wrong: %d, %d, %d\n", what, name, static_cast<int>(a), static_cast<int>(b),
                   static_cast<int>(c));
        right = right && is_right;
    };
    for (const auto& s : kRows) {
        for (const bool has_residual : {false, true})
            expect(sums<T>(s[0], s[1], has_residual), "a norm of sums", s[0], s[1], has_residual);
        expect(lengths<T>(s[0], s[1]), "weight norm", s[0], s[1], 0);
        expect(entmax<T>(s[0], s[1]), "entmax", s[0], s[1], 0);
        for (const bool has_masks : {false, true})
            expect(masks<T>(2, s[0], s[1], 3, has_masks), "masked softmax", s[0], s[1], has_masks);
    }
    for (const int32_t last : {0, 1})
        for (const int32_t c : {4, 16, 33}) expect(batches<T>(3, c, 32, last), "batch norm", c, 32, last);
    expect(batches<T>(40, 5, 1, 0), "batch norm", 5, 1, 0);
    return right;
}

}  // namespace

int main() {
    bool right = all_right<float>("f32");
    right = all_right<bf16>("bf16") && right;
    right = in_f32(5, 1000) && in_f32(9, 33) && right;
    if (right) puts("ok");
    return right ? 0 : 1;
}
