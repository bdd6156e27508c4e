// SPDX-License-Identifier: Apache-2.0
// Matrix operands with a pitch (leading dimension), one or a batch of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/abi/operand.h"

namespace bk {

// `rows` rows of `columns` contiguous elements, `pitch` elements apart; matrices of a batch are `step` elements apart.
struct StoredMatrices {
    int64_t count, step, rows, columns, pitch;
    bool is_used = true;  // whether the op reads or writes them

    bool is_empty() const { return count == 0 || rows == 0 || columns == 0; }
};

// Rejects overlapping rows; the pitch of a single row is ignored.
BK_COLD inline Status require_pitch(const char* pitch_name, const StoredMatrices& m) {
    if (m.rows > 1 && m.pitch < m.columns)
        return fail(Status::kInvalidProblem, "%s is %lld, must be >= %lld, the length of a row", pitch_name,
                    static_cast<long long>(m.pitch), static_cast<long long>(m.columns));
    return Status::kOk;
}

// A matrix that may be NULL may have pitch 0 and must be NULL then. An unused matrix gets no byte range.
BK_COLD inline Status locate_matrices(Operand* operand, const char* name, Role role, int64_t size, const char* pitch_name,
                                      const StoredMatrices& m) {
    *operand = {name, role, size};
    if (m.is_empty()) return Status::kOk;
    if (operand->may_be_null() && m.rows > 1 && m.pitch < m.columns) {
        if (m.pitch != 0) return require_pitch(pitch_name, m);
        if (m.is_used) operand->columns = {pitch_name, m.columns};
        return Status::kOk;
    }
    const int64_t most = kMaxOperandBytes / size;
    const int64_t pitch = m.rows > 1 ? m.pitch : m.columns, step = m.count > 1 ? m.step : 0;
    int64_t matrix = 0, batch_span = 0;
    const bool fits = !__builtin_mul_overflow(m.rows - 1, pitch, &matrix) && matrix >= 0 && matrix <= most - m.columns &&
                      !__builtin_mul_overflow(m.count - 1, step, &batch_span) && batch_span <= most && batch_span >= -most;
    if (!fits || matrix + m.columns + std::abs(batch_span) > most)
        return fail(Status::kInvalidProblem, "%s is %lld: %s would span more than 2^47 bytes", pitch_name,
                    static_cast<long long>(m.pitch), name);
    if (!m.is_used) return Status::kOk;
    matrix += m.columns;
    operand->low = std::min<int64_t>(batch_span, 0) * size;
    operand->high = (std::max<int64_t>(batch_span, 0) + matrix) * size;
    operand->has_gaps = (m.rows > 1 && pitch > m.columns) || (m.count > 1 && std::abs(step) != matrix);
    operand->pitch = m.rows > 1 ? pitch : 0;
    operand->step = step;
    return Status::kOk;
}

}  // namespace bk
