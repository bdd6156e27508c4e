// SPDX-License-Identifier: Apache-2.0
// where: selects by a condition that any nonzero value satisfies. Selected elements keep their bits.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/math/math.h"
#include "core/reduce/pointwise_sum.h"

namespace bk {

// Works on bits, including those of an integer condition.
template <class Bits, class Cond>
struct WhereFunctor {
    static constexpr bool takes_bits = true;
    BK_HD Bits operator()(Cond cond, Bits a, Bits b) const { return cond != 0 ? a : b; }
};

// C is the bits type if gradients are copied, the compute type if they are summed.
template <class C>
struct WhereBackwardFunctor {
    BK_HD Pack<C, C> operator()(uint8_t cond, C dy) const {
        return pack(math::select(cond != 0, dy, C(0)), math::select(cond != 0, C(0), dy));
    }
};

template <class T>
struct WhereBackward {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const uint8_t* cond, const T* dy, T* da, T* db, const Launch& launch) const {
        using Bits = bits_t<T>;
        if (da == nullptr && db == nullptr) return Status::kOk;
        return pointwise(launch, numel, WhereBackwardFunctor<Bits>{},
                         outputs(reinterpret_cast<Bits*>(da), reinterpret_cast<Bits*>(db)),
                         inputs(cond, reinterpret_cast<const Bits*>(dy)));
    }
};

// A gradient with a stride of 0 is summed over that axis.
template <class T>
struct WhereBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_cond;
    const int64_t* stride_dy;
    const int64_t* stride_da;
    const int64_t* stride_db;

    Work work() const { return work_of_sums(numel, rank, shape, {stride_da, stride_db}); }
    Status check() const {
        return check_shape(
            "numel", numel, rank, "shape", shape,
            {{"stride_cond", stride_cond}, {"stride_dy", stride_dy}, {"stride_da", stride_da}, {"stride_db", stride_db}}, {});
    }
    size_t workspace_size() const { return pointwise_sums_workspace(layout(), Inputs<uint8_t, T>{}, Outputs<T, T>{}); }
    Status run(const uint8_t* cond, const T* dy, T* da, T* db, const Launch& launch) const {
        // A gradient that is not summed is copied by bits, and last, since it may alias dy.
        const bool sums_a = is_summed(layout(), 2), sums_b = is_summed(layout(), 3);
        if (numel == 0 || sums_a || sums_b)
            BK_TRY(pointwise_sums(launch, layout(), WhereBackwardFunctor<compute_t<T>>{},
                                  outputs(numel == 0 || sums_a ? da : nullptr, numel == 0 || sums_b ? db : nullptr),
                                  inputs(cond, dy)));
        using Bits = bits_t<T>;
        Bits* const copied_a = sums_a ? nullptr : reinterpret_cast<Bits*>(da);
        Bits* const copied_b = sums_b ? nullptr : reinterpret_cast<Bits*>(db);
        if (numel == 0 || (copied_a == nullptr && copied_b == nullptr)) return Status::kOk;
        return pointwise_strided(launch, make_layout<4>(rank, shape, {stride_da, stride_db, stride_cond, stride_dy}),
                                 WhereBackwardFunctor<Bits>{}, outputs(copied_a, copied_b),
                                 inputs(cond, reinterpret_cast<const Bits*>(dy)));
    }

private:
    Layout<4> layout() const { return make_layout<4>(rank, shape, {stride_cond, stride_dy, stride_da, stride_db}); }
};

}  // namespace bk
