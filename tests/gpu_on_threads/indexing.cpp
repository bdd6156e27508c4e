// SPDX-License-Identifier: Apache-2.0
// Gather, scatter and selection kernels: vectors, words of rows, strides, indices out of range, duplicate targets,
// tiles in a chain.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "arrays.h"
#include "core/abi/launch.h"
#include "core/gather/indexed_copy.h"
#include "core/pointwise/pointwise.h"
#include "core/select/select_indices.h"
#include "indexing/masked.h"
#include "indexing/nonzero.h"
#include "indexing/one_hot.h"
#include "indexing/one_hot_cuda.cuh"

namespace {

int64_t number(int64_t i) { return (i * 7919 + 13) % 10007; }

template <class T>
struct Numbers {
    std::vector<uint4> memory;
    explicit Numbers(int64_t count) : memory(static_cast<size_t>(count) * sizeof(T) / 16 + 2) {
        for (int64_t i = 0; i < count; ++i) data()[i] = static_cast<T>(number(i));
    }
    T* data() { return reinterpret_cast<T*>(memory.data()); }
    T& operator[](int64_t i) { return data()[i]; }
};

bool fails(const char* what, int64_t at, int64_t got, int64_t want) {
    if (got == want) return false;
    printf("%s: element %lld is %lld, expected %lld\n", what, static_cast<long long>(at), static_cast<long long>(got),
           static_cast<long long>(want));
    return true;
}

// [rows, columns] along axis 1 or 0, with an index per element or, if `shared`, per row.
template <class Bits, class I>
bool moves(const char* what, int64_t rows, int64_t columns, int axis, int64_t extent, bool shared, int64_t shift) {
    const int64_t from_rows = axis == 0 ? extent : rows, from_columns = axis == 1 ? extent : columns;
    Numbers<Bits> src(from_rows * from_columns + 8), out(rows * columns + 8), scattered(from_rows * from_columns + 8);
    Numbers<I> index(rows * columns);
    for (int64_t i = 0; i < rows * columns; ++i) index[i] = static_cast<I>(number(i) % (extent + 2) - 1);
    const int32_t shape[] = {static_cast<int32_t>(rows), static_cast<int32_t>(columns)};
    const int64_t plain[] = {columns, 1}, by[] = {shared ? 1 : columns, shared ? 0 : 1}, source_strides[] = {from_columns, 1};
    const IndexedAxes axes = indexed_axes(2, shape, axis, extent, plain, by, source_strides);
    const Launch launch{nullptr, 0, nullptr};
    Numbers<Bits> before = out;
    if (gather_along(launch, axes, out.data() + shift, index.data(), src.data() + shift) != Status::kOk) return false;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            const int64_t at = static_cast<int64_t>(index[shared ? r : r * columns + c]), out_index = shift + r * columns + c;
            const int64_t source = shift + (axis == 0 ? at * columns + c : r * extent + at);
            const Bits want = at >= 0 && at < extent ? src[source] : before[out_index];
            if (fails(what, out_index, static_cast<int64_t>(out[out_index]), static_cast<int64_t>(want))) return false;
        }
    // Scatters back: the last update of a target wins.
    std::vector<char> workspace(scatter_workspace<int32_t>(from_rows * from_columns));
    const Launch owned{workspace.data(), workspace.size(), nullptr};
    Numbers<Bits> expected = scattered;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            const int64_t at = static_cast<int64_t>(index[shared ? r : r * columns + c]);
            if (at >= 0 && at < extent)
                expected[shift + (axis == 0 ? at * columns + c : r * extent + at)] = out[shift + r * columns + c];
        }
    const Bits* const updates = out.data() + shift;
    if (scatter_along<int32_t>(owned, axes, axis, updates, index.data(), scattered.data() + shift) != Status::kOk) return false;
    for (int64_t i = 0; i < from_rows * from_columns + 8; ++i)
        if (fails(what, i, static_cast<int64_t>(scattered[i]), static_cast<int64_t>(expected[i]))) return false;
    // Without a workspace the result is defined if targets differ.
    Numbers<Bits> one(columns + 8);
    Numbers<I> reversed_index(columns);
    for (int64_t c = 0; c < columns; ++c) reversed_index[c] = static_cast<I>(columns - 1 - c);
    if (scatter_along<int32_t>(launch, indexed_row(columns, columns), 0, updates, reversed_index.data(), one.data()) !=
        Status::kOk)
        return false;
    for (int64_t c = 0; c < columns; ++c)
        if (fails(what, c, static_cast<int64_t>(one[columns - 1 - c]), static_cast<int64_t>(updates[c]))) return false;
    return true;
}

