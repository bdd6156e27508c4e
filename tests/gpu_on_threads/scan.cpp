// SPDX-License-Identifier: Apache-2.0
// Scan kernels on fibers against a plain loop: contiguous and strided rows, within a warp, by blocks and by chunks.
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "core/scan/scan.h"
#include "scan/operators.h"
#include "scan/suffix_operators.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

// Exact sums that also check the index of every call.
struct CheckedSum {
    static constexpr int kLookaheadInput = 1;
    struct State {
        int64_t sum, items;
    };
    State identity() const { return {0, 0}; }
    State lift(int64_t i, float x, float) const { return {static_cast<int64_t>(x) * (i + 1), 1}; }
    State combine(const State& earlier, const State& later) const {
        return {earlier.sum + later.sum, earlier.items + later.items};
    }
    Pack<double, double> value(int64_t i, const State& before, const State& through, float x, float next) const {
        const bool counts = before.items == i && through.items == i + 1 && through.sum - before.sum == int64_t(x) * (i + 1);
        return pack(counts ? double(through.sum) : -1e18, double(next));
    }
};

struct Problem {
    int64_t rows, length;
    bool is_across, is_reversed, is_padded;
    int shift;
};

float x_of(int64_t k) { return static_cast<float>((k * 7919) % 13 - 6); }

int failures = 0;

void check(const Problem& p, bool has_workspace) {
    const int64_t pad = p.is_padded ? 3 : 0;
    const int64_t row_step = p.is_across ? 1 : p.length + pad, step = p.is_across ? p.rows + pad : 1;
    const size_t cells = static_cast<size_t>((p.rows + pad) * (p.length + pad) + 64);
    std::vector<float> memory(cells);
    std::vector<double> sums(cells, 0.5), nexts(cells, 0.5);
    for (size_t k = 0; k < cells; ++k) memory[k] = x_of(static_cast<int64_t>(k));
    const int64_t lead = (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16 / 4 + p.shift;
    const float* const x = memory.data() + lead;
    double *const y = sums.data() + p.shift, *const next = nexts.data() + p.shift;
    ScanAxes<4> axes;
    axes.rows.append(p.rows, {row_step, row_step, row_step, row_step});
    axes.length = p.length;
    for (int64_t& each : axes.step) each = step;
    std::vector<char> workspace(has_workspace ? scan_workspace<float, CheckedSum>(axes) : 0);
    const Launch launch{workspace.data(), workspace.size(), nullptr};
    if (scan(launch, axes, CheckedSum{}, outputs(y, next), inputs(x, x), p.is_reversed) != Status::kOk) ++failures;
    int64_t wrong = 0, written = 0;
    for (int64_t r = 0; r < p.rows; ++r) {
        int64_t sum = 0;
        for (int64_t i = 0; i < p.length; ++i) {
            const int64_t at = r * row_step + (p.is_reversed ? p.length - 1 - i : i) * step;
            const int64_t after = at + (p.is_reversed ? -step : step);
            sum += static_cast<int64_t>(x[at]) * (i + 1);
            if (y[at] != double(sum) || next[at] != (i + 1 < p.length ? double(x[after]) : 1.0)) ++wrong;
        }
    }
    for (double value : sums) written += value != 0.5;
    if (wrong != 0 || written != p.rows * p.length) {
        printf("%lld rows of %lld, across %d, reversed %d, padded %d, shift %d, workspace %zu: %lld are wrong, %lld written\n",
               (long long)p.rows, (long long)p.length, p.is_across, p.is_reversed, p.is_padded, p.shift, workspace.size(),
               (long long)wrong, (long long)written);
        ++failures;
    }
}

// An in-place scan without a workspace gives the same bits as one into another array.
void check_in_place(const Problem& p) {
    const int64_t row_step = p.is_across ? 1 : p.length, step = p.is_across ? p.rows : 1;
    std::vector<float> x(static_cast<size_t>(p.rows * p.length)), y(x.size());
    for (size_t k = 0; k < x.size(); ++k) x[k] = 0.1f * x_of(static_cast<int64_t>(k));
    ScanAxes<2> axes;
    axes.rows.append(p.rows, {row_step, row_step});
    axes.length = p.length;
    for (int64_t& each : axes.step) each = step;
    const RunningSum<float> sum{false};
    const Launch launch{nullptr, 0, nullptr};
    const float* const items = x.data();
    if (scan(launch, axes, sum, outputs(y.data()), inputs(items), p.is_reversed) != Status::kOk ||
        scan(launch, axes, sum, outputs(x.data()), inputs(items), p.is_reversed) != Status::kOk || x != y) {
        printf("%lld rows of %lld, across %d, reversed %d: in place they differ\n", (long long)p.rows, (long long)p.length,
               p.is_across, p.is_reversed);
        ++failures;
    }
}

}  // namespace

int main() {
    const int64_t shapes[][2] = {{1, 1},   {5, 3},    {70, 8},   {3, 31},  {2, 200},
                                 {2, 513}, {1, 1030}, {1, 9001}, {40, 70}, {40, 300}};
    int kind = 0;
    for (const auto& shape : shapes)
        for (const bool is_across : {false, true})
            for (const bool is_reversed : {false, true}) {
                ++kind;
                const Problem p{shape[0], shape[1], is_across, is_reversed, kind % 3 == 1, kind % 5 == 2 ? 1 : 0};
                check(p, false);
                check(p, true);
            }
    check({1, 140000, false, false, false, 0}, true);  // more chunks than a look-back batch has
    // Several chunks; the last one differs in length.
    check({1, 69633, false, false, false, 0}, false);
    check({2, 70000, false, true, true, 1}, false);
    check({40, 2500, true, false, true, 0}, false);
    check({3, 2049, true, true, false, 0}, false);
    check_in_place({1, 69633, false, false, false, 0});
    check_in_place({3, 70001, false, true, false, 0});
    check_in_place({40, 5000, true, false, false, 0});
    if (failures == 0) printf("ok\n");
    return failures != 0;
}
