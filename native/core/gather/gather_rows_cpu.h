// SPDX-License-Identifier: Apache-2.0
// CPU row gather with software prefetch: hardware does not predict indexed rows.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/copy/copy_row_cpu.h"
#include "core/gather/gather_rows.h"

namespace bk {

// y[i] = x[index[i]] for contiguous rows.
template <class T, class I>
struct IndexedRows {
    static constexpr int64_t kAhead = 8;
    T* y;
    const I* index;
    const T* x;
    int64_t y_step, index_step, x_step, columns;

    // Copies i in [begin, end); calls missing(y[i]) for an index that keeps() rejects.
    template <class Keeps, class Missing>
    BK_HD void copy(int64_t begin, int64_t end, const Keeps& keeps, const Missing& missing) const {
        const size_t bytes = sizeof(T) * static_cast<size_t>(columns);
        for (int64_t i = begin; i < end; ++i) {
            if (i + kAhead < end)
                if (const int64_t next = index[(i + kAhead) * index_step]; keeps(next)) {
                    const char* const from = reinterpret_cast<const char*>(x + next * x_step);
                    for (size_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(from + byte);
                }
            const int64_t source = index[i * index_step];
            if (keeps(source))
                copy_row(y + i * y_step, x + source * x_step, bytes);
            else
                missing(y + i * y_step);
        }
    }
};

template <class T, class I>
Status gather_rows(const Launch&, const GatherShape& shape, const T* x, const I* index, T* y) {
    const int64_t columns = shape.columns;
    const size_t bytes = sizeof(T) * static_cast<size_t>(columns);
    const IndexedRows<T, I> rows{y, index, x, columns, 1, columns, columns};
    parallel_ranges(shape.rows, grain_for(static_cast<int64_t>(2 * bytes)), [&](int64_t begin, int64_t end) {
        rows.copy(begin, end, [&](int64_t i) { return shape.keeps(i); }, [&](T* to) { memset(to, 0, bytes); });
    });
    return Status::kOk;
}

}  // namespace bk
