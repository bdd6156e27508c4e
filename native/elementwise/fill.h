// SPDX-License-Identifier: Apache-2.0
// fill: y = value.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Type of the `value` parameter: T, or its bits if C has no such type.
template <class T>
using fill_value_t = std::conditional_t<std::is_arithmetic_v<T>, T, bits_t<T>>;

template <class Bits>
struct FillFunctor {
    Bits value;
    BK_HD Bits operator()() const { return value; }
};

template <class T>
struct Fill {
    int64_t numel;
    fill_value_t<T> value;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(T* y, const Launch& launch) const {
        using Bits = bits_t<T>;
        return pointwise(launch, numel, FillFunctor<Bits>{bit_cast<Bits>(value)}, outputs(reinterpret_cast<Bits*>(y)),
                         inputs());
    }
};

template <class T>
struct FillStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_y;
    fill_value_t<T> value;

    Work work() const { return all_or_none(numel); }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        BK_TRY(require_rank(rank));
        if (numel > kMaxOperandBytes / static_cast<int64_t>(sizeof(T)))
            return fail(Status::kInvalidProblem, "numel is %lld: y would have more than 2^47 bytes",
                        static_cast<long long>(numel));
        return Status::kOk;
    }
    Status check() const {
        BK_TRY(check_scalars());
        return check_shape("numel", numel, rank, "shape", shape, {}, {{"stride_y", stride_y}});
    }
    Status run(T* y, const Launch& launch) const {
        using Bits = bits_t<T>;
        return pointwise_strided(launch, make_layout<1>(rank, shape, {stride_y}), FillFunctor<Bits>{bit_cast<Bits>(value)},
                                 outputs(reinterpret_cast<Bits*>(y)), inputs());
    }
};

}  // namespace bk
