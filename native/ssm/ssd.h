// SPDX-License-Identifier: Apache-2.0
// Entry points of the scan of Mamba-2, state space duality (Dao and Gu, arXiv 2405.21060), and its gradients:
//
//   s = dt + dt_bias, softplus, clamped;   h = exp(s a) h + s x b^T;   y = (h c + d x) silu(z)
//
// with one step, one rate a and one d for the head_dim channels of a head, and b and c of a group of heads. Chunks of tokens
// are an implementation's choice: results do not depend on them but for rounding.
#pragma once

#include <cmath>
#include <cstdint>

#include "ssm/selective_scan.h"
#include "ssm/ssd_forward.h"

namespace bk::ssm {

template <class T>
struct SsdScalars {
    int32_t batch;
    int32_t seqlen;
    int32_t heads;
    int32_t head_dim;
    int32_t state_dim;
    int32_t chunk_size;

    Status check() const {
        BK_TRY(require_non_negative(
            {{"batch", batch}, {"seqlen", seqlen}, {"heads", heads}, {"head_dim", head_dim}, {"state_dim", state_dim}}));
        if (chunk_size <= 0) return fail(Status::kInvalidProblem, "chunk_size is %d, must be > 0", chunk_size);
        BK_TRY(require_most("head_dim", head_dim, kMaxStates));
        return require_most("state_dim", state_dim, kMaxStates);
    }

protected:
    bool has_tokens() const { return batch != 0 && seqlen != 0 && heads != 0; }
    ScanProblem<T> problem(const T* x, const T* dt, const T* a, const T* b, const T* c) const {
        ScanProblem<T> p{};
        p.sequences = {nullptr, batch, seqlen, batch};
        p.channels = int64_t{heads} * head_dim;
        p.groups = heads;
        p.heads = heads;
        p.per_head = std::max(head_dim, 1);
        p.states = state_dim;
        p.is_scalar_a = true;
        p.rule = {false, -INFINITY, INFINITY};
        p.u = contiguous_tokens(x, seqlen, p.channels);
        p.delta = contiguous_tokens(dt, seqlen, heads);
        p.b = contiguous_groups(b, seqlen, heads, state_dim);
        p.c = contiguous_groups(c, seqlen, heads, state_dim);
        p.a = {a, false};
        return p;
    }
};

template <class T>
struct SsdChunkScan : SsdScalars<T> {
    Work work() const { return this->has_tokens() && this->head_dim != 0 ? Work::kAll : Work::kNone; }
    size_t workspace_size() const { return 0; }
    Status run(const T* x, const T* dt, const T* a, const T* b, const T* c, T* y, const Launch& launch) const {
        const ScanProblem<T> p = this->problem(x, dt, a, b, c);
        return ssd_forward(launch, p, contiguous_tokens(y, this->seqlen, p.channels), ParameterOut<T>{});
    }
};

template <class T>
struct SsdChunkScanBackward : SsdScalars<T> {
    Work work() const { return this->heads != 0 ? Work::kAll : Work::kNone; }
    size_t workspace_size() const { return scan_backward_bytes(this->problem(nullptr, nullptr, nullptr, nullptr, nullptr)); }
    Status run(const T* x, const T* dt, const T* a, const T* b, const T* c, const T* dy, T* dx, T* d_b, T* d_c, T* d_dt, T* d_a,
               const Launch& launch) const {
        const ScanProblem<T> p = this->problem(x, dt, a, b, c);
        ScanGradients<T> out{};
        out.dy = contiguous_tokens(dy, this->seqlen, p.channels);
        out.du = contiguous_tokens(dx, this->seqlen, p.channels);
        out.d_delta = contiguous_tokens(d_dt, this->seqlen, this->heads);
        out.db = contiguous_groups(d_b, this->seqlen, this->heads, this->state_dim);
        out.dc = contiguous_groups(d_c, this->seqlen, this->heads, this->state_dim);
        out.da = {d_a, false, false};
        return scan_backward_in(launch, p, out);
    }
};

// The size for the gradients of the reference's symbols: dtype_id 0 f32, 1 f16, 2 bf16, others 0.
inline size_t ssd_chunk_scan_workspace_bytes(int32_t batch, int32_t seqlen, int32_t heads, int32_t head_dim, int32_t state_dim,
                                             int32_t chunk_size, int32_t dtype_id) {
    const SsdChunkScanBackward<float> op{{batch, seqlen, heads, head_dim, state_dim, chunk_size}};
    if (dtype_id < 0 || dtype_id > 2 || op.check() != Status::kOk || op.work() == Work::kNone) return 0;
    return op.workspace_size();
}

// The scalars and strides of the inputs that the general forms share. Strides are of batch and tokens.
template <class T>
struct SsdInputs {
    int32_t batch;
    int32_t seqlen;
    int32_t heads;
    int32_t head_dim;
    int32_t groups;
    int32_t state_dim;
    int32_t sequences;
    int32_t dt_softplus;
    float dt_min;
    float dt_max;
    const int64_t* stride_x;
    const int64_t* stride_dt;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_z;

