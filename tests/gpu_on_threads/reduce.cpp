// SPDX-License-Identifier: Apache-2.0
// Reduction kernels on fibers (tests/gpu_on_threads/core) against plain loops.
#define __CUDA_ARCH_LIST__ 800

#include "core/reduce/reduce.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "core/reduce/transform_sum.h"
#include "core/types/dtype.h"
#include "reduce/functions.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

// Values whose sums have the same bits in any order; the maximum occurs several times.
float value_at(int64_t i) { return static_cast<float>((i * 37 + 11) % 29 - 14) / 4; }

struct Problem {
    int64_t before, n, after;  // extents; the middle one is reduced
    int64_t gap, first;        // stride of elements; elements before the first
    bool reversed;

    int64_t cells() const { return first + before * n * after * gap; }
    int64_t step() const { return reversed ? -gap : gap; }
    int64_t at(int64_t i) const { return reversed ? cells() - 1 - i * gap : first + i * gap; }
    template <int Out>
    ReduceAxes<1, Out> axes() const {
        ReduceAxes<1, Out> axes;
        int64_t outer[1 + Out] = {step() * n * after}, inner[1 + Out] = {step()};
        for (int o = 0; o < Out; ++o) outer[1 + o] = after, inner[1 + o] = 1;
        axes.kept.append(before, outer);
        axes.kept.append(after, inner);
        axes.reduced.append(n, {step() * after});
        return axes;
    }
};

bool complain(const char* what, const Problem& p, bool has_workspace, int64_t result, double got, double wanted) {
    printf("%s is wrong: %d x %d x %d, gap %d, first %d, reversed %d, workspace %d: result %d is %g, expected %g\n", what,
           static_cast<int>(p.before), static_cast<int>(p.n), static_cast<int>(p.after), static_cast<int>(p.gap),
           static_cast<int>(p.first), p.reversed, has_workspace, static_cast<int>(result), got, wanted);
    return false;
}

template <class Op, class R, class T, class U>
bool run(const Problem& p, const R& reducer, const T* x, U* y, bool has_workspace) {
    const auto axes = p.axes<Op::kOutputs>();
    std::vector<char> workspace(reduce_workspace<R, typename Op::Element>(axes));
    const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? workspace.size() : 0, nullptr};
    return run_reduction<Op>(launch, axes, reducer, x, y) == Status::kOk;
}

template <class T>
bool is_right(const Problem& p, bool has_workspace) {
    std::vector<T> memory(static_cast<size_t>(p.cells()) + 16, narrow<T>(99.0f));
    T* const x = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
    const int64_t results = p.before * p.after;
    for (int64_t i = 0; i < results * p.n; ++i) x[p.at(i)] = narrow<T>(value_at(i));
    std::vector<T> sum(static_cast<size_t>(results)), variance = sum;
    std::vector<int64_t> argmax_index(static_cast<size_t>(results));
    const T* const start = x + p.at(0);
    if (!run<op::ReduceSum<T>>(p, op::ReduceSum<T>::reducer(), start, sum.data(), has_workspace)) return false;
    if (!run<op::ReduceVar<T>>(p, op::ReduceVar<T>::reducer(0), start, variance.data(), has_workspace)) return false;
    using Arg = op::ReduceArgmax<T, int64_t>;
    if (!run<Arg>(p, Arg::reducer(), start, argmax_index.data(), has_workspace)) return false;
    for (int64_t r = 0; r < results; ++r) {
        double total = 0, squares = 0, greatest = -INFINITY;
        int64_t first = 0;
        const auto item = [&](int64_t j) {
            return static_cast<double>(value_at((r / p.after * p.n + j) * p.after + r % p.after));
        };
        for (int64_t j = 0; j < p.n; ++j) {
            total += item(j);
            if (item(j) > greatest) greatest = item(j), first = j;
        }
        for (int64_t j = 0; j < p.n; ++j) squares += (item(j) - total / p.n) * (item(j) - total / p.n) / p.n;
        const size_t at = static_cast<size_t>(r);
        if (widen(sum[at]) != widen(narrow<T>(static_cast<float>(total))))
            return complain("sum", p, has_workspace, r, widen(sum[at]), total);
        if (argmax_index[at] != first)
            return complain("argmax", p, has_workspace, r, static_cast<double>(argmax_index[at]), static_cast<double>(first));
        if (std::fabs(widen(variance[at]) - squares) > (sizeof(T) == 2 ? 1e-2 : 4e-6) * (squares + 1))
            return complain("variance", p, has_workspace, r, widen(variance[at]), squares);
    }
    return true;
}

// Dot product of two arrays that begin `first` elements after a 16-byte boundary.
struct Times {
    BK_HD float operator()(float a, float b) const { return a * b; }
};
template <class T>
bool adds_summands(int64_t n, int64_t first, bool has_workspace) {
    std::vector<T> memory(static_cast<size_t>(2 * n) + 64, narrow<T>(99.0f));
    T* const x = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16) + first;
    T* const y = x + n + 1;
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
        x[i] = narrow<T>(value_at(i));
        y[i] = narrow<T>(value_at(3 * i));
        total += value_at(i) * value_at(3 * i);
    }
    std::vector<char> workspace(transform_sum_workspace<float, Times, T, T>(n));
    const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? workspace.size() : 0, nullptr};
    float sum = 99;
    const Status status = transform_sum(launch, n, Times{}, 1, inputs<T, T>(x, y), &sum);
    if (status == Status::kOk && sum == static_cast<float>(total)) return true;
    printf("the sum of %d summands is wrong: first %d, workspace %d: %g, expected %g\n", static_cast<int>(n),
           static_cast<int>(first), has_workspace, sum, total);
    return false;
}

}  // namespace

int main() {
    constexpr int64_t kShapes[][3] = {{3, 2, 1},   {5, 37, 1},  {9, 128, 1},  {2, 4100, 1}, {3, 33, 20},
                                      {1, 40, 64}, {300, 3, 1}, {1, 9, 1024}, {1200, 64, 1}};
    bool right = true;
    for (const auto& s : kShapes)
        for (const Problem& p : {Problem{s[0], s[1], s[2], 1, 0, false}, Problem{s[0], s[1], s[2], 1, 1, false},
                                 Problem{s[0], s[1], s[2], 3, 0, true}}) {
            right = is_right<float>(p, false) && right;
            right = is_right<bf16>(p, true) && right;
        }
    for (const Problem& p :
         {Problem{1, 50003, 1, 1, 0, false}, Problem{2, 30000, 1, 1, 1, false}, Problem{1, 3001, 40, 1, 0, false}})
        for (const bool has_workspace : {false, true}) right = is_right<float>(p, has_workspace) && right;
    for (const int64_t n : {1, 2, 3, 7, 8, 9, 31, 127, 1000, 20011})
        for (const int64_t first : {0, 1}) {
            right = adds_summands<float>(n, first, n % 2 == 0) && right;
            right = adds_summands<bf16>(n, first, n % 2 == 1) && right;
        }
    if (right) puts("ok");
    return right ? 0 : 1;
}
