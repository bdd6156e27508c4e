// Elements that a mask, of one byte each, chooses: any byte but 0 does.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/select_places.h"
#include "core/types/complex.h"

namespace bk {

// Of bits; the value is in the low bytes of what the caller passes, of elements of 16 bytes in two parts.
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

// select(truth) with a Truth of the elements of a layout that have a bit of `mask`.
template <class Bits, class Select>
Status with_truth(const Bits* x, const std::common_type_t<Bits>& mask, const Layout<1>& given, const Select& select) {
    Layout<1> layout = given;
    if (layout.is_contiguous(0) && is_aligned(x, kVectorBytes)) return select(DenseTruth<Bits>{x, mask});
    return select(StridedTruth<Bits>(x, mask, layout));
}

inline Layout<1> row_of(int64_t numel) {
    Layout<1> row;
    row.append(numel, {1});
    return row;
}

// y[number] = x[place]
template <class Bits>
struct WriteSelected {
    using Value = Bits;
    static constexpr bool reads_places = true;
    const Bits* x;
    Bits* y;
    int64_t most;
    int64_t* counter;
    BK_HD Bits read(int64_t, int64_t place) const { return x[place]; }
    BK_HD void put(int64_t number, int64_t, Bits value) const {
        if (number < most) y[number] = value;
    }
    BK_HD void operator()(int64_t number, int64_t place) const {
        if (number < most) put(number, place, read(number, place));
    }
    BK_HD void total(int64_t count) const { *counter = count; }
};

// y[place] = x[number]
template <class Bits>
struct WriteToSelected {
    using Value = Bits;
    static constexpr bool reads_places = false;
    const Bits* x;
    Bits* y;
    int64_t most;
    BK_HD Bits read(int64_t number, int64_t) const { return number < most ? x[number] : Bits{}; }
    BK_HD void put(int64_t number, int64_t place, Bits value) const {
        if (number < most) y[place] = value;
    }
    BK_HD void operator()(int64_t number, int64_t place) const { put(number, place, read(number, place)); }
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
        const WriteSelected<Bits> write{reinterpret_cast<const Bits*>(src), reinterpret_cast<Bits*>(out), max_selected,
                                        counter};
        return with_truth(mask, 0xff, row_of(numel),
                          [&](const auto& truth) { return select_places(launch, numel, truth, write); });
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
        const WriteToSelected<Bits> write{reinterpret_cast<const Bits*>(dout), reinterpret_cast<Bits*>(dsrc), max_selected};
        return with_truth(mask, 0xff, row_of(numel),
                          [&](const auto& truth) { return select_places(launch, numel, truth, write); });
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
        const WriteToSelected<Bits> write{reinterpret_cast<const Bits*>(source), reinterpret_cast<Bits*>(out), source_numel};
        return with_truth(mask, 0xff, row_of(numel),
                          [&](const auto& truth) { return select_places(launch, numel, truth, write); });
    }
};

}  // namespace bk
