// SPDX-License-Identifier: Apache-2.0
// Reduction kernels whose summands a functor computes and stores, on fibers (tests/gpu_on_threads/core), against plain
// loops.
#define __CUDA_ARCH_LIST__ 800

#include "core/reduce/pointwise_sum.h"

#include <cstdio>
#include <vector>

#include "core/types/dtype.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

// Values whose sums have the same bits in any order.
float value_at(int64_t i, int salt) { return static_cast<float>((i * 37 + salt * 11) % 13 - 6) / 4; }

// Gradients of (a + b) c + a.
template <class C>
struct Gradients {
    BK_HD Pack<C, C, C> operator()(C dy, C a, C b, C c) const { return pack(dy * (c + C(1)), dy * c, dy * (a + b)); }
};

constexpr int kIn = 4, kOut = 3, kOperands = kIn + kOut;

struct Problem {
    const char* name;
    int64_t extent[3];
    unsigned strided_axes[kOperands];  // axes with a nonzero stride, the last axis in bit 0
    int64_t gap, first;                // stride of operands that move along all axes; elements before the first
    bool in_place, absent;             // the first output is dy; the last one is NULL
};

template <class T>
struct Run {
    const Problem& p;
    Layout<kOperands> layout;
    std::vector<T> memory[kOperands];
    T* pointer[kOperands];

    explicit Run(const Problem& problem) : p(problem) {
        layout.rank = 3;
        for (int k = 0; k < kOperands; ++k) {
            int64_t step = p.strided_axes[k] == 7 ? p.gap : 1;
            for (int d = 2; d >= 0; --d) {
                layout.extent[d] = p.extent[d];
                layout.stride[k][d] = (p.strided_axes[k] >> (2 - d) & 1) != 0 ? step : 0;
                if (layout.stride[k][d] != 0) step *= p.extent[d];
            }
            memory[k].assign(static_cast<size_t>(step + p.first) + 16, narrow<T>(99.0f));
            pointer[k] = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory[k].data()) + 15) / 16 * 16) + p.first;
            for (int64_t i = 0; k < kIn && i < step; ++i) pointer[k][i] = narrow<T>(value_at(i, k));
        }
        if (p.in_place) pointer[kIn] = pointer[0];
        if (p.absent) pointer[kOperands - 1] = nullptr;
    }

    int64_t offset_of(int k, const int64_t (&i)[3]) const {
        return i[0] * layout.stride[k][0] + i[1] * layout.stride[k][1] + i[2] * layout.stride[k][2];
    }

    template <class Visit>
    void each(const Visit& visit) const {
        for (int64_t a = 0; a < p.extent[0]; ++a)
            for (int64_t b = 0; b < p.extent[1]; ++b)
                for (int64_t c = 0; c < p.extent[2]; ++c) visit({a, b, c});
    }

    bool is_right(bool has_workspace) {
        const Gradients<float> fn;
        std::vector<double> wanted[kOut];
        for (int o = 0; o < kOut; ++o) wanted[o].assign(memory[kIn + o].size(), 0.0);
        each([&](const int64_t (&i)[3]) {
            float x[kIn];
            for (int k = 0; k < kIn; ++k) x[k] = widen(pointer[k][offset_of(k, i)]);
            const auto y = fn(x[0], x[1], x[2], x[3]);
            const double values[] = {get<0>(y), get<1>(y), get<2>(y)};
            for (int o = 0; o < kOut; ++o) wanted[o][static_cast<size_t>(offset_of(kIn + o, i))] += values[o];
        });
        const auto out = outputs(pointer[4], pointer[5], pointer[6]);
        const auto in = inputs(static_cast<const T*>(pointer[0]), static_cast<const T*>(pointer[1]),
                               static_cast<const T*>(pointer[2]), static_cast<const T*>(pointer[3]));
        std::vector<char> workspace(pointwise_sums_workspace(layout, in, out));
        const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? workspace.size() : 0, nullptr};
        if (pointwise_sums(launch, layout, fn, out, in) != Status::kOk) return false;
        bool right = true;
        each([&](const int64_t (&i)[3]) {
            for (int o = 0; right && o < kOut; ++o) {
                if (pointer[kIn + o] == nullptr) continue;
                const int64_t at = offset_of(kIn + o, i);
                const double got = widen(pointer[kIn + o][at]);
                const double expected = widen(narrow<T>(static_cast<float>(wanted[o][static_cast<size_t>(at)])));
                right = got == expected;
                if (!right)
                    printf("%s, workspace %d: output %d has %g at %d, expected %g\n", p.name, has_workspace, o, got,
                           static_cast<int>(at), expected);
            }
        });
        return right;
    }
};

}  // namespace

int main() {
    constexpr unsigned kAll = 7, kRows = 6, kColumns = 1, kMiddle = 2, kNone = 0;
    const Problem problems[] = {
        {"columns are summed", {3, 7, 64}, {kAll, kAll, kAll, kColumns, kAll, kAll, kColumns}, 1, 0, true, false},
        {"columns of odd length", {3, 7, 37}, {kAll, kAll, kAll, kColumns, kAll, kAll, kColumns}, 1, 0, false, false},
        {"long columns", {40, 90, 16}, {kAll, kAll, kAll, kColumns, kAll, kAll, kColumns}, 1, 0, true, false},
        {"rows are summed", {3, 7, 128}, {kAll, kAll, kAll, kRows, kAll, kAll, kRows}, 1, 0, true, false},
        {"rows with a tail", {5, 3, 131}, {kAll, kAll, kAll, kRows, kAll, kAll, kRows}, 1, 0, false, false},
        {"channels", {6, 5, 48}, {kAll, kAll, kAll, kMiddle, kAll, kAll, kMiddle}, 1, 0, true, false},
        {"all is summed", {4, 50, 128}, {kAll, kAll, kNone, kNone, kAll, kNone, kNone}, 1, 0, true, false},
        {"two sums, one not wanted", {4, 9, 32}, {kAll, kAll, kColumns, kRows, kAll, kColumns, kRows}, 1, 0, true, true},
        {"two sums across each other", {4, 9, 32}, {kAll, kAll, kColumns, kRows, kAll, kColumns, kRows}, 1, 0, true, false},
        {"cells apart", {4, 9, 33}, {kAll, kAll, kColumns, kRows, kAll, kColumns, kRows}, 3, 0, true, false},
        {"not aligned", {4, 9, 32}, {kAll, kAll, kColumns, kAll, kAll, kColumns, kAll}, 1, 1, true, false},
        {"dy is broadcast", {4, 9, 32}, {kColumns, kAll, kColumns, kAll, kAll, kColumns, kAll}, 1, 0, false, false},
        {"no sum", {2, 3, 32}, {kAll, kAll, kAll, kAll, kAll, kAll, kAll}, 1, 0, true, false},
    };
    bool right = true;
    for (const Problem& p : problems)
        for (const bool has_workspace : {false, true}) {
            right = Run<float>(p).is_right(has_workspace) && right;
            if (p.extent[0] * p.extent[1] < 100) right = Run<bf16>(p).is_right(has_workspace) && right;
        }
    if (right) puts("ok");
    return right ? 0 : 1;
}
