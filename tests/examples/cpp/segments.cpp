// Sums rows by segment, ids in any order, with the workspace that the op asks for; then a call that fails.
#include <baracuda/segment.hpp>
#include <cstdio>
#include <vector>

namespace bk = baracuda;

int main() {
    const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // 6 rows of 2
    const std::vector<std::int32_t> ids = {2, 0, 3, 2, 0, 2};
    std::vector<float> y(4 * 2);

    // Host memory and no stream, for the CPU library. The CUDA library takes device pointers, a cudaStream_t, and a
    // workspace whose allocator calls cudaMallocAsync and cudaFreeAsync.
    bk::workspace scratch(bk::host_allocator());
    const bk::launch on = {bk::stream(), &scratch};
    bk::unsorted_segment_sum(6, 2, 4, x.data(), ids.data(), y.data(), on);
    for (int s = 0; s < 4; ++s) std::printf("%g %g\n", y[2 * s], y[2 * s + 1]);

    try {
        bk::unsorted_segment_sum(-6, 2, 4, x.data(), ids.data(), y.data(), on);
    } catch (const bk::error& error) {
        std::printf("invalid problem: %s\n", error.what());
        return error.code() == bk::status::invalid_problem ? 0 : 1;
    }
    return 1;
}
