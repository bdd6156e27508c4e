#pragma once

#include <cstdint>
#include <cstring>

#include "core/rows/gather_rows.h"

namespace bk {

template <class T, class I>
Status gather_rows(const Launch&, const GatherShape& shape, const T* x, const I* index, T* y) {
    const size_t bytes = sizeof(T) * static_cast<size_t>(shape.columns);
    parallel_ranges(shape.rows, grain_for(static_cast<int64_t>(2 * bytes)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t source = index[i];
            if (shape.keeps(source))
                memcpy(y + i * shape.columns, x + source * shape.columns, bytes);
            else
                memset(y + i * shape.columns, 0, bytes);
        }
    });
    return Status::kOk;
}

}  // namespace bk
