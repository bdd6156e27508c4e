// SPDX-License-Identifier: Apache-2.0
// masked_fill, masked_select, masked_scatter. A mask has one byte an element; any byte but 0 selects.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/select/select_indices.h"
#include "core/types/complex.h"

namespace bk {

// Works on bits; the value is in the low bytes of fill_bits, 16-byte values in two halves.
template <class Bits>
struct MaskedFillFunctor {
    static constexpr bool takes_bits = true;
    Bits value;
    static MaskedFillFunctor from(int64_t fill_bits) { return {static_cast<Bits>(fill_bits)}; }
    static MaskedFillFunctor from(int64_t low, int64_t high) {
        return {{{static_cast<uint64_t>(low), static_cast<uint64_t>(high)}}};
    }
    BK_HD Bits operator()(Bits x, uint8_t mask) const { return math::select(mask != 0, value, x); }
};

template <class Bits>
struct MaskedFillBackwardFunctor {
    static constexpr bool takes_bits = true;
    BK_HD Bits operator()(Bits dy, uint8_t mask) const { return math::select(mask != 0, Bits{}, dy); }
};

// select(predicate) with the predicate "the element has a bit of `mask`".
template <class Bits, class Select>
Status with_predicate(const Bits* x, const std::common_type_t<Bits>& mask, const Layout<1>& given, const Select& select) {
    Layout<1> layout = given;
    if (layout.is_contiguous(0) && is_aligned(x, kVectorBytes)) return select(DensePredicate<Bits>{x, mask});
    return select(StridedPredicate<Bits>(x, mask, layout));
}

inline Layout<1> flat_layout(int64_t numel) {
    Layout<1> row;
    row.append(numel, {1});
    return row;
}

// y[rank] = x[index]
template <class Bits>
struct GatherSelected {
    using Value = Bits;
    static constexpr bool reads_index_only = true;
    const Bits* x;
    Bits* y;
    int64_t limit;
    int64_t* counter;
    BK_HD Bits read(int64_t, int64_t index) const { return x[index]; }
    BK_HD void put(int64_t rank, int64_t, Bits value) const {
        if (rank < limit) y[rank] = value;
    }
    BK_HD void operator()(int64_t rank, int64_t index) const {
        if (rank < limit) put(rank, index, read(rank, index));
    }
    BK_HD void total(int64_t count) const { *counter = count; }
};

// y[index] = x[rank]
template <class Bits>
struct ScatterToSelected {
    using Value = Bits;
    static constexpr bool reads_index_only = false;
    const Bits* x;
    Bits* y;
    int64_t limit;
    BK_HD Bits read(int64_t rank, int64_t) const { return rank < limit ? x[rank] : Bits{}; }
    BK_HD void put(int64_t rank, int64_t index, Bits value) const {
        if (rank < limit) y[index] = value;
    }
    BK_HD void operator()(int64_t rank, int64_t index) const { put(rank, index, read(rank, index)); }
    BK_HD void total(int64_t) const {}
};

template <class T>
struct MaskedSelect {
    int64_t numel;
    int64_t max_selected;

    Work work() const { return numel == 0 ? Work::kZeros : Work::kAll; }
    Status check() const { return require_non_negative({{"numel", numel}, {"max_selected", max_selected}}); }
    size_t workspace_size() const { return select_workspace(numel); }
    Status run(const T* src, const uint8_t* mask, T* out, int64_t* counter, const Launch& launch) const {
        using Bits = bits_t<T>;
        if (work() == Work::kZeros) return write_zeros(launch, 1, counter);
        const GatherSelected<Bits> sink{reinterpret_cast<const Bits*>(src), reinterpret_cast<Bits*>(out), max_selected,
                                        counter};
        return with_predicate(mask, 0xff, flat_layout(numel),
                              [&](const auto& predicate) { return select_indices(launch, numel, predicate, sink); });
    }
};

template <class T>
struct MaskedSelectBackward {
    int64_t numel;
    int64_t max_selected;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}, {"max_selected", max_selected}}); }
    size_t workspace_size() const { return select_workspace(numel); }
    Status run(const T* dout, const uint8_t* mask, T* dsrc, const Launch& launch) const {
        using Bits = bits_t<T>;
        BK_TRY(write_zeros(launch, numel * kWords<T>, words_of(dsrc)));
        const ScatterToSelected<Bits> sink{reinterpret_cast<const Bits*>(dout), reinterpret_cast<Bits*>(dsrc), max_selected};
        return with_predicate(mask, 0xff, flat_layout(numel),
                              [&](const auto& predicate) { return select_indices(launch, numel, predicate, sink); });
    }
};

template <class T>
struct MaskedScatter {
    int64_t numel;
    int64_t source_numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}, {"source_numel", source_numel}}); }
    size_t workspace_size() const { return select_workspace(numel); }
    Status run(const T* source, const uint8_t* mask, T* out, const Launch& launch) const {
        using Bits = bits_t<T>;
        const ScatterToSelected<Bits> sink{reinterpret_cast<const Bits*>(source), reinterpret_cast<Bits*>(out), source_numel};
        return with_predicate(mask, 0xff, flat_layout(numel),
                              [&](const auto& predicate) { return select_indices(launch, numel, predicate, sink); });
    }
};

}  // namespace bk
