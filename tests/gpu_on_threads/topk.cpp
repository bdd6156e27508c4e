// SPDX-License-Identifier: Apache-2.0
// Top-k and order statistics on fibers against a stable sort, on orders that fill the buffer of candidates again and again.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "core/sort/sort_rows.cu"
#include "core/topk/top_k_32bit.cu"
#include "core/topk/top_k_64bit.cu"
#include "core/topk/top_k_8bit.cu"

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

int failures = 0;

enum Order { kRandom, kRising, kFalling, kEqual, kClose };

template <class T>
std::vector<T> row_of(int64_t length, Order order, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<T> row(static_cast<size_t>(length));
    for (size_t i = 0; i < row.size(); ++i)
        row[i] = order == kEqual ? T(1) : order == kClose ? T(100 + random() % 3) : static_cast<T>(random() >> 1);
    if (order == kRising) std::sort(row.begin(), row.end());
    if (order == kFalling) std::sort(row.rbegin(), row.rend());
    return row;
}

template <class T>
void check(int64_t length, int64_t k, Order kind, bool largest, bool is_sorted, int64_t shift, bool has_workspace = false) {
    constexpr int64_t kRows = 2;
    std::vector<T> x(static_cast<size_t>(shift));  // misaligned rows
    for (unsigned r = 0; r < kRows; ++r) {
        const std::vector<T> row = row_of<T>(length, kind, r + 1);
        x.insert(x.end(), row.begin(), row.end());
    }
    std::vector<T> values(static_cast<size_t>(kRows * k));
    std::vector<int64_t> indices(static_cast<size_t>(kRows * k), -2);
    TopKRows<bits_t<T>> rows;
    rows.rows.append(kRows, {length, k, k});
    rows.length = length;
    rows.results = k;
    rows.is_sorted = is_sorted;
    rows.order = key_order<T>(largest);
    std::vector<char> workspace(has_workspace ? top_k_workspace(rows) : 0);
    const Launch launch{workspace.empty() ? nullptr : workspace.data(), workspace.size(), nullptr};
    const Status status = select_top_k(launch, rows, reinterpret_cast<const bits_t<T>*>(x.data() + shift),
                                       reinterpret_cast<bits_t<T>*>(values.data()), IndexArray{indices.data(), true});
    bool is_right = status == Status::kOk;
    for (int64_t r = 0; r < kRows; ++r) {
        const T* const row = x.data() + shift + r * length;
        std::vector<int64_t> order(static_cast<size_t>(length));
        std::iota(order.begin(), order.end(), int64_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return largest ? row[a] > row[b] : row[a] < row[b]; });
        if (!is_sorted) std::sort(order.begin(), order.begin() + k);
        for (int64_t j = 0; j < k; ++j) {
            const int64_t index = order[static_cast<size_t>(j)];
            is_right = is_right && indices[static_cast<size_t>(r * k + j)] == index &&
                       values[static_cast<size_t>(r * k + j)] == row[index];
        }
    }
    if (is_right) return;
    ++failures;
    printf("top %lld of %lld, elements of %d bytes, order %d, largest %d, sorted %d\n", (long long)k, (long long)length,
           static_cast<int>(sizeof(T)), kind, largest, is_sorted);
}

void check_rank(int64_t length, int64_t rank, Order kind) {
    std::vector<float> x = row_of<float>(length, kind, 5);
    float value = 0;
    int64_t index = -1;
    RankRows<uint32_t> rows;
    rows.rows.append(1, {length, 1, 1});
    rows.length = length;
    rows.order = key_order<float>(false);
    rows.rule.rank = rank;
    RankOutputs<uint32_t> outputs;
    outputs.values = reinterpret_cast<uint32_t*>(&value);
    outputs.lower = {&index, true};
    const Status status = select_ranks(Launch{nullptr, 0, nullptr}, rows, reinterpret_cast<const uint32_t*>(x.data()), outputs);
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return x[static_cast<size_t>(a)] < x[static_cast<size_t>(b)]; });
    const int64_t want = order[static_cast<size_t>(rank)];
    if (status == Status::kOk && index == want && value == x[static_cast<size_t>(want)]) return;
    ++failures;
    printf("rank %lld of %lld, order %d: index %lld, expected %lld\n", (long long)rank, (long long)length, kind,
           (long long)index, (long long)want);
}

}  // namespace

int main() {
    for (const Order kind : {kRandom, kRising, kFalling, kEqual, kClose}) {
        check<float>(17, 5, kind, true, true, 0);
        check<float>(4097, 64, kind, true, true, 1);
        check<float>(20000, 64, kind, false, true, 0);
        check<float>(13000, 2000, kind, true, false, 0);
        check<float>(6000, 2500, kind, false, true, 3);
        check<float>(6000, 2500, kind, false, true, 3, true);
        check<double>(2600, 2100, kind, true, true, 0, true);
        check<double>(9000, 700, kind, true, true, 0);
        check<uint8_t>(20001, 300, kind, false, true, 0);
        check_rank(3000, 1234, kind);
        check_rank(1, 0, kind);
    }
    check<float>(2100, 2100, kRandom, true, true, 0);
    check<double>(1025, 1024, kRandom, false, false, 0);
    if (failures == 0) printf("ok\n");
    return failures != 0;
}
