// SPDX-License-Identifier: Apache-2.0
// scatter_reduce kernels on fibers: atomics, slices along the axis and sorted elements against plain loops in double.
#define __CUDA_ARCH_LIST__ 800

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/platform.h"
#include "core/scatter/scatter_reduce.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

SortBuffers carve_sort(Carver* carver, int64_t count, uint32_t) {
    SortBuffers buffers{};
    for (int i = 0; i < 2; ++i) {
        buffers.keys[i] = carver->take<uint32_t>(count);
        buffers.values[i] = carver->take<uint32_t>(count);
    }
    return buffers;
}

// Leaves the result in the second buffers, as a sort may.
Status sort_pairs(const Launch&, SortBuffers* buffers, int64_t count, uint32_t) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return buffers->keys[0][a] < buffers->keys[0][b]; });
    for (int64_t i = 0; i < count; ++i) {
        buffers->keys[1][i] = buffers->keys[0][order[static_cast<size_t>(i)]];
        buffers->values[1][i] = buffers->values[0][order[static_cast<size_t>(i)]];
    }
    std::swap(buffers->keys[0], buffers->keys[1]);
    std::swap(buffers->values[0], buffers->values[1]);
    return Status::kOk;
}

}  // namespace bk

namespace {

using namespace bk;

enum Spread { kUniform, kHot, kOne, kSpreads };

// A matrix scattered along `axis`, with one index per slice along it or per element.
struct Problem {
    int64_t rows, columns, targets;
    int axis;
    bool shared_index;
    Spread spread;
    int64_t gap;  // stride of the output's columns
};

int64_t index_at(const Problem& p, int64_t k) {
    const int64_t any = (k * 7919 + 13) % (p.targets + 2) - 1;  // -1 and `targets` are out of range
    if (p.spread == kOne) return p.targets / 2;
    return p.spread == kHot && k % 10 < 8 ? p.targets / 3 : any;
}

// Small integers, so that sums have the same bits in any order; few factors of a product differ from 1.
template <class T>
T value_at(int64_t k, bool product) {
    return product ? static_cast<T>(k % 97 == 0 ? 2 : 1) : static_cast<T>((k * 37 + 11) % 29);
}

template <class Op, class T, class I>
bool is_right(const Problem& p, bool has_workspace, bool product) {
    const int64_t count = p.rows * p.columns, n = p.axis == 0 ? p.rows : p.columns, slices = count / n;
    const int64_t out_rows = p.axis == 0 ? p.targets : p.rows, out_columns = p.axis == 0 ? p.columns : p.targets;
    std::vector<T> x(static_cast<size_t>(count) + 8);
    T* const updates = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(x.data()) + 15) / 16 * 16);
    std::vector<I> index(static_cast<size_t>(p.shared_index ? n : count));
    const int64_t pitch = out_columns * p.gap;
    std::vector<T> memory(static_cast<size_t>(out_rows * pitch) + 8, T(3));
    T* const out = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
    std::vector<T> wanted(static_cast<size_t>(out_rows * pitch), T(3));
    for (size_t k = 0; k < index.size(); ++k) index[k] = static_cast<I>(index_at(p, static_cast<int64_t>(k)));
    for (int64_t r = 0; r < p.rows; ++r)
        for (int64_t c = 0; c < p.columns; ++c) {
            updates[r * p.columns + c] = value_at<T>(r * p.columns + c, product);
            const int64_t i = index[static_cast<size_t>(p.shared_index ? (p.axis == 0 ? r : c) : r * p.columns + c)];
            if (i < 0 || i >= p.targets) continue;
            T& cell = wanted[static_cast<size_t>(p.axis == 0 ? i * pitch + c * p.gap : r * pitch + i * p.gap)];
            cell = Op::combine(cell, updates[r * p.columns + c]);
        }
    const int64_t across = p.axis == 0 ? 1 : p.columns, along = p.axis == 0 ? p.columns : 1;
    ScatterLayout s{{}, n, {along, p.shared_index ? 1 : along, p.axis == 0 ? pitch : p.gap}, p.targets, -1};
    s.cells.append(slices, {across, p.shared_index ? 0 : across, p.axis == 0 ? p.gap : pitch});
    std::vector<char> workspace(scatter_reduce_workspace<Op, T>(s));
    const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? workspace.size() : 0, nullptr};
    if (scatter_reduce<Op>(launch, s, updates, static_cast<const I*>(index.data()), out) != Status::kOk) return false;
    for (size_t k = 0; k < wanted.size(); ++k)
        if (memcmp(&out[k], &wanted[k], sizeof(T)) != 0) {
            printf(
                "rows %d, columns %d, targets %d, axis %d, shared %d, spread %d, gap %d, workspace %d, element %d: %g, "
                "expected %g\n",
                static_cast<int>(p.rows), static_cast<int>(p.columns), static_cast<int>(p.targets), p.axis, p.shared_index,
                p.spread, static_cast<int>(p.gap), has_workspace, static_cast<int>(k), static_cast<double>(out[k]),
                static_cast<double>(wanted[k]));
            return false;
        }
    return true;
}

}  // namespace

