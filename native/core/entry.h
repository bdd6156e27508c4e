// What the generated entry points do around an op.
//
// An op is a struct whose fields are the scalars and host arrays of its row, with
//   int64_t count() const          < 0: an extent is negative; 0: nothing to do; else there is work;
//   Status check() const           everything that can be said without a data pointer;
//   Status run(pointers..., const Launch&) const
//   size_t workspace_size() const  where the row has a workspace; called only when check() passes.
#pragma once

#include <type_traits>

#include "core/checks.h"
#include "core/dtype.h"
#include "core/launch.h"
#include "core/status.h"

namespace bk {

inline int32_t leave(const char* op, Status status) {
    if (status != Status::kOk) name_failure(op);
    return static_cast<int32_t>(status);
}

// Bytes of an op's workspace; 0 for a problem that run() would reject.
template <class Op>
size_t workspace_size(const char* name, const Op& op) {
    if (op.count() == 0) return 0;
    const Status status = op.count() < 0 ? fail(Status::kInvalidProblem, "an extent is negative") : op.check();
    if (status != Status::kOk) {
        name_failure(name);
        return 0;
    }
    return op.workspace_size();
}

}  // namespace bk
