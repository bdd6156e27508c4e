// SPDX-License-Identifier: Apache-2.0
// bincount, histogram: numbers of elements by bin (search/bins.h), exact and deterministic.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "search/bins.h"

namespace bk {

// counts[b] = the number of elements of x in bin b < num_bins, modulo 2^width of Count.
template <class Bins, class Count>
Status count_bins(const Launch& launch, const Bins& bins, const typename Bins::Element* x, int64_t n, int64_t num_bins,
                  Count* counts);

// output[i] = the bin of x[i], or -1.
template <class Bins>
Status find_bins(const Launch& launch, const Bins& bins, const typename Bins::Element* x, int64_t n, int32_t* output);

template <class Count>
Status clear_counts(const Launch& launch, int64_t num_bins, Count* counts) {
    return fill_bytes(launch, counts, 0, sizeof(Count) * static_cast<size_t>(num_bins));
}

inline Status check_bins(int64_t n, int32_t num_bins) { return require_non_negative({{"n", n}, {"num_bins", num_bins}}); }
inline Work count_work(int64_t n, int32_t num_bins) { return num_bins == 0 ? Work::kNone : n == 0 ? Work::kZeros : Work::kAll; }

template <class T, class Count>
struct Bincount {
    int64_t n;
    int32_t num_bins;

    Work work() const { return count_work(n, num_bins); }
    Status check() const { return check_bins(n, num_bins); }
    Status run(const T* x, Count* output, const Launch& launch) const {
        if (n == 0) return clear_counts(launch, num_bins, output);
        using Bits = bits_t<T>;
        // Elements above the largest T are negative ones.
        constexpr auto largest = static_cast<uint64_t>(std::numeric_limits<T>::max());
        const auto wanted = static_cast<uint64_t>(num_bins);
        const IntegerBins<Bits> bins{largest < wanted ? largest + 1 : wanted};
        return count_bins(launch, bins, reinterpret_cast<const Bits*>(x), n, num_bins, output);
    }
};

// low < high, both finite, in the dtype of x and as f64.
template <class T>
Status check_range(double low, double high) {
    using Bins = UniformBins<T>;
    const auto rounded_low = static_cast<double>(Bins::rounded(low)), rounded_high = static_cast<double>(Bins::rounded(high));
    if (!std::isfinite(rounded_low)) return fail(Status::kInvalidProblem, "lo_d is %g, must be finite in the dtype of x", low);
    if (!std::isfinite(rounded_high) || !std::isfinite(high - low))
        return fail(Status::kInvalidProblem, "hi_d is %g, must be finite in the dtype of x, as hi_d - lo_d", high);
    if (!(rounded_high > rounded_low))
        return fail(Status::kInvalidProblem, "hi_d is %g, must be > lo_d, %g, in the dtype of x", high, low);
    return Status::kOk;
}

template <class T, class Count>
struct Histogram {
    int64_t n;
    int32_t num_bins;
    double lo_d;
    double hi_d;

    Work work() const { return count_work(n, num_bins); }
    Status check() const {
        BK_TRY(check_bins(n, num_bins));
        return check_range<T>(lo_d, hi_d);
    }
    Status run(const T* x, Count* output, const Launch& launch) const {
        if (n == 0) return clear_counts(launch, num_bins, output);
        return count_bins(launch, UniformBins<T>::make(num_bins, lo_d, hi_d), x, n, num_bins, output);
    }
};

template <class T>
struct HistogramBins {
    int64_t n;
    int32_t num_bins;
    double lo_d;
    double hi_d;

    Work work() const { return all_or_none(n); }
    Status check() const {
        BK_TRY(check_bins(n, num_bins));
        return check_range<T>(lo_d, hi_d);
    }
    Status run(const T* x, int32_t* output, const Launch& launch) const {
        return find_bins(launch, UniformBins<T>::make(num_bins, lo_d, hi_d), x, n, output);
    }
};

template <class T>
EdgeBins<bits_t<T>> edge_bins(const T* edges, int32_t num_bins) {
    return {sorted_keys(edges, int64_t{num_bins} + 1, true, true), num_bins};
}

template <class T, class Count>
struct HistogramEdges {
    int64_t n;
    int32_t num_bins;

    int64_t num_edges() const { return int64_t{num_bins} + 1; }
    Work work() const { return count_work(n, num_bins); }
    Status check() const { return check_bins(n, num_bins); }
    Status run(const T* x, const T* edges, Count* output, const Launch& launch) const {
        if (n == 0) return clear_counts(launch, num_bins, output);
        return count_bins(launch, edge_bins(edges, num_bins), reinterpret_cast<const bits_t<T>*>(x), n, num_bins, output);
    }
};

template <class T>
struct HistogramEdgesBins {
    int64_t n;
    int32_t num_bins;

    int64_t num_edges() const { return int64_t{num_bins} + 1; }
    Work work() const { return all_or_none(n); }
    Status check() const { return check_bins(n, num_bins); }
    Status run(const T* x, const T* edges, int32_t* output, const Launch& launch) const {
        return find_bins(launch, edge_bins(edges, num_bins), reinterpret_cast<const bits_t<T>*>(x), n, output);
    }
};

}  // namespace bk
