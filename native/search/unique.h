// SPDX-License-Identifier: Apache-2.0
// unique: a stable sort (core/sort), then the runs of equal elements (search/runs.h).
#pragma once

#include <cstdint>

#include "core/sort/sort_rows.h"
#include "search/runs.h"
#if BK_CUDA
#include "search/runs_cuda.cuh"
#else
#include "search/runs_cpu.h"
#endif

namespace bk {

template <class T, class I>
struct Unique {
    int64_t n;
    int64_t max_unique;
    int32_t equal_nan;

    UniqueRuns<T, I> runs() const { return {n, 1, max_unique, equal_nan}; }
    Work work() const { return runs().work(); }
    Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"max_unique", max_unique}}));
        return runs().check();
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        return carver.bytes();
    }
    Status run(const T* x, T* values, I* first, I* inverse, I* counts, I* counter, const Launch& launch) const {
        if (n == 0) return runs().run(x, nullptr, values, first, inverse, counts, counter, launch);
        if (!workspace_holds(launch, workspace_size()))
            return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                        launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, workspace_size());
        Carver carver(launch.workspace);
        const Scratch scratch = carve(&carver);
        const bool needs_order = first != nullptr || inverse != nullptr;
        const Launch sorting{scratch.sort, scratch.sort_bytes, launch.stream};
        BK_TRY(sort_rows(sorting, sorted(), {x, scratch.values, nullptr, needs_order ? scratch.order : nullptr}));
        const Launch selecting{scratch.select, scratch.select_bytes, launch.stream};
        return runs().run(scratch.values, needs_order ? scratch.order : nullptr, values, first, inverse, counts, counter,
                          selecting);
    }

private:
    struct Scratch {
        T* values;
        I* order;
        void* sort;
        size_t sort_bytes;
        void* select;
        size_t select_bytes;
    };
    SortProblem sorted() const { return sort_problem<T>(1, n, false, sizeof(I)); }
    Scratch carve(Carver* carver) const {
        Scratch scratch{};
        scratch.values = carver->take<T>(n);
        scratch.order = carver->take<I>(n);
        scratch.sort_bytes = sort_rows_workspace(sorted());
        scratch.sort = carver->take<char>(static_cast<int64_t>(scratch.sort_bytes));
        scratch.select_bytes = select_workspace(n);
        scratch.select = carver->take<char>(static_cast<int64_t>(scratch.select_bytes));
        return scratch;
    }
};

template <class T>
struct UniqueRows {
    int32_t batch;
    int32_t row_len;
    int32_t max_unique;

    UniqueConsecutive<T> runs() const { return {batch, row_len, max_unique}; }
    Work work() const { return runs().work(); }
    Status check() const { return runs().check(); }
    size_t workspace_size() const {
        const size_t sorting = sort_rows_workspace(sorted()), selecting = runs().workspace_size();
        return sorting > selecting ? sorting : selecting;
    }
    Status run(const T* x, T* sorted_scratch, int32_t* sorted_idx_scratch, T* y_vals, int32_t* y_counts, int32_t* counter,
               const Launch& launch) const {
        if (row_len > 0) BK_TRY(sort_rows(launch, sorted(), {x, sorted_scratch, nullptr, sorted_idx_scratch}));
        return runs().run(row_len > 0 ? sorted_scratch : x, y_vals, y_counts, counter, launch);
    }

private:
    SortProblem sorted() const { return sort_problem<T>(batch, row_len, false, 4); }
};

}  // namespace bk
