// SPDX-License-Identifier: Apache-2.0
// One step of an optimiser whose rule (rules.h) is elementwise, on the tensors of a table: a single launch.
//
// Each element is read once and written once: parameter, gradient, states, and where the table has them master weights or
// error words, and the moving average of the weights, e += (1 - ema_decay) (p - e). A tensor without gradient is left
// alone. With found_inf nothing is written but the zeros of zeroed gradients. With lr 0 parameters keep their bits.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "optim/common.h"
#include "optim/rules.h"
#include "optim/table.h"

namespace bk::optim {

// Defined in step_cuda.cuh and step_cpu.h.
template <class Rule, class T>
Status run_step(const Launch& launch, const Table& table, const typename Rule::Settings& settings, const Common& common);

template <class Rule, class T>
Status checked_step(const Table& table, const typename Rule::Settings& settings, const Common& common) {
    BK_TRY(settings.check());
    BK_TRY(require_common(common, std::is_same_v<T, bf16>, sizeof(T) == 2, Rule::kQuantises && sizeof(T) <= 4));
    if (table.chunks == 0) return Status::kOk;
    return run_step<Rule, T>({nullptr, 0, common.stream}, table, settings, common);
}

// The functions of the ABI. `common` are the arguments of common_of.

template <class T, class... A>
Status adam(const void* table, int64_t n_tensors, int64_t n_chunks, double beta1, double beta2, double eps, double weight_decay,
            int32_t decoupled, int32_t bias_correction, A... common) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    return checked_step<Adam<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks),
                                               AdamSettings::of(beta1, beta2, eps, weight_decay, decoupled, bias_correction),
                                               common_of(common...));
}

template <class T, class... A>
Status sgd(const void* table, int64_t n_tensors, int64_t n_chunks, double momentum, double dampening, double weight_decay,
           int32_t nesterov, A... common) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    return checked_step<Sgd<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks),
                                              {momentum, dampening, weight_decay, nesterov, 0, -1}, common_of(common...));
}

template <class T, class... A>
Status adagrad(const void* table, int64_t n_tensors, int64_t n_chunks, double lr_decay, double eps, double weight_decay,
               A... common) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    return checked_step<Adagrad<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks), {lr_decay, eps, weight_decay},
                                                  common_of(common...));
}

template <class T, class... A>
Status rmsprop(const void* table, int64_t n_tensors, int64_t n_chunks, double alpha, double eps, double weight_decay,
               double momentum, int32_t centered, A... common) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    return checked_step<Rmsprop<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks),
                                                  {alpha, eps, weight_decay, momentum, centered}, common_of(common...));
}

template <class T, class... A>
Status adadelta(const void* table, int64_t n_tensors, int64_t n_chunks, double rho, double eps, double weight_decay,
                A... common) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    return checked_step<Adadelta<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks), {rho, eps, weight_decay},
                                                   common_of(common...));
}

template <class T, class... A>
Status lion(const void* table, int64_t n_tensors, int64_t n_chunks, double beta1, double beta2, double weight_decay,
            A... common) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    return checked_step<Lion<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks), {beta1, beta2, weight_decay},
                                               common_of(common...));
}

// The gradients of the table are its parameters as well.
template <class T>
Status clip(const void* table, int64_t n_tensors, int64_t n_chunks, double grad_scale, double max_norm, double clip_value,
            const void* scale_at, const void* found_inf_at, const void* norm_at, void* stream) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    const Common common = common_of(1, 1, grad_scale, max_norm, 0, 0, kNearest, 32, 0, 0, nullptr, nullptr, scale_at,
                                    found_inf_at, norm_at, stream);
    return checked_step<Clip<compute_t<T>>, T>(table_at(table, n_tensors, n_chunks), {clip_value}, common);
}

}  // namespace bk::optim
