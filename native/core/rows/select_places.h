// The skeleton of selections: of the places [0, count) those that a condition holds for, in order.
//
// A Truth, trivially copyable, says which:
//   static constexpr int kLanes                       places that it looks at together, a power of two of at most 16
//   uint32_t operator()(int64_t place, int exist) const   a bit for each of kLanes places from `place` on, of which `exist` do
//   bool at(int64_t place) const                      of one
// A Write is told of each, and in the end how many there are:
//   void operator()(int64_t number, int64_t place) const
//   void total(int64_t count) const
// and, where it moves a value, may have its steps, so that a thread reads many before it waits for one:
//   using Value
//   Value read(int64_t number, int64_t place) const
//   void put(int64_t number, int64_t place, Value) const
//   static constexpr bool reads_places                whether read() looks at the place alone
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/layout.h"
#include "core/types/complex.h"
#include "core/types/vec.h"

namespace bk {

// Of contiguous elements, aligned for vectors: those that have a bit of `mask`.
template <class Bits>
struct DenseTruth {
    static constexpr int kLanes = kVectorLanes<Bits>;
    const Bits* x;
    Bits mask;
    BK_HD bool at(int64_t place) const { return has_bit(x[place], mask); }
    BK_HD uint32_t operator()(int64_t place, int exist) const {
        uint32_t bits = 0;
        if (exist == kLanes) {
            const Vec<Bits, kLanes> found = load<kLanes>(x + place);
            for (int k = 0; k < kLanes; ++k) bits |= static_cast<uint32_t>(has_bit(found.lane[k], mask)) << k;
        } else {
            for (int k = 0; k < exist; ++k) bits |= static_cast<uint32_t>(at(place + k)) << k;
        }
        return bits;
    }
};

// The coordinates of a place in row-major order.
class Digits {
public:
    Digits() = default;
    template <int Operands>
    explicit Digits(const Layout<Operands>& layout) : rank_(layout.rank), is_short_(layout.numel() < int64_t{1} << 31) {
        for (int d = 0; d < rank_; ++d) {
            extent_[d] = layout.extent[d];
            divide_[d] = FastDiv<uint32_t>(layout.extent[d]);
        }
    }
    BK_HD int rank() const { return rank_; }
    // each(axis, coordinate), the last axis first.
    template <class Each>
    BK_HD void operator()(int64_t place, const Each& each) const {
        uint32_t rest = static_cast<uint32_t>(place);
        for (int d = rank_ - 1; d >= 0; --d) {
            if (d == 0) {
                each(d, is_short_ ? int64_t{rest} : place);
            } else if (is_short_) {
                const DivMod<uint32_t> split = divide_[d](rest);
                each(d, int64_t{split.remainder});
                rest = split.quotient;
            } else {
                each(d, place % extent_[d]);
                place /= extent_[d];
            }
        }
    }

private:
    int rank_ = 0;
    bool is_short_ = true;
    int64_t extent_[8] = {};
    FastDiv<uint32_t> divide_[8];
};

// The truth of elements that lie anywhere.
template <class Bits>
struct StridedTruth {
    static constexpr int kLanes = 4;
    const Bits* x;
    Bits mask;
    Digits digits;
    int64_t stride[8] = {};

    StridedTruth(const Bits* first, Bits bits, const Layout<1>& layout) : x(first), mask(bits), digits(layout) {
        for (int d = 0; d < layout.rank; ++d) stride[d] = layout.stride[0][d];
    }
    BK_HD bool at(int64_t place) const {
        int64_t offset = 0;
        digits(place, [&](int d, int64_t coordinate) { offset += coordinate * stride[d]; });
        return has_bit(x[offset], mask);
    }
    BK_HD uint32_t operator()(int64_t place, int exist) const {
        uint32_t bits = 0;
        for (int k = 0; k < kLanes; ++k)
            if (k < exist) bits |= static_cast<uint32_t>(at(place + k)) << k;
        return bits;
    }
};

template <class Write, class = void>
constexpr bool kReads = false;
template <class Write>
constexpr bool kReads<Write, std::void_t<typename Write::Value>> = true;

template <class Write, class = void>
constexpr bool kReadsPlaces = false;
template <class Write>
constexpr bool kReadsPlaces<Write, std::enable_if_t<Write::reads_places>> = true;

// Bytes with which all blocks of a chip look for places; without, those of one cluster do, or a single block.
size_t select_workspace(int64_t places);

template <class Truth, class Write>
Status select_places(const Launch& launch, int64_t places, const Truth& truth, const Write& write);

}  // namespace bk

#if BK_CUDA
#include "core/rows/select_places_cuda.cuh"
#else
#include "core/rows/select_places_cpu.h"
#endif
