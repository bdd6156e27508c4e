// SPDX-License-Identifier: Apache-2.0
// Histograms of few elements by one launch: a block, or a cluster whose blocks sum each other's tables.
#define BK_FIBER_CLUSTERS
#include "search/count_cuda.cuh"

#include "arrays.h"
#include "core/device.cpp"

namespace {

template <class Count>
bool counts_all(int64_t n, int32_t num_bins, int64_t offset) {
    Aligned<float> x(n + offset);
    std::vector<Count> counts(static_cast<size_t>(num_bins), Count{77}), expected(static_cast<size_t>(num_bins));
    for (int64_t i = 0; i < n; ++i) {
        const int64_t bin = (i * i * 31 + i * 7919 + 5) % (num_bins + 2) - 1;  // some are in no bin
        x.data()[i + offset] = static_cast<float>(bin) + 0.5f;
        if (bin >= 0 && bin < num_bins) ++expected[static_cast<size_t>(bin)];
    }
    const Histogram<float, Count> op{n, num_bins, 0.0, static_cast<double>(num_bins)};
    if (op.run(x.data() + offset, counts.data(), Launch{}) != Status::kOk) return false;
    if (counts == expected) return true;
    printf("%lld elements from %lld on, %d bins: wrong counts\n", static_cast<long long>(n), static_cast<long long>(offset),
           num_bins);
    return false;
}

}  // namespace

int main() {
    fibers::cluster_rounds = 3;  // more than the barriers of a cluster
    bool is_right = true;
    for (const int64_t n : {1, 8192, 8193, 30001, 65536, 65537})
        for (const int32_t num_bins : {1, 7, 600, 4096, 5000})
            is_right &= counts_all<uint32_t>(n, num_bins, 0) && counts_all<uint64_t>(n, num_bins, 3);
    if (!is_right) return 1;
    puts("ok");
}
