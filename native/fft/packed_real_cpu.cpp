// SPDX-License-Identifier: Apache-2.0
// Real fibers as complex ones of half the length, where a pass over tiles cannot hold a whole fiber: fft/packed_real.h.
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "fft/core.h"
#include "fft/packed_real.h"
#include "fft/roots.h"

namespace bk {
namespace {

constexpr int kBlock = 16;    // positions that are taken together
constexpr int kBlocks = 128;  // whose first roots are in a table

template <class R>
struct Complex {
    R re, im;
};

// Offsets of a fiber's first element on both sides.
struct FiberOffsets {
    int64_t in = 0, out = 0;

    static BK_HD FiberOffsets of(const FftPass& fiber, int64_t number) {
        FiberOffsets at;
        for (int a = 0; a < fiber.axes; ++a) {
            const FftAxis& axis = fiber.axis[a];
            at.in += number % axis.extent * axis.in;
            at.out += number % axis.extent * axis.out;
            number /= axis.extent;
        }
        return at;
    }
};

template <class R>
class Splitter {
public:
    BK_HD explicit Splitter(int64_t n) : n_(n), half_(n / 2) {
        for (int k = 0; k < kBlock; ++k) fine_[k] = unit_root<double>((k + 1) % n, n);
        for (int b = 0; b < kBlocks && int64_t{b} * kBlock < half_; ++b) coarse_[b] = unit_root<double>(b * kBlock, n);
    }

    // Z in y, whose positions are `step` apart, becomes X, which has a position more.
    BK_HD void unpack(Complex<R>* y, int64_t step) {
        const Complex<R> first = y[0];
        y[0] = {first.re + first.im, R(0)};
        y[half_ * step] = {first.re - first.im, R(0)};
        for (int64_t k = 1; 2 * k <= half_; k += kBlock) {
            const int count = load(y, step, k);
            BK_VECTOR_LOOP
            for (int l = 0; l < kBlock; ++l) {
                FftValue<R> a{a_re_[l], a_im_[l]}, b{b_re_[l], b_im_[l]};
                unpack_pair(a, b, c_[l], s_[l]);
                a_re_[l] = a.re, a_im_[l] = a.im;
                b_re_[l] = b.re, b_im_[l] = b.im;
            }
            store(y, step, k, count);
        }
    }

    // 2 Z from X; x has its positions `step` apart, y `to` apart.
    BK_HD void pack(const Complex<R>* x, int64_t step, Complex<R>* y, int64_t to) {
        const R first = x[0].re, last = x[half_ * step].re;
        y[0] = {first + last, first - last};
        for (int64_t k = 1; 2 * k <= half_; k += kBlock) {
            const int count = load(x, step, k);
            BK_VECTOR_LOOP
            for (int l = 0; l < kBlock; ++l) {
                FftValue<R> a{a_re_[l], a_im_[l]}, b{b_re_[l], b_im_[l]};
                pack_pair(a, b, c_[l], s_[l]);
                a_re_[l] = a.re, a_im_[l] = a.im;
                b_re_[l] = b.re, b_im_[l] = b.im;
            }
            store(y, to, k, count);
        }
    }

private:
    // Positions k, k + 1, ... and their mirror images h - k, ..., which coincide at h / 2; cos and sin of 2 pi k / n.
    BK_HD int load(const Complex<R>* from, int64_t step, int64_t k) {
        const int count = static_cast<int>(std::min<int64_t>(kBlock, half_ / 2 - k + 1));
        for (int l = 0; l < count; ++l) {
            const Complex<R> a = from[(k + l) * step], b = from[(half_ - k - l) * step];
            a_re_[l] = a.re, a_im_[l] = a.im;
            b_re_[l] = b.re, b_im_[l] = b.im;
        }
        for (int l = count; l < kBlock; ++l) a_re_[l] = a_im_[l] = b_re_[l] = b_im_[l] = R(0);
        const int64_t block = k / kBlock;  // k is 1 in each
        if (block % kBlocks == 0) distant_ = unit_root<double>(block * kBlock, n_);
        const FftRoot<double> coarse = product(distant_, coarse_[block % kBlocks]);
        BK_VECTOR_LOOP
        for (int l = 0; l < kBlock; ++l) {
            const FftRoot<double> root = product(coarse, fine_[l]);
            c_[l] = static_cast<R>(root.c);
            s_[l] = static_cast<R>(root.s);
        }
        return count;
    }
    static BK_HD FftRoot<double> product(const FftRoot<double>& a, const FftRoot<double>& b) {
        return {a.c * b.c - a.s * b.s, a.s * b.c + a.c * b.s};
    }
    BK_HD void store(Complex<R>* to, int64_t step, int64_t k, int count) const {
        for (int l = 0; l < count; ++l) {
            to[(k + l) * step] = {a_re_[l], a_im_[l]};
            to[(half_ - k - l) * step] = {b_re_[l], b_im_[l]};
        }
    }

    const int64_t n_, half_;
    // Those of 1 to kBlock, of the first positions of blocks but 1, and of the last block that begins a table.
    FftRoot<double> fine_[kBlock], coarse_[kBlocks], distant_;
    R a_re_[kBlock], a_im_[kBlock], b_re_[kBlock], b_im_[kBlock], c_[kBlock], s_[kBlock];
};

int64_t fibers_of_a_task(int64_t n) { return std::max<int64_t>(1, (1 << 14) / n); }

}  // namespace

template <class R>
Status fft_unpack(const FftPass& fiber, void* y, const Launch&) {
    parallel_ranges(fiber.lanes(), fibers_of_a_task(fiber.length), [&](int64_t begin, int64_t end) BK_INLINED {
        Splitter<R> splitter(fiber.length);
        for (int64_t f = begin; f < end; ++f)
            splitter.unpack(static_cast<Complex<R>*>(y) + FiberOffsets::of(fiber, f).out, fiber.out);
    });
    return Status::kOk;
}

template <class R>
Status fft_pack(const FftPass& fiber, const void* x, void* y, const Launch&) {
    parallel_ranges(fiber.lanes(), fibers_of_a_task(fiber.length), [&](int64_t begin, int64_t end) BK_INLINED {
        Splitter<R> splitter(fiber.length);
        for (int64_t f = begin; f < end; ++f) {
            const FiberOffsets at = FiberOffsets::of(fiber, f);
            splitter.pack(static_cast<const Complex<R>*>(x) + at.in, fiber.in, static_cast<Complex<R>*>(y) + at.out, fiber.out);
        }
    });
    return Status::kOk;
}

template Status fft_unpack<float>(const FftPass&, void*, const Launch&);
template Status fft_unpack<double>(const FftPass&, void*, const Launch&);
template Status fft_pack<float>(const FftPass&, const void*, void*, const Launch&);
template Status fft_pack<double>(const FftPass&, const void*, void*, const Launch&);

}  // namespace bk
