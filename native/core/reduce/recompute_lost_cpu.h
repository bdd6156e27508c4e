// SPDX-License-Identifier: Apache-2.0
// Recomputes results whose accumulator left its range although their items are finite (may_be_lost in
// core/reduce/reducer.h). Rare, so these are plain loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/layout/layout.h"
#include "core/platform.h"
#include "core/reduce/reduce_accs_cpu.h"
#include "core/reduce/reducer.h"

namespace bk {

// Calls body(result, index, x...) for each item of `count` adjacent results; the reader is at the first.
template <class Spans, class Reader, class Body, size_t... I>
BK_HD void each_item(const Spans& spans, int64_t count, Reader& reader, int64_t items, const Body& body,
                     std::index_sequence<I...>) {
    for (int64_t t = 0; t < items;) {
        const auto at = spans.items(static_cast<uint64_t>(t));
        constexpr int kIn = Spans::kOperands;
        int64_t offset[kIn + 1];
        for (int k = 0; k <= kIn; ++k) offset[k] = signed_offset(at.of[k]);
        const int64_t left = spans.inner_items - t % spans.inner_items,
                      width = spans.along_items ? std::min(left, spans.accs) : count;
        const auto x = reader.read(offset, offset[kIn], width, spans.along_items ? left : count);
        for (int64_t i = 0; i < width; ++i)
            body(spans.along_items ? 0 : i, offset[kIn] + i * spans.index_step, widen(get<I>(x)[i])...);
        t += spans.along_items ? width : 1;
    }
}

template <class R, class Accs>
BK_HD bool are_lost(const R& reducer, const Accs& accs, int64_t count) {
    int lost = 0;
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < count; ++i) lost |= int(reducer.is_lost(accs.load(i)));
    return lost != 0;
}

// Recomputes those of `count` adjacent results that are lost; `again` is scratch for as many accumulators.
template <class R, class Accs, class Reader, class Spans, class Values>
BK_COLD void recompute_lost(const R& reducer, const Spans& spans, Accs& accs, Accs& again, int64_t count, Reader& reader,
                            int64_t items, Values each) {
    each_item(
        spans, count, reader, items,
        [&](int64_t to, int64_t, auto... x) {
            typename R::Acc acc = accs.load(to);
            explain(reducer, acc, 0, x...);
            accs.store(to, acc);
        },
        each);
    if (!are_lost(reducer, accs, count)) return;
    for (int64_t i = 0; i < count; ++i) again.store(i, reducer.start_again());
    each_item(
        spans, count, reader, items,
        [&](int64_t to, int64_t index, auto... x) {
            typename R::Acc acc = again.load(to);
            reducer.add_again(acc, index, x...);
            again.store(to, acc);
        },
        each);
    for (int64_t i = 0; i < count; ++i)
        if (reducer.is_lost(accs.load(i))) accs.store(i, reducer.end_again(again.load(i)));
}

// Recomputes one lost result.
template <class R, class Reader, class Spans, class Values>
BK_COLD typename R::Acc recompute_lost(const R& reducer, const Spans& spans, const typename R::Acc& lost, Reader& reader,
                                       int64_t items, Values each) {
    AccArrays<typename R::Acc, 1> accs, again;
    accs.store(0, lost);
    recompute_lost(reducer, spans, accs, again, 1, reader, items, each);
    return accs.load(0);
}

}  // namespace bk
