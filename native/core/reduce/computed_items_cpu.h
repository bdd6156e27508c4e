// SPDX-License-Identifier: Apache-2.0
// Items of a reduction that a dense loop computes from its operands, a span at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/pointwise/pointwise.h"
#include "core/reduce/reduce.h"

namespace bk {

// Bytes of items a span; fewer with many operands, which take stack, too.
template <int Operands>
constexpr int64_t kComputedBytes = Operands <= 5 ? 3072 : 2048;

// The loop's first output is the item. `pointers` has its other outputs, any of them null, then the inputs; operands
// of the axes are the inputs, then those outputs.
template <class C, int Operands>
struct ComputedItems {
    static constexpr int kOperands = Operands;
    static constexpr int64_t kMost = kComputedBytes<Operands> / static_cast<int64_t>(sizeof(C));
    using Values = std::index_sequence<0>;
    static_assert(kMost % kItemAccs == 0, "whole spans of items");
    const DenseLoop& loop;
    char* const* pointers;
    int inputs;
    int64_t bytes;
    int64_t step[Operands] = {};

    int64_t most() const { return kMost; }
    bool is_contiguous() const { return false; }
    int slot(int operand) const { return operand < inputs ? Operands - inputs + operand : operand - inputs; }

    class Reader {
    public:
        static constexpr bool kInMemory = false;

        explicit Reader(const ComputedItems& items) : items_(items) {}

        void move_to(const int64_t* base) {
            std::copy_n(base, Operands, base_);
            next_ = end_ = 0;
        }

        // Computes ahead, as many items as the buffer takes.
        Pack<const C*> read(const int64_t* offset, int64_t index, int64_t count, int64_t left) {
            if (next_ == end_) {
                next_ = 0;
                end_ = std::min(left, kMost);
                compute(offset, index, end_);
            }
            const C* const read = item_ + next_;
            next_ += count;
            return pack(read);
        }

    private:
        BK_COLD void compute(const int64_t* offset, int64_t index, int64_t count) {
            char* start[1 + Operands] = {reinterpret_cast<char*>(item_)};
            int64_t step[1 + Operands] = {1};
            for (int k = 0; k < Operands; ++k) {
                const int at = items_.slot(k);
                char* const origin = items_.pointers[at];
                start[1 + at] = origin == nullptr ? nullptr : origin + (base_[k] + offset[k]) * items_.loop.size[1 + at];
                step[1 + at] = items_.step[k];
            }
            compute_span(items_.loop, 1 + Operands, index, count, start, step);
        }

        const ComputedItems& items_;
        int64_t base_[Operands], next_ = 0, end_ = 0;
        alignas(64) C item_[kMost];
    };
};

}  // namespace bk
