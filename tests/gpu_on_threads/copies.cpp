// SPDX-License-Identifier: Apache-2.0
// Mapped-copy kernels on fibers (tests/gpu_on_threads/core) against plain loops over random problems.
#define __CUDA_ARCH_LIST__ 800

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "core/copy/copies.h"
#include "core/copy/mapped_kernel.cuh"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

std::mt19937 random_numbers(7);
int64_t below(int64_t count) { return static_cast<int64_t>(random_numbers() % static_cast<uint64_t>(count)); }

// Index in x that an index of y copies; -1 for the pad value.
int64_t source_of(const MappedAxis& axis, PadMode pad_mode, int64_t index) {
    int64_t at = index - axis.low;
    if (at >= 0 && at < axis.source) return at;
    if (pad_mode == PadMode::kConstant) return -1;
    if (pad_mode == PadMode::kReplicate) return at < 0 ? 0 : axis.source - 1;
    if (pad_mode == PadMode::kCircular) return (at % axis.source + axis.source) % axis.source;
    while (at < 0 || at >= axis.source) {
        if (axis.source == 1) return 0;
        at = at < 0 ? -at : 2 * (axis.source - 1) - at;
    }
    return at;
}

// A random problem of one to three axes; y is dense or has gaps, x is dense, has gaps or is reversed.
template <class Bits>
bool is_right(int number) {
    MappedCopy copy;
    copy.pad_mode = static_cast<PadMode>(below(4));
    copy.value = 0x5a5a5a5a5a5a5a5a;
    copy.rank = static_cast<int>(1 + below(3));
    const bool gaps = below(3) == 0, backwards = below(3) == 0, plain = below(3) == 0, band = copy.rank > 1 && below(4) == 0;
    int64_t step_x = 1, step_y = 1, first_x = 0;
    for (int d = copy.rank; d-- > 0;) {
        MappedAxis& axis = copy.axis[d];
        const bool inner = d + 1 == copy.rank;
        axis.source = 1 + below(inner ? 300 : 7);
        axis.extent = plain || band || below(3) == 0 ? axis.source : 1 + below(inner ? 400 : 9);
        axis.low = plain || band ? 0 : below(3 * axis.source) - axis.source;
        axis.stride_y = step_y, axis.stride_x = backwards ? -step_x : step_x;
        first_x += backwards ? (axis.source - 1) * step_x : 0;
        step_x = step_x * axis.source + (gaps ? below(4) : 0);
        step_y = step_y * axis.extent + (gaps ? below(2) * 16 : 0);
    }
    if (band) {
        const int which = static_cast<int>(below(kMaxBands)), other = (which + 1) % kMaxBands;
        MappedAxis &row = copy.axis[copy.rank - 2], &column = copy.axis[copy.rank - 1], &first = copy.axis[0];
        row.slope = -1, column.slope = 1, row.band = column.band = which;
        (below(2) == 0 ? copy.band[which].least : copy.band[which].most) = below(20) - 10;
        if (copy.rank == 3 && copy.pad_mode == PadMode::kConstant &&
            below(2) == 0) {  // copies.h allows two bands with kConstant only
            first.slope = 2, first.band = other;
            copy.band[other] = {below(4), 4 + below(8)};
        }
    }
    int64_t start = 0;
    if (plain && below(2) == 0) {
        copy.start_axis = static_cast<int>(below(copy.rank));
        copy.limit = copy.axis[copy.start_axis].extent;
        start = below(2 * copy.limit + 1) - copy.limit;
        copy.start = &start;
    }
    std::vector<Bits> x(static_cast<size_t>(step_x) + 64), y(static_cast<size_t>(2 * step_y) + 64, Bits(0x77)), wanted;
    for (auto& each : x) each = static_cast<Bits>(random_numbers());
    Bits* const aligned =
        reinterpret_cast<Bits*>((reinterpret_cast<uintptr_t>(y.data()) + 15) / 16 * 16) + below(2) * below(16);
    const Bits* const from = x.data() + first_x + below(9);
    wanted = y;
    Bits* const to = wanted.data() + (aligned - y.data());
    int64_t numel = 1;
    for (int d = 0; d < copy.rank; ++d) numel *= copy.axis[d].extent;
    for (int64_t i = 0; i < numel; ++i) {
        int64_t remaining = i, at_x = 0, at_y = 0, sum[kMaxBands] = {};
        bool exists = true, written = true;
        for (int d = copy.rank; d-- > 0;) {
            const MappedAxis& axis = copy.axis[d];
            const int64_t index = remaining % axis.extent, source = source_of(axis, copy.pad_mode, index);
            remaining /= axis.extent;
            const int64_t target = index + (copy.start != nullptr && d == copy.start_axis ? start : 0);
            written = written && (copy.start == nullptr || d != copy.start_axis || (target >= 0 && target < copy.limit));
            exists = exists && source >= 0;
            at_x += source * axis.stride_x, at_y += target * axis.stride_y, sum[axis.band] += index * axis.slope;
        }
        for (int k = 0; k < kMaxBands; ++k) exists = exists && copy.band[k].has(sum[k]);
        if (written) to[at_y] = exists ? from[at_x] : static_cast<Bits>(copy.value);
    }
    const MappedPlan plan = plan_mapped(copy);
    const Launch launch{};
    const Status status = below(4) == 0 ? launch_mapped_by<Bits, uint64_t>(launch, plan, from, aligned)
                                        : launch_mapped<Bits>(launch, plan, from, aligned);
    if (status == Status::kOk && y == wanted) return true;
    printf("problem %d of %d bytes is wrong: rank %d, pad_mode %d, gaps %d, backwards %d, plain %d, band %d, start %d\n",
           number, static_cast<int>(sizeof(Bits)), copy.rank, static_cast<int>(copy.pad_mode), gaps, backwards, plain, band,
           copy.start != nullptr);
    return false;
}

}  // namespace

int main() {
    int wrong = 0;
    for (int number = 0; number < 100 && wrong < 5; ++number) {
        wrong += is_right<uint8_t>(number) ? 0 : 1;
        wrong += is_right<uint16_t>(number) ? 0 : 1;
        wrong += is_right<uint32_t>(number) ? 0 : 1;
        wrong += is_right<uint64_t>(number) ? 0 : 1;
    }
    if (wrong == 0) puts("ok");
    return wrong == 0 ? 0 : 1;
}
