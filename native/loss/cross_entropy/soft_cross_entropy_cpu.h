// SPDX-License-Identifier: Apache-2.0
// Soft cross entropy on the CPU: the gradient of the logits of dense rows, dx = (softmax(x) sum(q) - q) dy.
//
// Sums have kLanes accumulators, which are added up at the end of a row; rows of up to kMaxCached elements cache their
// exponentials on the stack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/row/row_memory_cpu.h"
#include "loss/cross_entropy/cross_entropy.h"

namespace bk {

template <class T>
class SoftGradientRow {
    using C = compute_t<T>;
    using F = SoftCrossEntropyRows<T>;
    static constexpr int kLanes = 64;
    static constexpr int64_t kMaxCached = 8192 / static_cast<int64_t>(sizeof(C));
    struct alignas(64) LaneArray {
        C at[kLanes];
    };

public:
    SoftGradientRow(int64_t n, const T* x, const T* q, T* dx) : n_(n), x_(x), q_(q), dx_(dx) {}

    BK_HD void run(C grad_scale, C dy) const {
        const F f{{}, grad_scale, n_};  // without class weights, which lets compilers drop them
        typename F::Row row = f.start(dy);
        typename F::Acc all = f.identity();
        all.max = max_logit();
        f.finish(row, all, n_);
        alignas(64) C cached[kMaxCached];
        const bool is_cached = n_ <= kMaxCached;
        const ExpBelow<T> below(row.max);
        LaneArray sum{}, target_sum{};
        for_each_block([&](int64_t first, int count, const LaneArray& x, const LaneArray& q) BK_INLINED {
            LaneArray e, soft_target;
            BK_CHUNK_LOOP
            for (int i = 0; i < kLanes; ++i) {
                e.at[i] = below(x.at[i]);
                soft_target.at[i] = f.transform(row, first + i, x.at[i], q.at[i]).q;
            }
            if (count < kLanes) std::fill(soft_target.at + count, soft_target.at + kLanes, F{}.pad().q);
            add(sum, e);
            add(target_sum, soft_target);
            if (is_cached) std::copy_n(e.at, count, cached + first);
        });
        all.sum = sum_of(sum.at) * below.scale();
        all.target_sum = sum_of(target_sum.at);
        f.finish(row, all, n_);
        const typename F::TileParams tile_params = f.tile_params(row, all);
        for_each_block([&](int64_t first, int count, const LaneArray& x, const LaneArray& q) BK_INLINED {
            LaneArray e, result;
            if (is_cached) {
                std::copy_n(cached + first, count, e.at);
            } else {
                BK_CHUNK_LOOP
                for (int i = 0; i < kLanes; ++i) e.at[i] = below(x.at[i]);
            }
            BK_CHUNK_LOOP
            for (int i = 0; i < kLanes; ++i) {
                const C soft_target = f.transform(row, first + i, x.at[i], q.at[i]).q;
                result.at[i] = get<0>(f.map(row, tile_params, first + i, {e.at[i], soft_target}));
            }
            store(dx_ + first, result, count);
        });
    }

private:
    static BK_HD void add(LaneArray& to, const LaneArray& from) {
        BK_CHUNK_LOOP
        for (int i = 0; i < kLanes; ++i) to.at[i] += from.at[i];
    }

    static BK_HD void load(LaneArray& to, const T* from, int count, C pad) {
        if (count < kLanes) {
            for (int i = 0; i < count; ++i) to.at[i] = widen(from[i]);
            std::fill(to.at + count, to.at + kLanes, pad);
        } else if constexpr (std::is_same_v<T, f16>) {
            widen_span(to.at, from, kLanes);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kLanes; ++i) to.at[i] = widen(from[i]);
        }
    }

    static BK_HD void store(T* to, const LaneArray& from, int count) {
        if (count < kLanes) {
            for (int i = 0; i < count; ++i) to[i] = narrow<T>(from.at[i]);
        } else if constexpr (std::is_same_v<T, f16>) {
            narrow_span(to, from.at, kLanes);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kLanes; ++i) to[i] = narrow<T>(from.at[i]);
        }
    }

    // Calls body(first, count, x, q) for blocks of kLanes elements, padded past the end of the row.
    template <class Body>
    BK_HD void for_each_block(const Body& body) const {
        for (int64_t first = 0; first < n_; first += kLanes) {
            const int count = static_cast<int>(std::min<int64_t>(kLanes, n_ - first));
            LaneArray x, q;
            load(x, x_ + first, count, F{}.pad().x);
            load(q, q_ + first, count, C(0));
            body(first, count, x, q);
        }
    }

    BK_HD C max_logit() const {
        LaneArray max_x;
        std::fill(max_x.at, max_x.at + kLanes, F{}.pad().x);
        for (int64_t first = 0; first < n_; first += kLanes) {
            const int count = static_cast<int>(std::min<int64_t>(kLanes, n_ - first));
            LaneArray x;
            load(x, x_ + first, count, F{}.pad().x);
            BK_CHUNK_LOOP
            for (int i = 0; i < kLanes; ++i) max_x.at[i] = MaxOp{}(max_x.at[i], x.at[i]);
        }
        return max_of(max_x.at);
    }

    int64_t n_;
    const T *x_, *q_;
    T* dx_;
};

template <class T>
Status dense_soft_gradients(const StridedRows<2>& rows, compute_t<T> grad_scale, const T* input, const T* target, const T* dy,
                            int64_t dy_step, T* dinput) {
    const int64_t bytes = 3 * rows.columns * static_cast<int64_t>(sizeof(T));
    parallel_ranges(rows.rows, grain_for(bytes), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const T* const x = input + r * rows.stride[0];
            SoftGradientRow<T>(rows.columns, x, target + r * rows.stride[1], dinput + r * rows.stride[0])
                .run(grad_scale, widen(dy[r * dy_step]));
        }
    });
    return Status::kOk;
}

}  // namespace bk