    BK_COLD Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"seqlen", seqlen},
                                     {"heads", heads},
                                     {"head_dim", head_dim},
                                     {"groups", groups},
                                     {"state_dim", state_dim},
                                     {"sequences", sequences}}));
        BK_TRY(require_divisor("groups", groups, "heads", heads));
        BK_TRY(require_count(batch, sequences, seqlen));
        if (!(dt_min <= dt_max))
            return fail(Status::kInvalidProblem, "dt_min is %g, must be <= dt_max, %g", static_cast<double>(dt_min),
                        static_cast<double>(dt_max));
        BK_TRY(require_most("head_dim", head_dim, kMaxStates));
        return require_most("state_dim", state_dim, kMaxStates);
    }
    BK_COLD Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(channels("stride_x", stride_x).require(false));
        BK_TRY(steps("stride_dt", stride_dt).require(false));
        BK_TRY(of_groups("stride_b", stride_b).require(false));
        return of_groups("stride_c", stride_c).require(false);
    }
    int64_t offsets() const { return int64_t{sequences} + 1; }

    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return channels("stride_x", stride_x).locate(at, name, role, size);
    }
    Status locate_dt(Operand* at, const char* name, Role role, int64_t size) const {
        return steps("stride_dt", stride_dt).locate(at, name, role, size);
    }
    Status locate_z(Operand* at, const char* name, Role role, int64_t size) const {
        return channels("stride_z", stride_z).locate(at, name, role, size);
    }
    Status locate_b(Operand* at, const char* name, Role role, int64_t size) const {
        return of_groups("stride_b", stride_b).locate(at, name, role, size);
    }
    Status locate_c(Operand* at, const char* name, Role role, int64_t size) const {
        return of_groups("stride_c", stride_c).locate(at, name, role, size);
    }

    StridedShape channels(const char* name, const int64_t* strides) const {
        return {name, strides, 4, 2, {batch, seqlen, heads, head_dim}};
    }
    StridedShape steps(const char* name, const int64_t* strides) const {
        return {name, strides, 3, 2, {batch, seqlen, heads, 1}};
    }
    StridedShape of_groups(const char* name, const int64_t* strides) const {
        return {name, strides, 4, 2, {batch, seqlen, groups, state_dim}};
    }
    template <class E>
    TokenView<E> view(E* data, const int64_t* strides) const {
        return data == nullptr || strides == nullptr ? TokenView<E>{} : TokenView<E>{data, strides[0], strides[1], 1};
    }
    template <class E>
    GroupView<E> view_of_groups(E* data, const int64_t* strides) const {
        return data == nullptr || strides == nullptr ? GroupView<E>{}
                                                     : GroupView<E>{data, strides[0], strides[1], state_dim, 1};
    }
    ScanProblem<T> problem(const int32_t* cu_seqlens) const {
        ScanProblem<T> p{};
        p.sequences = {cu_seqlens, sequences, seqlen, batch};
        p.channels = int64_t{heads} * head_dim;
        p.groups = groups;
        p.heads = heads;
        p.per_head = std::max(head_dim, 1);
        p.states = state_dim;
        p.is_scalar_a = true;
        p.rule = {dt_softplus != 0, dt_min, dt_max};
        return p;
    }
    ScanProblem<T> problem(const T* x, const T* dt, const float* a, const T* b, const T* c, const float* d_skip, const T* z,
                           const float* dt_bias, const float* initial_state, const int32_t* cu_seqlens) const {
        ScanProblem<T> p = problem(cu_seqlens);
        p.u = view(x, stride_x);
        p.delta = view(dt, stride_dt);
        p.z = view(z, stride_z);
        p.b = view_of_groups(b, stride_b);
        p.c = view_of_groups(c, stride_c);
        p.a = {a, true};
        p.d_skip = {d_skip, true};
        p.delta_bias = {dt_bias, true};
        p.initial_state = {initial_state, true};
        return p;
    }
    BK_COLD Status check_operands(const void* z, const int32_t* cu_seqlens) const {
        BK_TRY(require_sequences(cu_seqlens, batch, sequences));
        return channels("stride_z", stride_z).require_of("z", z);
    }
};

