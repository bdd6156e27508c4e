// SPDX-License-Identifier: Apache-2.0
// Protocol between an op and its generated entry points.
//
// A regular pointwise op needs only a functor (core/pointwise/pointwise_op.h). Any other op is a struct whose fields
// are the scalars and host arrays of its row, with
//   Status check() const           checks them, whatever the extents, except for the operands' spans;
//   Work work() const              what run() has to do for a valid problem (core/abi/checks.h);
//   Status run(pointers..., const Launch&) const     not called for Work::kNone; inputs may be null for Work::kZeros;
//   size_t workspace_size() const  if the row has a workspace; called for Work::kAll;
//   Status check_scalars() const   check() without the host arrays, if `_can_implement` does not take them.
//
// For each struct tools/gen_abi.py writes check(op, operands): op.check(), then the byte range of every operand.
#pragma once

#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/abi/status.h"
#include "core/types/dtype.h"

// Linkage of public functions. The glue does not include their prototypes: it and the header are generated from the same rows.
#define BK_EXPORT extern "C" __attribute__((visibility("default")))

namespace bk {

inline int32_t leave(const char* op, Status status) {
    if (status != Status::kOk) name_failure(op);
    return static_cast<int32_t>(status);
}

// A function whose result is a number.
inline int32_t leave(const char*, int32_t number) { return number; }

// Workspace size of an op; 0 for a problem that run() would reject.
template <class Op>
size_t workspace_size(const char* name, const Op& op, Status checked) {
    leave(name, checked);
    return checked == Status::kOk && op.work() == Work::kAll ? op.workspace_size() : 0;
}

}  // namespace bk
