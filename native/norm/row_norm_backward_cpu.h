// The gradients of gamma and beta have a pass of their own.
#pragma once

#include "norm/fused_rows.h"

namespace bk {

template <class T>
size_t fused_rows_workspace(const FusedRows&) {
    return 0;
}

template <class T>
bool can_fuse_rows(const FusedRows&, const T*, const T*, const T*, const T*) {
    return false;
}

template <class T>
Status fused_rows(const Launch&, const FusedRows&, bool, const T*, const T*, const T*, const T*, const T*, T*, T*, T*) {
    return Status::kOk;
}

}  // namespace bk
