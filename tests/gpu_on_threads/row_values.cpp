// SPDX-License-Identifier: Apache-2.0
// Loss sums without a workspace on fibers (tests/gpu_on_threads/core): rows owned by threads, warps or blocks, by
// vectors or by single elements, against plain loops in double.
#include "arrays.h"
#include "core/abi/launch.h"
#include "loss/cross_entropy/cross_entropy.h"
#include "loss/margin_loss.h"

namespace {

struct Shape {
    int64_t items;
    int32_t classes;
    int64_t inner, gap;  // between items
    int64_t rows() const { return items * inner; }
    int64_t stride() const { return classes * inner + gap; }
    int64_t at(int64_t row, int64_t j) const { return row / inner * stride() + j * inner + row % inner; }
};

// Target classes; some are -1.
std::vector<int64_t> targets_of(const Shape& shape) {
    std::vector<int64_t> target(static_cast<size_t>(shape.rows()));
    for (size_t r = 0; r < target.size(); ++r)
        target[r] = r % 11 == 5 ? -1 : static_cast<int64_t>(r * 7919 + 3) % shape.classes;
    return target;
}

bool is_right(const char* what, const Shape& shape, double got, double want, double size, double bound) {
    if (std::fabs(got - want) <= bound * size) return true;
    printf("%s of %d x %d x %d, gap %d: %.9g, expected %.9g\n", what, static_cast<int>(shape.items), shape.classes,
           static_cast<int>(shape.inner), static_cast<int>(shape.gap), got, want);
    return false;
}

template <class T>
constexpr double kBound = sizeof(T) == 2 ? 4e-3 : 2e-6;

template <class T>
bool has_cross_entropy(const Shape& shape, int64_t shift, double smoothing) {
    Aligned<T> x(shape.items * shape.stride() + 8, 5);
    const std::vector<int64_t> target = targets_of(shape);
    const WeightedCrossEntropy<int64_t, T> op{
        {shape.items, shape.classes, shape.inner, shape.stride(), kReductionSum, -1, smoothing, 0.0}};
    T out = narrow<T>(-5.0f);
    double divisor = 0, want = 0, size = 1;
    if (op.run(x.data() + shift, target.data(), nullptr, &out, &divisor, Launch{nullptr, 0, nullptr}) != Status::kOk)
        return false;
    for (int64_t r = 0; r < shape.rows(); ++r) {
        const int64_t t = target[static_cast<size_t>(r)];
        if (t < 0) continue;
        double sum = 0, all = 0;
        for (int64_t j = 0; j < shape.classes; ++j) {
            const double element = x.at(shift + shape.at(r, j));
            sum += std::exp(element), all += element;
        }
        const double loss = std::log(sum) - (1 - smoothing) * x.at(shift + shape.at(r, t)) - smoothing * all / shape.classes;
        want += loss, size += std::fabs(loss);
    }
    return is_right("cross entropy", shape, static_cast<double>(widen(out)), want, size, kBound<T>);
}

template <class T>
bool has_margins(const Shape& shape, int64_t shift) {
    Aligned<T> x(shape.items * shape.stride() + 8, 5);
    const std::vector<int64_t> target = targets_of(shape);
    const MultiMargin<T> op{shape.items, shape.classes, shape.stride(), kReductionMean, 1.0f, 1.0f};
    T out = narrow<T>(-5.0f);
    double want = 0;
    if (op.run(x.data() + shift, target.data(), &out, Launch{nullptr, 0, nullptr}) != Status::kOk) return false;
    for (int64_t r = 0; r < shape.rows(); ++r) {
        const int64_t t = target[static_cast<size_t>(r)];
        if (t < 0) continue;
        double sum = 0;
        for (int64_t j = 0; j < shape.classes; ++j)
            if (j != t) sum += std::fmax(0, 1 - x.at(shift + shape.at(r, t)) + x.at(shift + shape.at(r, j)));
        want += sum / shape.classes;
    }
    want /= static_cast<double>(shape.rows());
    return is_right("margins", shape, static_cast<double>(widen(out)), want, std::fmax(want, 1), kBound<T>);
}

template <class T>
bool all_right() {
    constexpr Shape kShapes[] = {
        {1, 1, 1, 0},     {1, 1000, 1, 0},  {3, 7, 1, 0},  {500, 40, 1, 0}, {300, 33, 1, 1}, {200, 1032, 1, 8}, {2, 4100, 1, 0},
        {2, 26000, 1, 0}, {11, 2051, 1, 2}, {70, 9, 3, 0}, {9, 33, 70, 4},  {3, 1300, 9, 0}, {2, 17, 1000, 5},  {1, 3, 9000, 0},
    };
    bool right = true;
    for (const Shape& shape : kShapes)
        for (const int64_t shift : {0, 1}) {
            right = has_cross_entropy<T>(shape, shift, 0.0) && right;
            right = has_cross_entropy<T>(shape, shift, 0.1) && right;
            if (shape.inner == 1) right = has_margins<T>(shape, shift) && right;
        }
    return right;
}

}  // namespace

int main() {
    bool right = all_right<float>();
    right = all_right<bf16>() && right;
    right = all_right<double>() && right;
    if (right) puts("ok");
    return right ? 0 : 1;
}