// Selects about every third of `count` elements, none, or all.
template <class T>
bool selects(int64_t count, int64_t every, int64_t shift, bool is_strided, bool has_workspace) {
    Numbers<T> x(2 * count + 8);
    for (int64_t i = 0; i < 2 * count + 8; ++i) x[i] = static_cast<T>(every > 0 && number(i) % every == 0 ? 1 + i % 100 : 0);
    const int32_t rows = 3, shape[] = {rows, static_cast<int32_t>(count / rows)};
    const int64_t stride[] = {shape[1] * (is_strided ? 2 : 1), is_strided ? 2 : 1};
    const Nonzero<T, int32_t> op{int64_t{rows} * shape[1], 2, static_cast<int32_t>(count / 2), shape, stride};
    std::vector<char> workspace(op.workspace_size());
    std::vector<int32_t> table(static_cast<size_t>(count), -1);
    int32_t counter = -5;
    const Launch launch{has_workspace ? workspace.data() : nullptr, has_workspace ? workspace.size() : 0, nullptr};
    if (op.run(x.data() + shift, table.data(), &counter, launch) != Status::kOk) return false;
    int32_t found = 0;
    for (int32_t r = 0; r < rows; ++r)
        for (int32_t c = 0; c < shape[1]; ++c) {
            if (x[shift + r * stride[0] + c * stride[1]] == T(0)) continue;
            if (found < op.max_nz &&
                (fails("row", found, table[2 * found], r) || fails("column", found, table[2 * found + 1], c)))
                return false;
            ++found;
        }
    if (fails("counter", 0, counter, found)) return false;
    const int64_t end = 2 * int64_t{found < op.max_nz ? found : op.max_nz};
    return end >= count || !fails("behind the last", end, table[static_cast<size_t>(end)], -1);
}

// Masks with more nonzero bytes than a cluster handles in one iteration, without a workspace.
bool masks(int64_t count, int64_t every) {
    Numbers<uint8_t> mask(count);
    for (int64_t i = 0; i < count; ++i) mask[i] = static_cast<uint8_t>(number(i) % every == 0);
    Numbers<int32_t> x(count), selected(count), placed(count);
    const Launch launch{nullptr, 0, nullptr};
    int64_t counter = -5, found = 0;
    if (MaskedSelect<int32_t>{count, count}.run(x.data(), mask.data(), selected.data(), &counter, launch) != Status::kOk ||
        MaskedScatter<int32_t>{count, count}.run(x.data(), mask.data(), placed.data(), launch) != Status::kOk)
        return false;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t want = mask[i] != 0 ? x[found] : number(i);
        if (fails("placed", i, placed[i], want) || (mask[i] != 0 && fails("selected", found, selected[found], x[i])))
            return false;
        found += mask[i] != 0;
    }
    return !fails("masked", count, counter, found);
}

template <class T, class I>
bool is_one_hot(int64_t rows, int32_t classes) {
    Numbers<I> src(rows);
    for (int64_t r = 0; r < rows; ++r) src[r] = static_cast<I>(number(r) % (classes + 2) - 1);
    Numbers<T> out(rows * classes);
    const OneHot<T, I> op{rows * classes, classes};
    if (op.run(src.data(), out.data(), Launch{nullptr, 0, nullptr}) != Status::kOk) return false;
    for (int64_t i = 0; i < rows * classes; ++i)
        if (fails("one_hot", i, static_cast<int64_t>(out[i]), static_cast<int64_t>(src[i / classes]) == i % classes))
            return false;
    return true;
}

}  // namespace

int main() {
    bool good = true;
    for (const int64_t shift : {0, 1})
        for (const bool shared : {false, true}) {
            good = good && moves<uint32_t, int32_t>("f32", 9, 260, 1, 37, false, shift);
            good = good && moves<uint32_t, int64_t>("f32, i64", 17, 64, 0, 11, shared, shift);
            good = good && moves<uint16_t, int32_t>("f16", 33, 72, 0, 21, shared, shift);
            good = good && moves<uint8_t, int32_t>("u8", 5, 96, 0, 7, shared, shift);
            good = good && moves<uint64_t, int64_t>("f64", 7, 33, 1, 40, false, shift);
            good = good && moves<uint64_t, int32_t>("f64 rows", 40, 34, 0, 9, shared, shift);
        }
    good = good && moves<uint32_t, int32_t>("f32, many lines", 513, 262, 1, 300, false, 0);
    good = good && moves<uint16_t, int64_t>("f16, many lines", 514, 1030, 1, 1031, false, 1);
    for (const bool has_workspace : {false, true})
        for (const bool is_strided : {false, true}) {
            good = good && selects<float>(15000, 3, 0, is_strided, has_workspace);
            good = good && selects<float>(9000, 1, 1, is_strided, has_workspace);
            good = good && selects<uint8_t>(13002, 5, 0, is_strided, has_workspace);
            good = good && selects<double>(9999, 2, 0, is_strided, has_workspace);
            good = good && selects<int16_t>(300, 0, 0, is_strided, has_workspace);
        }
    for (const bool has_workspace : {false, true}) good = good && selects<float>(4096 * 70, 7, 0, false, has_workspace);
    for (const int64_t every : {1, 5}) good = good && masks(4096 * 66 + 5, every);
    for (const int32_t classes : {1, 3, 10, 31, 33, 100}) {
        good = good && is_one_hot<float, int32_t>(61, classes);
        good = good && is_one_hot<uint8_t, int64_t>(61, classes);
    }
    if (good) puts("ok");
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
