// SPDX-License-Identifier: Apache-2.0
// Parameters of channels, of T or f32, and their gradients: partial sums that are added in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "core/types/dtype.h"

namespace bk::ssm {

template <class T>
struct Parameter {
    using C = compute_t<T>;
    const void* data;
    bool is_wide;  // f32

    BK_HD bool is_given() const { return data != nullptr; }
    BK_HD C operator[](int64_t i) const {
        return is_wide ? static_cast<C>(static_cast<const float*>(data)[i]) : widen(static_cast<const T*>(data)[i]);
    }
};

template <class T>
struct ParameterOut {
    using C = compute_t<T>;
    void* data;
    bool is_wide, adds;

    BK_HD bool is_given() const { return data != nullptr; }
    BK_HD void put(int64_t i, C value) const {
        if (adds) value += Parameter<T>{data, is_wide}[i];
        if (is_wide)
            static_cast<float*>(data)[i] = static_cast<float>(value);
        else
            static_cast<T*>(data)[i] = narrow<T>(value);
    }
};

// to[i] = sum over o and j of from[o * count * inner + i * inner + j], in this order. A team has one sum, or with is_many
// kSumsOfTeam, of which a thread has one.
constexpr int64_t kSumsOfTeam = 256;

template <class T>
struct ParameterSums {
    using C = compute_t<T>;
    const C* from;
    ParameterOut<T> to;
    int64_t count, inner, outer;
    bool is_many;

    BK_HD void operator()(const Team& team, int64_t item) const {
        if (is_many) {
            for (int64_t k = team.rank; k < kSumsOfTeam && item * kSumsOfTeam + k < count; k += team.size) {
                const int64_t i = item * kSumsOfTeam + k;
                C sum = 0;
                for (int64_t each = 0; each < inner * outer; ++each) sum += at(i, each);
                to.put(i, sum);
            }
            return;
        }
        C mine = 0;
        for (int64_t each = team.rank; each < inner * outer; each += team.size) mine += at(item, each);
        const C sum = team.sum(mine);
        if (team.rank == 0) to.put(item, sum);
    }

private:
    BK_HD C at(int64_t i, int64_t each) const { return from[(each / inner * count + i) * inner + each % inner]; }
};

template <class T>
Status sum_parameters(const Launch& launch, const compute_t<T>* from, const ParameterOut<T>& to, int64_t count, int64_t inner,
                      int64_t outer) {
    if (!to.is_given() || count == 0) return Status::kOk;
    const bool is_many = inner == 1 && count >= 64;
    const int64_t items = is_many ? ceil_div(count, kSumsOfTeam) : count;
    const int64_t bytes = std::min<int64_t>(inner * outer, 4096) * 4 * (is_many ? kSumsOfTeam : 1);
    return run_teams(launch, items, bytes, ParameterSums<T>{from, to, count, inner, outer, is_many});
}

}  // namespace bk::ssm