template <class T>
struct SsdScan {
    int32_t batch;
    int32_t seqlen;
    int32_t heads;
    int32_t head_dim;
    int32_t groups;
    int32_t state_dim;
    int32_t sequences;
    int32_t dt_softplus;
    float dt_min;
    float dt_max;
    const int64_t* stride_x;
    const int64_t* stride_dt;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_z;
    const int64_t* stride_y;

    SsdInputs<T> inputs() const {
        return {batch,  seqlen, heads,    head_dim,  groups,   state_dim, sequences, dt_softplus,
                dt_min, dt_max, stride_x, stride_dt, stride_b, stride_c,  stride_z};
    }
    int64_t offsets() const { return inputs().offsets(); }
    Status check_scalars() const { return inputs().check_scalars(); }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_x(at, name, role, size);
    }
    Status locate_dt(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_dt(at, name, role, size);
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
        const bool has_channels = heads != 0 && head_dim != 0 && sequences != 0;
        return has_channels && (seqlen != 0 || state_dim != 0) ? Work::kAll : Work::kNone;
    }
    BK_COLD Status check() const {
        BK_TRY(inputs().check());
        return inputs().channels("stride_y", stride_y).require(true);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().channels("stride_y", stride_y).locate(at, name, role, size);
    }
    Status run(const T* x, const T* dt, const float* a, const T* b, const T* c, const float* d_skip, const T* z,
               const float* dt_bias, const float* initial_state, const int32_t* cu_seqlens, T* y, float* last_state,
               const Launch& launch) const {
        BK_TRY(inputs().check_operands(z, cu_seqlens));
        const auto p = inputs().problem(x, dt, a, b, c, d_skip, z, dt_bias, initial_state, cu_seqlens);
        const TokenView<T> results = inputs().view(y, stride_y);
        BK_TRY(zero_stray_tokens(launch, ZeroTokens<T>{p.sequences, {results}, p.channels}));
        return ssd_forward(launch, p, results, ParameterOut<T>{last_state, true, false});
    }
};

template <class T>
struct SsdScanBackward {
    int32_t batch;
    int32_t seqlen;
    int32_t heads;
    int32_t head_dim;
    int32_t groups;
    int32_t state_dim;
    int32_t sequences;
    int32_t dt_softplus;
    float dt_min;
    float dt_max;
    const int64_t* stride_x;
    const int64_t* stride_dt;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_z;
    const int64_t* stride_dy;
    const int64_t* stride_dx;
    const int64_t* stride_ddt;
    const int64_t* stride_db;
    const int64_t* stride_dc;
    const int64_t* stride_dz;

