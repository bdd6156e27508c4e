// SPDX-License-Identifier: Apache-2.0
// Row kernels on fibers (tests/gpu_on_threads/core): row functions against plain loops in double.
#define __CUDA_ARCH_LIST__ 800

#include "core/row/row_map.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/abi/workspace.h"
#include "core/types/dtype.h"
#include "softmax/softmax_rows.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

// Values whose sums have the same bits in any order.
float value_at(int64_t i) { return static_cast<float>((i * 37 + 11) % 29 - 14) / 4; }

enum Kind { kDense, kShifted, kApart, kAcross, kReversed, kKinds };

struct View {
    int64_t row, step, first, cells;
};

View view_of(Kind kind, int64_t rows, int64_t n) {
    switch (kind) {
        case kDense: return {n, 1, 0, rows * n};
        case kShifted: return {n, 1, 1, rows * n + 1};
        case kApart: return {2 * n + 3, 2, 0, rows * (2 * n + 3)};
        case kAcross: return {1, rows, 0, rows * n};
        default: return {-n, -1, rows * n - 1, rows * n};
    }
}

template <class T>
bool is_right(Kind kind, int64_t rows, int64_t n, bool log, bool in_place, bool has_workspace) {
    const View view = view_of(kind, rows, n);
    std::vector<T> x(static_cast<size_t>(view.cells) + 16, narrow<T>(99.0f)), y = x;
    T* const base = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(x.data()) + 15) / 16 * 16) + view.first;
    T* const out = in_place ? base : reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(y.data()) + 15) / 16 * 16) + view.first;
    std::vector<double> wanted(static_cast<size_t>(rows * n));
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0, max = -INFINITY;
        for (int64_t j = 0; j < n; ++j) {
            base[r * view.row + j * view.step] = narrow<T>(value_at(r * n + j));
            max = std::fmax(max, value_at(r * n + j));
        }
        for (int64_t j = 0; j < n; ++j) sum += std::exp(value_at(r * n + j) - max);
        for (int64_t j = 0; j < n; ++j)
            wanted[static_cast<size_t>(r * n + j)] =
                log ? value_at(r * n + j) - max - std::log(sum) : std::exp(value_at(r * n + j) - max) / sum;
    }
    RowAxes<2> axes;
    axes.outer.append(rows, {view.row, view.row});
    axes.inner.append(n, {view.step, view.step});
    op::SoftmaxRows<T> f{};
    f.log = log;
    std::vector<char> workspace(map_rows_workspace<op::SoftmaxRows<T>>(axes));
    const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? workspace.size() : 0, nullptr};
    const T* const in = base;
    if (map_rows(launch, axes, f, inputs(in), inputs(), inputs(), outputs(out), outputs()) != Status::kOk) return false;
    const double bound = sizeof(T) == 2 ? 1e-2 : 2e-6;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < n; ++j) {
            const double want = wanted[static_cast<size_t>(r * n + j)];
            const double got = widen(out[r * view.row + j * view.step]);
            if (std::fabs(got - want) <= bound * std::fmax(std::fabs(want), log ? 1.0 : 0.0)) continue;
            printf("row %d, position %d: %g, expected %g\n", static_cast<int>(r), static_cast<int>(j), got, want);
            return false;
        }
    if (widen(x[x.size() - 1]) != 99.0f && kind == kDense && base + view.cells < x.data() + x.size()) return false;
    return true;
}

template <class T>
bool all_right(const char* name) {
    constexpr int64_t kShapes[][2] = {{1, 1},    {3, 2},    {70, 4},   {5, 7},    {33, 31},   {3, 128},  {2, 257},
                                      {2, 1023}, {9, 1024}, {3, 1025}, {1, 4097}, {1, 33001}, {40, 300}, {300, 3}};
    bool right = true;
    for (const auto& shape : kShapes)
        for (int kind = kDense; kind < (shape[1] < 2000 ? kKinds : kApart); ++kind)
            for (int way = 0; way < (shape[0] * shape[1] < 1000 ? 3 : 1); ++way) {
                if (is_right<T>(static_cast<Kind>(kind), shape[0], shape[1], way == 1, way == 2, false)) continue;
                printf("%s is wrong: %d rows of %d, kind %d, way %d\n", name, static_cast<int>(shape[0]),
                       static_cast<int>(shape[1]), kind, way);
                right = false;
            }
    return right;
}

}  // namespace

int main() {
    bool right = all_right<float>("softmax f32");
    right = all_right<bf16>("softmax bf16") && right;
    for (const bool workspace : {false, true}) right = is_right<float>(kDense, 1, 100003, false, false, workspace) && right;
    if (right) puts("ok");
    return right ? 0 : 1;
}
