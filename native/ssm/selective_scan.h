// SPDX-License-Identifier: Apache-2.0
// Entry points of the selective scan of Mamba-1 and its gradients: those of the reference, whose operands are contiguous and
// of T, and the general ones, with strides, groups, sequences of their own lengths, and parameters and states of f32.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/require_workspace.h"
#include "ssm/operands.h"
#include "ssm/scan.h"

namespace bk::ssm {

// Strides of contiguous operands.
template <class E>
TokenView<E> contiguous_tokens(E* data, int64_t tokens, int64_t channels) {
    return {data, tokens * channels, channels, 1};
}
template <class E>
GroupView<E> contiguous_groups(E* data, int64_t tokens, int64_t groups, int64_t states) {
    return {data, tokens * groups * states, groups * states, states, 1};
}
// Strided operands. Those without elements may have no strides.
template <class E>
TokenView<E> strided_tokens(E* data, const int64_t* strides) {
    return data == nullptr || strides == nullptr ? TokenView<E>{} : TokenView<E>{data, strides[0], strides[1], strides[2]};
}
template <class E>
GroupView<E> strided_groups(E* data, const int64_t* strides) {
    return data == nullptr || strides == nullptr ? GroupView<E>{}
                                                 : GroupView<E>{data, strides[0], strides[1], strides[2], strides[3]};
}

template <class T>
size_t scan_backward_bytes(const ScanProblem<T>& p) {
    Carver carver;
    ScanPartials::carve(&carver, p);
    return carver.bytes();
}

template <class T>
Status scan_backward_in(const Launch& launch, const ScanProblem<T>& p, const ScanGradients<T>& out) {
    BK_TRY(require_workspace(launch, scan_backward_bytes(p)));
    Carver carver(launch.workspace);
    return scan_backward(launch, p, out, ScanPartials::carve(&carver, p));
}

// The scalars of the reference's symbols.
template <class T>
struct SelectiveScanScalars {
    int32_t batch;
    int32_t seqlen;
    int32_t dim;
    int32_t dstate;
    int32_t delta_softplus;

    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"seqlen", seqlen}, {"dim", dim}, {"dstate", dstate}}));
        return require_most("dstate", dstate, kMaxStates);
    }
    bool has_results() const { return batch != 0 && dim != 0 && (seqlen != 0 || dstate != 0); }

protected:
    ScanProblem<T> problem(const T* u, const T* delta, const T* a, const T* b, const T* c, const T* d_skip, const T* z,
                           const T* delta_bias) const {
        ScanProblem<T> p{};
        p.sequences = {nullptr, batch, seqlen, batch};
        p.channels = dim;
        p.groups = p.per_head = 1;
        p.heads = dim;
        p.states = dstate;
        p.rule = {delta_softplus != 0, -INFINITY, INFINITY};
        p.u = contiguous_tokens(u, seqlen, dim);
        p.delta = contiguous_tokens(delta, seqlen, dim);
        p.z = contiguous_tokens(z, seqlen, dim);
        p.b = contiguous_groups(b, seqlen, 1, dstate);
        p.c = contiguous_groups(c, seqlen, 1, dstate);
        p.a = {a, false};
        p.d_skip = {d_skip, false};
        p.delta_bias = {delta_bias, false};
        return p;
    }
};

template <class T>
struct SelectiveScan : SelectiveScanScalars<T> {
    Work work() const { return this->has_results() ? Work::kAll : Work::kNone; }
    Status run(const T* u, const T* delta, const T* a, const T* b, const T* c, const T* d_skip, const T* z, const T* delta_bias,
               T* y, T* last_state, const Launch& launch) const {
        const ParameterOut<T> last{last_state, false, false};
        return scan_forward(launch, this->problem(u, delta, a, b, c, d_skip, z, delta_bias),
                            contiguous_tokens(y, this->seqlen, this->dim), last);
    }
    size_t workspace_size() const { return 0; }
};

