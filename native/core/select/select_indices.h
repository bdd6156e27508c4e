// SPDX-License-Identifier: Apache-2.0
// Stream compaction (select): the indices of [0, count) for which a predicate holds, in order.
//
// A Predicate is trivially copyable:
//   static constexpr int kLanes                       indices tested at once, a power of two up to 16
//   uint32_t operator()(int64_t index, int valid) const   bit k: index + k; `valid` of kLanes exist
//   bool at(int64_t index) const                      tests one
// A Sink receives each selected index with its rank among them, and in the end their number:
//   void operator()(int64_t rank, int64_t index) const
//   void total(int64_t count) const
// A Sink that moves values may split this in two, so that a thread issues many reads before it uses one:
//   using Value
//   Value read(int64_t rank, int64_t index) const
//   void put(int64_t rank, int64_t index, Value) const
//   static constexpr bool reads_index_only            read() ignores the rank
// A Sink may also receive each tested index, with the number of selected ones up to and including it:
//   bool takes_ranks() const
//   void ranked(int64_t index, int64_t selected_through) const
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/math/fastdiv.h"
#include "core/types/complex.h"
#include "core/types/vec.h"

namespace bk {

// Contiguous, vector-aligned elements that have a bit of `mask`.
template <class Bits>
struct DensePredicate {
    static constexpr int kLanes = kVectorLanes<Bits>;
    const Bits* x;
    Bits mask;
    BK_HD bool at(int64_t index) const { return has_bit(x[index], mask); }
    BK_HD uint32_t operator()(int64_t index, int valid) const {
        uint32_t bits = 0;
        if (valid == kLanes) {
            const Vec<Bits, kLanes> loaded = load<kLanes>(x + index);
            for (int k = 0; k < kLanes; ++k) bits |= static_cast<uint32_t>(has_bit(loaded.lane[k], mask)) << k;
        } else {
            for (int k = 0; k < valid; ++k) bits |= static_cast<uint32_t>(at(index + k)) << k;
        }
        return bits;
    }
};

// Row-major coordinates of a linear index.
class UnravelIndex {
public:
    UnravelIndex() = default;
    template <int Operands>
    explicit UnravelIndex(const Layout<Operands>& layout) : rank_(layout.rank), is_32bit_(layout.numel() < int64_t{1} << 31) {
        for (int d = 0; d < rank_; ++d) {
            extent_[d] = layout.extent[d];
            divide_[d] = FastDiv<uint32_t>(layout.extent[d]);
        }
    }
    BK_HD int rank() const { return rank_; }
    // each(axis, coordinate), last axis first.
    template <class Each>
    BK_HD void operator()(int64_t index, const Each& each) const {
        uint32_t quotient = static_cast<uint32_t>(index);
        for (int d = rank_ - 1; d >= 0; --d) {
            if (d == 0) {
                each(d, is_32bit_ ? int64_t{quotient} : index);
            } else if (is_32bit_) {
                const DivMod<uint32_t> split = divide_[d](quotient);
                each(d, int64_t{split.remainder});
                quotient = split.quotient;
            } else {
                each(d, index % extent_[d]);
                index /= extent_[d];
            }
        }
    }

private:
    int rank_ = 0;
    bool is_32bit_ = true;
    int64_t extent_[8] = {};
    FastDiv<uint32_t> divide_[8];
};

// Strided elements that have a bit of `mask`.
template <class Bits>
struct StridedPredicate {
    static constexpr int kLanes = 4;
    const Bits* x;
    Bits mask;
    UnravelIndex unravel;
    int64_t stride[8] = {};

    StridedPredicate(const Bits* first, Bits bits, const Layout<1>& layout) : x(first), mask(bits), unravel(layout) {
        for (int d = 0; d < layout.rank; ++d) stride[d] = layout.stride[0][d];
    }
    BK_HD bool at(int64_t index) const {
        int64_t offset = 0;
        unravel(index, [&](int d, int64_t coordinate) { offset += coordinate * stride[d]; });
        return has_bit(x[offset], mask);
    }
    BK_HD uint32_t operator()(int64_t index, int valid) const {
        uint32_t bits = 0;
        for (int k = 0; k < kLanes; ++k)
            if (k < valid) bits |= static_cast<uint32_t>(at(index + k)) << k;
        return bits;
    }
};

template <class Sink, class = void>
constexpr bool kReadsValue = false;
template <class Sink>
constexpr bool kReadsValue<Sink, std::void_t<typename Sink::Value>> = true;

template <class Sink, class = void>
constexpr bool kReadsIndexOnly = false;
template <class Sink>
constexpr bool kReadsIndexOnly<Sink, std::enable_if_t<Sink::reads_index_only>> = true;

template <class Sink, class = void>
constexpr bool kTakesRanks = false;
template <class Sink>
constexpr bool kTakesRanks<Sink, std::void_t<decltype(std::declval<const Sink&>().takes_ranks())>> = true;

// Workspace bytes with which all SMs take part; without, the blocks of one cluster do, or a single block.
size_t select_workspace(int64_t count);

template <class Predicate, class Sink>
Status select_indices(const Launch& launch, int64_t count, const Predicate& predicate, const Sink& sink);

}  // namespace bk

#if BK_CUDA
#include "core/select/select_indices_cuda.cuh"
#else
#include "core/select/select_indices_cpu.h"
#endif
