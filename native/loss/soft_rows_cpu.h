// The gradient of the logits of soft cross entropy on the CPU, of dense rows. Sums have a lane for each element of a chunk
// until the end of a row, and exponentials are kept on the stack, if a row has no more than it holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/rows/row_memory_cpu.h"
#include "loss/row_loss.h"

namespace bk {

template <class T>
class SoftGradientRow {
    using C = compute_t<T>;
    using F = SoftCrossEntropyRows<T>;
    static constexpr int kChunk = 64;
    static constexpr int64_t kKept = 8192 / static_cast<int64_t>(sizeof(C));
    struct alignas(64) Chunk {
        C at[kChunk];
    };

public:
    SoftGradientRow(int64_t n, const T* x, const T* q, T* dx) : n_(n), x_(x), q_(q), dx_(dx) {}

    BK_HD void run(C factor, C dy) const {
        const F f{{}, factor, n_};  // without weights, as compilers see here
        typename F::Row row = f.start(dy);
        typename F::Acc all = f.identity();
        all.max = largest();
        f.finish(row, all, n_);
        alignas(64) C kept[kKept];
        const bool keeps = n_ <= kKept;
        const ExpBelow<T> below(row.max);
        Chunk sum{}, shares{};
        each_chunk([&](int64_t first, int count, const Chunk& x, const Chunk& q) BK_INLINED {
            Chunk e, share;
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) {
                e.at[i] = below(x.at[i]);
                share.at[i] = f.hold(row, first + i, x.at[i], q.at[i]).q;
            }
            if (count < kChunk) std::fill(share.at + count, share.at + kChunk, F{}.pad().q);
            add(sum, e);
            add(shares, share);
            if (keeps) std::copy_n(e.at, count, kept + first);
        });
        all.sum = sum_of(sum.at) * below.scale();
        all.shares = sum_of(shares.at);
        f.finish(row, all, n_);
        const typename F::Part part = f.part(row, all);
        each_chunk([&](int64_t first, int count, const Chunk& x, const Chunk& q) BK_INLINED {
            Chunk e, result;
            if (keeps) {
                std::copy_n(kept + first, count, e.at);
            } else {
                BK_CHUNK_LOOP
                for (int i = 0; i < kChunk; ++i) e.at[i] = below(x.at[i]);
            }
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) {
                const C share = f.hold(row, first + i, x.at[i], q.at[i]).q;
                result.at[i] = get<0>(f.map(row, part, first + i, {e.at[i], share}));
            }
            store(dx_ + first, result, count);
        });
    }

private:
    static BK_HD void add(Chunk& to, const Chunk& from) {
        BK_CHUNK_LOOP
        for (int i = 0; i < kChunk; ++i) to.at[i] += from.at[i];
    }

    static BK_HD void load(Chunk& to, const T* from, int count, C pad) {
        if (count < kChunk) {
            for (int i = 0; i < count; ++i) to.at[i] = widen(from[i]);
            std::fill(to.at + count, to.at + kChunk, pad);
        } else if constexpr (std::is_same_v<T, f16>) {
            widen_span(to.at, from, kChunk);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) to.at[i] = widen(from[i]);
        }
    }

    static BK_HD void store(T* to, const Chunk& from, int count) {
        if (count < kChunk) {
            for (int i = 0; i < count; ++i) to[i] = narrow<T>(from.at[i]);
        } else if constexpr (std::is_same_v<T, f16>) {
            narrow_span(to, from.at, kChunk);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) to[i] = narrow<T>(from.at[i]);
        }
    }

    // What is behind the end of a row adds nothing.
    template <class Body>
    BK_HD void each_chunk(const Body& body) const {
        for (int64_t first = 0; first < n_; first += kChunk) {
            const int count = static_cast<int>(std::min<int64_t>(kChunk, n_ - first));
            Chunk x, q;
            load(x, x_ + first, count, F{}.pad().x);
            load(q, q_ + first, count, C(0));
            body(first, count, x, q);
        }
    }

    BK_HD C largest() const {
        Chunk most;
        std::fill(most.at, most.at + kChunk, F{}.pad().x);
        for (int64_t first = 0; first < n_; first += kChunk) {
            const int count = static_cast<int>(std::min<int64_t>(kChunk, n_ - first));
            Chunk x;
            load(x, x_ + first, count, F{}.pad().x);
            BK_CHUNK_LOOP
            for (int i = 0; i < kChunk; ++i) most.at[i] = LargerOf{}(most.at[i], x.at[i]);
        }
        return max_of(most.at);
    }

    int64_t n_;
    const T *x_, *q_;
    T* dx_;
};

template <class T>
Status dense_soft_gradients(const TermRows<2>& rows, compute_t<T> factor, const T* input, const T* target, const T* dy,
                            int64_t dy_step, T* dinput) {
    const int64_t bytes = 3 * rows.columns * static_cast<int64_t>(sizeof(T));
    parallel_ranges(rows.rows, grain_for(bytes), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const T* const x = input + r * rows.stride[0];
            SoftGradientRow<T>(rows.columns, x, target + r * rows.stride[1], dinput + r * rows.stride[0])
                .run(factor, widen(dy[r * dy_step]));
        }
    });
    return Status::kOk;
}

}  // namespace bk
