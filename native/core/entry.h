// What the generated entry points do around an op.
//
// An op is a struct whose fields are the scalars and host arrays of its row, with
//   int64_t count() const          < 0: an extent is negative; 0: nothing to do; else there is work;
//   Status check() const           everything that can be said without a data pointer;
//   Status run(pointers..., const Launch&) const
//   size_t workspace_size() const  where the row has a workspace; called only when check() passes;
//   Status run_empty(pointers..., const Launch&) const   where outputs can have cells though count() is 0; any pointer or
//                                                        host array may be null then, and check() has not been called.
#pragma once

#include <type_traits>

#include "core/checks.h"
#include "core/dtype.h"
#include "core/launch.h"
#include "core/status.h"

// Of the public functions, whose prototypes the glue does not include: it and the header come from the same rows.
#define BK_EXPORT extern "C" __attribute__((visibility("default")))

namespace bk {

inline int32_t leave(const char* op, Status status) {
    if (status != Status::kOk) name_failure(op);
    return static_cast<int32_t>(status);
}

template <class Op, class... P>
auto run_empty(const Op& op, int, const Launch& launch, P... pointers) -> decltype(op.run_empty(pointers..., launch)) {
    return op.run_empty(pointers..., launch);
}

template <class Op, class... P>
Status run_empty(const Op&, long, const Launch&, P...) {
    return Status::kOk;
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
