// What the generated entry points do around an op.
//
// A regular pointwise op needs nothing more (core/pointwise/pointwise_op.h). Any other is a struct whose fields are the
// scalars and host arrays of its row, with
//   Status check() const           everything that can be said of them but for the operands' sizes, whatever the extents;
//   Work work() const              what a problem that passes the checks leaves to do (core/abi/checks.h);
//   Status run(pointers..., const Launch&) const     unless that is nothing; inputs may be null where it is zeros;
//   size_t workspace_size() const  where the row has a workspace; for Work::kAll;
//   Status check_scalars() const   where `_can_implement` does not take the host arrays: check() without them.
//
// For each struct tools/gen_abi.py writes check(op, operands): op.check(), then the place of every operand.
#pragma once

#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/abi/status.h"
#include "core/types/dtype.h"

// Of the public functions, whose prototypes the glue does not include: it and the header come from the same rows.
#define BK_EXPORT extern "C" __attribute__((visibility("default")))

namespace bk {

inline int32_t leave(const char* op, Status status) {
    if (status != Status::kOk) name_failure(op);
    return static_cast<int32_t>(status);
}

// Bytes of an op's workspace; 0 for a problem that run() would reject.
template <class Op>
size_t workspace_size(const char* name, const Op& op, Status checked) {
    leave(name, checked);
    return checked == Status::kOk && op.work() == Work::kAll ? op.workspace_size() : 0;
}

}  // namespace bk
