// SPDX-License-Identifier: Apache-2.0
// The gather-adjoint kernel on fibers (tests/gpu_on_threads/core) against plain loops over random problems.
#define __CUDA_ARCH_LIST__ 800

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "arrays.h"
#include "core/copy/copies.cu"
#include "core/reduce/gather_adjoint.h"
#include "core/reduce/gather_adjoint_cuda.cuh"

namespace {

std::mt19937 random_numbers(11);
int64_t below(int64_t count) { return static_cast<int64_t>(random_numbers() % static_cast<uint64_t>(count)); }

// Index of y that receives index p of x (in window p / window); -1 for none.
int64_t target_of(const GatherAxis& axis, int64_t p) {
    int64_t at = p - axis.low;
    if (axis.map_mode == AdjointMode::kWindows) {
        at = p / axis.window * axis.step + p % axis.window * axis.dilation - axis.low;
        return at < axis.extent ? at : -1;
    }
    if (at >= 0 && at < axis.extent) return at;
    if (axis.map_mode == AdjointMode::kShift) return -1;
    if (axis.map_mode == AdjointMode::kReplicate) return at < 0 ? 0 : axis.extent - 1;
    if (axis.map_mode == AdjointMode::kCircular) return (at % axis.extent + axis.extent) % axis.extent;
    while (at < 0 || at >= axis.extent) {
        if (axis.extent == 1) return 0;
        at = at < 0 ? -at : 2 * (axis.extent - 1) - at;
    }
    return at;
}

template <class T>
bool is_right(int number) {
    GatherAdjoint sum;
    sum.rank = static_cast<int>(1 + below(3));
    const bool gaps = below(3) == 0, backwards = below(3) == 0;
    int64_t step_x = 1, step_y = 1, first_x = 0, elements = 1;
    int64_t count[kMaxRank];  // elements of x along each axis
    for (int d = sum.rank; d-- > 0;) {
        GatherAxis& axis = sum.axis[d];
        const bool inner = d + 1 == sum.rank;
        axis.map_mode = static_cast<AdjointMode>(below(5));
        axis.extent = 1 + below(inner ? 200 : 6);
        axis.source = below(3) == 0 ? axis.extent : 1 + below(inner ? 400 : 9);
        axis.low = below(3) == 0 ? 0 : below(3 * axis.extent) - axis.extent;
        count[d] = axis.source;
        if (axis.map_mode == AdjointMode::kWindows) {
            axis.low = below(3) == 0 ? below(9) : 0;
            axis.window = 1 + below(axis.extent), axis.step = 1 + below(5);
            const int64_t slack = axis.extent + 2 * axis.low - 1;
            if (axis.window > 1 && below(2) == 0) axis.dilation = 1 + below(slack / (axis.window - 1));
            axis.source = (slack - (axis.window - 1) * axis.dilation) / axis.step + 1;
            if (below(3) == 0) {  // windows that tile the axis
                axis.low = 0, axis.dilation = 1;
                axis.step = axis.window = 1 + below(16), axis.source = 1 + below(16);
                axis.extent = axis.source * axis.window;
            }
            count[d] = axis.source * axis.window;
        }
        axis.stride_y = step_y, axis.stride_x = backwards ? -step_x : step_x;
        axis.stride_window = axis.window * axis.stride_x;
        first_x += backwards ? (count[d] - 1) * step_x : 0;
        step_x = step_x * count[d] + (gaps ? below(4) : 0);
        step_y = step_y * axis.extent + (gaps ? below(2) * 16 : 0);
        elements *= count[d];
    }
    Aligned<T> x(step_x + 64, number), y(step_y + 64);
    std::vector<double> wanted(static_cast<size_t>(step_y), 0), size(static_cast<size_t>(step_y), 0);
    for (int64_t k = 0; k < elements; ++k) {
        int64_t from = first_x, to = 0, left = k;
        bool exists = true;
        for (int d = sum.rank; d-- > 0; left /= count[d]) {
            const int64_t p = left % count[d], at = target_of(sum.axis[d], p);
            exists = exists && at >= 0;
            from += p * sum.axis[d].stride_x, to += at * sum.axis[d].stride_y;
        }
        if (exists) wanted[static_cast<size_t>(to)] += x.at(from), size[static_cast<size_t>(to)] += std::fabs(x.at(from));
    }
    if (gather_adjoint(Launch{}, sum, x.data() + first_x, y.data()) != Status::kOk) return false;
    int64_t cells = 1;
    for (int d = 0; d < sum.rank; ++d) cells *= sum.axis[d].extent;
    for (int64_t k = 0; k < cells; ++k) {
        int64_t at = 0, left = k;
        for (int d = sum.rank; d-- > 0; left /= sum.axis[d].extent) at += left % sum.axis[d].extent * sum.axis[d].stride_y;
        if (!is_near("a sum", y.data()[at], wanted[static_cast<size_t>(at)], size[static_cast<size_t>(at)])) {
            printf("problem %d, element %lld\n", number, static_cast<long long>(k));
            return false;
        }
    }
    return true;
}

}  // namespace

int main() {
    for (int number = 0; number < 400; ++number)
        if (!is_right<float>(number) || !is_right<bf16>(number) || !is_right<double>(number)) return 1;
    puts("ok");
    return 0;
}