int main() {
    bool right = true;
    const Problem shapes[] = {
        {300, 1, 40, 0, false, kHot, 1},    {1, 5000, 9, 1, false, kUniform, 1}, {40, 8, 7, 0, true, kHot, 1},
        {70, 33, 11, 0, false, kOne, 1},    {33, 70, 11, 1, false, kHot, 1},     {20, 16, 5, 1, true, kUniform, 1},
        {40, 36, 7, 0, true, kOne, 3},      {1, 2048, 2, 1, false, kOne, 2},     {1, 4097, 300, 1, false, kHot, 1},
        {513, 262, 300, 1, false, kHot, 1}, {70, 700, 500, 0, false, kOne, 1}};
    const Problem in_tiles{512, 700, 5400, 1, false, kUniform, 1};  // slices whose targets exceed shared memory
    for (const Problem& p : shapes)
        for (const bool has_workspace : {false, true}) {
            right = right && is_right<ScatterSum<float>, float, int32_t>(p, has_workspace, false);
            if (p.rows == 70 || p.rows == 33 || ((p.rows == 513 || p.columns == 700) && has_workspace))
                right = right && is_right<ScatterSum<double>, double, int64_t>(p, has_workspace, false) &&
                        is_right<ScatterSum<uint64_t>, uint64_t, int32_t>(p, has_workspace, false) &&
                        is_right<ScatterMax<float>, float, int32_t>(p, has_workspace, false) &&
                        is_right<ScatterProduct<double>, double, int32_t>(p, has_workspace, true);
        }
    // Adjacent slices whose last bundle and batch are short, in one tile and in several.
    for (const Problem& p : {Problem{259, 1028, 270, 0, false, kHot, 1}, Problem{700, 1028, 1100, 0, false, kUniform, 1}})
        right = right && is_right<ScatterSum<float>, float, int64_t>(p, true, false);
    for (const Problem& p : {Problem{519, 1028, 270, 0, false, kHot, 1}, Problem{700, 1028, 5300, 0, false, kUniform, 1}})
        right = right && is_right<ScatterSum<float>, float, int64_t>(p, false, false) &&
                is_right<ScatterSum<uint64_t>, uint64_t, int32_t>(p, false, false);
    const Problem in_windows{1, 150000, 140000, 1, false, kHot, 64};  // a slice larger than the cache
    right = right && is_right<ScatterSum<float>, float, int32_t>(in_windows, false, false) &&
            is_right<ScatterMax<float>, float, int64_t>(in_windows, false, false);
    const Problem in_fiber_tiles{40, 300, 15000, 0, false, kUniform, 1};  // slices of more outputs than the cache holds
    right = right && is_right<ScatterSum<float>, float, int32_t>(in_fiber_tiles, false, false);
    right = right && is_right<ScatterSum<double>, double, int64_t>(in_tiles, false, false);
    if (right) puts("ok");
    return right ? 0 : 1;
}
