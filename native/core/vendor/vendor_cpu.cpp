// SPDX-License-Identifier: Apache-2.0
// CPU build: every request for one of NVIDIA's libraries fails.
#include "core/vendor/vendor.h"

namespace bk {

namespace {

Status refuse(Vendor library) { return fail(Status::kUnsupported, "%s serves the CUDA library alone", entry_of(library).name); }

}  // namespace

bool is_loaded(Vendor) { return false; }

Status find_symbols(Vendor library, const char* const*, size_t, void**) { return refuse(library); }

Status VendorHandle::lease_of(Vendor library, const Launch&) { return refuse(library); }

VendorHandle::~VendorHandle() = default;

void* VendorHandle::get() const { return nullptr; }

}  // namespace bk
