// Stands in for native/core/rows/add_runs.cuh, whose rows travel by instructions of a GPU alone: a plain loop.
#pragma once

#include "core/rows/run_parts.cuh"

namespace bk {

template <class Source, class I, class T = typename Source::Element>
Status add_runs(const Launch&, const RunShape& s, const Source& source, const I* ids, T* out, const RunParts<compute_t<T>>&) {
    for (uint32_t row = 0; row < s.rows; ++row)
        for (int64_t c = 0; c < s.columns && ids[row] < static_cast<I>(s.targets); ++c)
            out[ids[row] * s.columns + c] += source.rows[source.index(row) * s.columns + c];
    return Status::kOk;
}

}  // namespace bk
