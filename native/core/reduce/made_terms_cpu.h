// Terms of a reduction that a dense loop makes of its operands, by spans of neighbours.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/pointwise/pointwise.h"
#include "core/reduce/reduce.h"

namespace bk {

// Bytes of terms at a time; fewer where many operands take much of the stack themselves.
template <int Operands>
constexpr int64_t kMadeBytes = Operands <= 5 ? 3072 : 2048;

// The loop's first output is the term. Its others follow in `pointers`, any of them null, and then the inputs; operands of the
// axes are the inputs, then these outputs.
template <class C, int Operands>
struct MadeTerms {
    static constexpr int kOperands = Operands;
    static constexpr int64_t kMost = kMadeBytes<Operands> / static_cast<int64_t>(sizeof(C));
    using Values = std::index_sequence<0>;
    static_assert(kMost % kTermAccs == 0, "whole spans of terms");
    const DenseLoop& loop;
    char* const* pointers;
    int inputs;
    int64_t bytes;
    int64_t step[Operands] = {};

    int64_t most() const { return kMost; }
    bool lie_dense() const { return false; }
    int place(int operand) const { return operand < inputs ? Operands - inputs + operand : operand - inputs; }

    class Reader {
    public:
        static constexpr bool kInMemory = false;

        explicit Reader(const MadeTerms& terms) : terms_(terms) {}

        void move_to(const int64_t* base) {
            std::copy_n(base, Operands, base_);
            next_ = end_ = 0;
        }

        // Made before they are asked for, as many as there is room for.
        Pack<const C*> read(const int64_t* offset, int64_t index, int64_t count, int64_t left) {
            if (next_ == end_) {
                next_ = 0;
                end_ = std::min(left, kMost);
                make(offset, index, end_);
            }
            const C* const read = term_ + next_;
            next_ += count;
            return pack(read);
        }

    private:
        BK_COLD void make(const int64_t* offset, int64_t index, int64_t count) {
            char* start[1 + Operands] = {reinterpret_cast<char*>(term_)};
            int64_t step[1 + Operands] = {1};
            for (int k = 0; k < Operands; ++k) {
                const int at = terms_.place(k);
                char* const origin = terms_.pointers[at];
                start[1 + at] = origin == nullptr ? nullptr : origin + (base_[k] + offset[k]) * terms_.loop.size[1 + at];
                step[1 + at] = terms_.step[k];
            }
            compute_span(terms_.loop, 1 + Operands, index, count, start, step);
        }

        const MadeTerms& terms_;
        int64_t base_[Operands], next_ = 0, end_ = 0;
        alignas(64) C term_[kMost];
    };
};

}  // namespace bk