template <class T>
struct SelectiveScanBackward : SelectiveScanScalars<T> {
    Work work() const {
        const bool has_tokens = this->batch != 0 && this->seqlen != 0;
        return has_tokens && this->dim != 0 ? Work::kAll : Work::kNone;
    }
    size_t workspace_size() const {
        return scan_backward_bytes(this->problem(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    }
    Status run(const T* u, const T* delta, const T* a, const T* b, const T* c, const T* d_skip, const T* z, const T* delta_bias,
               const T* dy, T* du, T* d_b, T* d_c, T* d_delta, T* d_a, T* d_d, T* dz, T* d_delta_bias,
               const Launch& launch) const {
        const int64_t seqlen = this->seqlen, dim = this->dim;
        ScanGradients<T> out{};
        out.dy = contiguous_tokens(dy, seqlen, dim);
        out.du = contiguous_tokens(du, seqlen, dim);
        out.d_delta = contiguous_tokens(d_delta, seqlen, dim);
        out.dz = contiguous_tokens(dz, seqlen, dim);
        out.db = contiguous_groups(d_b, seqlen, 1, this->dstate);
        out.dc = contiguous_groups(d_c, seqlen, 1, this->dstate);
        out.adds_groups = true;
        out.da = {d_a, false, true};
        out.dd = {d_d, false, true};
        out.d_bias = {d_delta_bias, false, true};
        return scan_backward_in(launch, this->problem(u, delta, a, b, c, d_skip, z, delta_bias), out);
    }
};

// The size for the gradients of the reference's symbols: dtype_id 0 f32, 1 f16, 2 bf16, others 0.
inline size_t selective_scan_workspace_bytes(int32_t batch, int32_t seqlen, int32_t dim, int32_t dstate, int32_t dtype_id) {
    const SelectiveScanBackward<float> op{{batch, seqlen, dim, dstate, 0}};
    if (dtype_id < 0 || dtype_id > 2 || op.check() != Status::kOk || op.work() == Work::kNone) return 0;
    return op.workspace_size();
}

// The scalars and strides of the inputs that the general forms share.
template <class T>
struct SelectiveScanInputs {
    int32_t batch;
    int32_t seqlen;
    int32_t dim;
    int32_t groups;
    int32_t dstate;
    int32_t sequences;
    int32_t delta_softplus;
    const int64_t* stride_u;
    const int64_t* stride_delta;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_z;

    BK_COLD Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"seqlen", seqlen},
                                     {"dim", dim},
                                     {"groups", groups},
                                     {"dstate", dstate},
                                     {"sequences", sequences}}));
        BK_TRY(require_divisor("groups", groups, "dim", dim));
        BK_TRY(require_count(batch, sequences, seqlen));
        return require_most("dstate", dstate, kMaxStates);
    }
    BK_COLD Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(tokens("stride_u", stride_u).require(false));
        BK_TRY(tokens("stride_delta", stride_delta).require(false));
        BK_TRY(of_groups("stride_b", stride_b).require(false));
        return of_groups("stride_c", stride_c).require(false);
    }
    int64_t offsets() const { return int64_t{sequences} + 1; }
    bool has_channels() const { return sequences != 0 && dim != 0; }

    Status locate_u(Operand* at, const char* name, Role role, int64_t size) const {
        return tokens("stride_u", stride_u).locate(at, name, role, size);
    }
    Status locate_delta(Operand* at, const char* name, Role role, int64_t size) const {
        return tokens("stride_delta", stride_delta).locate(at, name, role, size);
    }
    Status locate_z(Operand* at, const char* name, Role role, int64_t size) const {
        return tokens("stride_z", stride_z).locate(at, name, role, size);
    }
    Status locate_b(Operand* at, const char* name, Role role, int64_t size) const {
        return of_groups("stride_b", stride_b).locate(at, name, role, size);
    }
    Status locate_c(Operand* at, const char* name, Role role, int64_t size) const {
        return of_groups("stride_c", stride_c).locate(at, name, role, size);
    }

    StridedShape tokens(const char* name, const int64_t* strides) const {
        return {name, strides, 3, 3, {batch, seqlen, dim, 1}};
    }
    StridedShape of_groups(const char* name, const int64_t* strides) const {
        return {name, strides, 4, 4, {batch, seqlen, groups, dstate}};
    }
    ScanProblem<T> problem(const int32_t* cu_seqlens) const {
        ScanProblem<T> p{};
        p.sequences = {cu_seqlens, sequences, seqlen, batch};
        p.channels = dim;
        p.groups = groups;
        p.per_head = 1;
        p.heads = dim;
        p.states = dstate;
        p.rule = {delta_softplus != 0, -INFINITY, INFINITY};
        return p;
    }
    ScanProblem<T> problem(const T* u, const T* delta, const float* a, const T* b, const T* c, const float* d_skip, const T* z,
                           const float* delta_bias, const float* initial_state, const int32_t* cu_seqlens) const {
        ScanProblem<T> p = problem(cu_seqlens);
        p.u = strided_tokens(u, stride_u);
        p.delta = strided_tokens(delta, stride_delta);
        p.z = strided_tokens(z, stride_z);
        p.b = strided_groups(b, stride_b);
        p.c = strided_groups(c, stride_c);
        p.a = {a, true};
        p.d_skip = {d_skip, true};
        p.delta_bias = {delta_bias, true};
        p.initial_state = {initial_state, true};
        return p;
    }
    BK_COLD Status check_operands(const void* z, const int32_t* cu_seqlens) const {
        BK_TRY(require_sequences(cu_seqlens, batch, sequences));
        return tokens("stride_z", stride_z).require_of("z", z);
    }
};

