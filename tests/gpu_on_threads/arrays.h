// SPDX-License-Identifier: Apache-2.0
// Arrays of reproducible values, and the comparison with a double-precision reference, for the programs that include
// it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "core/abi/status.h"
#include "core/types/dtype.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

float value_at(int64_t i) { return static_cast<float>((i * 37 + 11) % 29 - 14) / 4; }

template <class T>
struct alignas(16) Aligned {
    std::vector<uint4> memory;
    explicit Aligned(int64_t count, int64_t seed = -1) : memory(static_cast<size_t>(count) * sizeof(T) / 16 + 2) {
        for (int64_t i = 0; i < count; ++i) data()[i] = narrow<T>(seed < 0 ? 99.0f : value_at(i + seed));
    }
    T* data() { return reinterpret_cast<T*>(memory.data()); }
    double at(int64_t i) { return static_cast<double>(widen(data()[i])); }
};

template <class T>
bool is_near(const char* what, T got, double want, double size) {
    const double bound = (sizeof(T) == 2 ? 1e-2 : 1e-5) * std::fmax(size, 1.0);
    if (std::fabs(static_cast<double>(widen(got)) - want) <= bound) return true;
    printf("%s: %g, expected %g\n", what, static_cast<double>(widen(got)), want);
    return false;
}

}  // namespace