    SsdInputs<T> inputs() const {
        return {batch,  seqlen, heads,    head_dim,  groups,   state_dim, sequences, dt_softplus,
                dt_min, dt_max, stride_x, stride_dt, stride_b, stride_c,  stride_z};
    }
    int64_t offsets() const { return inputs().offsets(); }
    Status check_scalars() const { return inputs().check_scalars(); }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_x(at, name, role, size);
    }
    Status locate_dt(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().locate_dt(at, name, role, size);
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
        const bool has_tokens = batch != 0 && seqlen != 0, has_groups = groups != 0 && state_dim != 0;
        return heads != 0 || (has_tokens && has_groups) ? Work::kAll : Work::kNone;
    }
    BK_COLD Status check() const {
        BK_TRY(inputs().check());
        BK_TRY(inputs().channels("stride_dy", stride_dy).require(false));
        BK_TRY(inputs().channels("stride_dx", stride_dx).require_output());
        BK_TRY(inputs().steps("stride_ddt", stride_ddt).require_output());
        BK_TRY(inputs().channels("stride_dz", stride_dz).require_output());
        BK_TRY(inputs().of_groups("stride_db", stride_db).require_output());
        return inputs().of_groups("stride_dc", stride_dc).require_output();
    }
    size_t workspace_size() const { return scan_backward_bytes(inputs().problem(nullptr)); }

    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().channels("stride_dy", stride_dy).locate(at, name, role, size);
    }
    Status locate_dx(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().channels("stride_dx", stride_dx).locate(at, name, role, size);
    }
    Status locate_ddt(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().steps("stride_ddt", stride_ddt).locate(at, name, role, size);
    }
    Status locate_dz(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().channels("stride_dz", stride_dz).locate(at, name, role, size);
    }
    Status locate_db(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().of_groups("stride_db", stride_db).locate(at, name, role, size);
    }
    Status locate_dc(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().of_groups("stride_dc", stride_dc).locate(at, name, role, size);
    }

    Status run(const T* x, const T* dt, const float* a, const T* b, const T* c, const float* d_skip, const T* z,
               const float* dt_bias, const float* initial_state, const int32_t* cu_seqlens, const T* dy,
               const float* d_last_state, T* dx, T* ddt, float* da, T* db, T* dc, float* dd, T* dz, float* d_bias,
               float* d_initial, const Launch& launch) const {
        BK_TRY(inputs().check_operands(z, cu_seqlens));
        BK_TRY(inputs().channels("stride_dx", stride_dx).require_of("dx", dx));
        BK_TRY(inputs().steps("stride_ddt", stride_ddt).require_of("ddt", ddt));
        BK_TRY(inputs().channels("stride_dz", stride_dz).require_of("dz", dz));
        BK_TRY(inputs().of_groups("stride_db", stride_db).require_of("db", db));
        BK_TRY(inputs().of_groups("stride_dc", stride_dc).require_of("dc", dc));
        const auto p = inputs().problem(x, dt, a, b, c, d_skip, z, dt_bias, initial_state, cu_seqlens);
        ScanGradients<T> out{};
        out.dy = inputs().view(dy, stride_dy);
        out.d_last_state = {d_last_state, true};
        out.du = inputs().view(dx, stride_dx);
        out.d_delta = inputs().view(ddt, stride_ddt);
        out.dz = inputs().view(dz, stride_dz);
        out.db = inputs().view_of_groups(db, stride_db);
        out.dc = inputs().view_of_groups(dc, stride_dc);
        out.da = {da, true, false};
        out.dd = {dd, true, false};
        out.d_bias = {d_bias, true, false};
        out.d_initial = {d_initial, true, false};
        return scan_backward_in(launch, p, out);
    }
};

}  // namespace bk::ssm