template <class T>
struct SelectiveScanGeneral {
    int32_t batch;
    int32_t seqlen;
    int32_t dim;
    int32_t groups;
    int32_t dstate;
    int32_t sequences;
    int32_t delta_softplus;
    const int64_t* stride_u;
    const int64_t* stride_delta;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_z;
    const int64_t* stride_y;

    SelectiveScanInputs<T> inputs() const {
        return {batch,          seqlen,   dim,          groups,   dstate,   sequences,
                delta_softplus, stride_u, stride_delta, stride_b, stride_c, stride_z};
    }
    int64_t offsets() const { return inputs().offsets(); }
    Status check_scalars() const { return inputs().check_scalars(); }
    Status locate_u(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_u(at, name, role, size);
    }
    Status locate_delta(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_delta(at, name, role, size);
    }
    Status locate_z(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_z(at, name, role, size);
    }
    Status locate_b(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_b(at, name, role, size);
    }
    Status locate_c(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_c(at, name, role, size);
    }

    Work work() const { return inputs().has_channels() && (seqlen != 0 || dstate != 0) ? Work::kAll : Work::kNone; }
    BK_COLD Status check() const {
        BK_TRY(inputs().check());
        return inputs().tokens("stride_y", stride_y).require(true);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().tokens("stride_y", stride_y).locate(at, name, role, size);
    }
    Status run(const T* u, const T* delta, const float* a, const T* b, const T* c, const float* d_skip, const T* z,
               const float* delta_bias, const float* initial_state, const int32_t* cu_seqlens, T* y, float* last_state,
               const Launch& launch) const {
        BK_TRY(inputs().check_operands(z, cu_seqlens));
        const auto p = inputs().problem(u, delta, a, b, c, d_skip, z, delta_bias, initial_state, cu_seqlens);
        const TokenView<T> results = strided_tokens(y, stride_y);
        BK_TRY(zero_stray_tokens(launch, ZeroTokens<T>{p.sequences, {results}, p.channels}));
        return scan_forward(launch, p, results, ParameterOut<T>{last_state, true, false});
    }
};

template <class T>
struct SelectiveScanGeneralBackward {
    int32_t batch;
    int32_t seqlen;
    int32_t dim;
    int32_t groups;
    int32_t dstate;
    int32_t sequences;
    int32_t delta_softplus;
    const int64_t* stride_u;
    const int64_t* stride_delta;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_z;
    const int64_t* stride_dy;
    const int64_t* stride_du;
    const int64_t* stride_d_delta;
    const int64_t* stride_db;
    const int64_t* stride_dc;
    const int64_t* stride_dz;

    SelectiveScanInputs<T> inputs() const {
        return {batch,          seqlen,   dim,          groups,   dstate,   sequences,
                delta_softplus, stride_u, stride_delta, stride_b, stride_c, stride_z};
    }
    int64_t offsets() const { return inputs().offsets(); }
    Status check_scalars() const { return inputs().check_scalars(); }
    Status locate_u(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_u(at, name, role, size);
    }
    Status locate_delta(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_delta(at, name, role, size);
    }
    Status locate_z(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_z(at, name, role, size);
    }
    Status locate_b(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_b(at, name, role, size);
    }
    Status locate_c(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_c(at, name, role, size);
    }

    Work work() const {
        const bool has_tokens = batch != 0 && seqlen != 0, has_groups = groups != 0 && dstate != 0;
        return dim != 0 || (has_tokens && has_groups) ? Work::kAll : Work::kNone;
    }
    BK_COLD Status check() const {
        BK_TRY(inputs().check());
        BK_TRY(inputs().tokens("stride_dy", stride_dy).require(false));
        BK_TRY(inputs().tokens("stride_du", stride_du).require_output());
        BK_TRY(inputs().tokens("stride_d_delta", stride_d_delta).require_output());
        BK_TRY(inputs().tokens("stride_dz", stride_dz).require_output());
        BK_TRY(inputs().of_groups("stride_db", stride_db).require_output());
        return inputs().of_groups("stride_dc", stride_dc).require_output();
    }
    size_t workspace_size() const { return scan_backward_bytes(inputs().problem(nullptr)); }

    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().tokens("stride_dy", stride_dy).locate(at, name, role, size);
    }
    Status locate_du(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().tokens("stride_du", stride_du).locate(at, name, role, size);
    }
    Status locate_d_delta(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().tokens("stride_d_delta", stride_d_delta).locate(at, name, role, size);
    }
    Status locate_dz(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().tokens("stride_dz", stride_dz).locate(at, name, role, size);
    }
    Status locate_db(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().of_groups("stride_db", stride_db).locate(at, name, role, size);
    }
    Status locate_dc(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().of_groups("stride_dc", stride_dc).locate(at, name, role, size);
    }

    Status run(const T* u, const T* delta, const float* a, const T* b, const T* c, const float* d_skip, const T* z,
               const float* delta_bias, const float* initial_state, const int32_t* cu_seqlens, const T* dy,
               const float* d_last_state, T* du, T* d_delta, float* da, T* db, T* dc, float* dd, T* dz, float* d_bias,
               float* d_initial, const Launch& launch) const {
        BK_TRY(inputs().check_operands(z, cu_seqlens));
        BK_TRY(inputs().tokens("stride_du", stride_du).require_of("du", du));
        BK_TRY(inputs().tokens("stride_d_delta", stride_d_delta).require_of("d_delta", d_delta));
        BK_TRY(inputs().tokens("stride_dz", stride_dz).require_of("dz", dz));
        BK_TRY(inputs().of_groups("stride_db", stride_db).require_of("db", db));
        BK_TRY(inputs().of_groups("stride_dc", stride_dc).require_of("dc", dc));
        const auto p = inputs().problem(u, delta, a, b, c, d_skip, z, delta_bias, initial_state, cu_seqlens);
        ScanGradients<T> out{};
        out.dy = strided_tokens(dy, stride_dy);
        out.d_last_state = {d_last_state, true};
        out.du = strided_tokens(du, stride_du);
        out.d_delta = strided_tokens(d_delta, stride_d_delta);
        out.dz = strided_tokens(dz, stride_dz);
        out.db = strided_groups(db, stride_db);
        out.dc = strided_groups(dc, stride_dc);
        out.da = {da, true, false};
        out.dd = {dd, true, false};
        out.d_bias = {d_bias, true, false};
        out.d_initial = {d_initial, true, false};
        return scan_backward_in(launch, p, out);
    }
};

}  // namespace bk::ssm
