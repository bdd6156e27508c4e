// SPDX-License-Identifier: Apache-2.0
// Guards for ops that fall back when one of NVIDIA's libraries fails: they restore the state a failed call would leave.
#pragma once

#include <cstdio>

#include "baracuda_kernels.h"
#include "core/abi/launch.h"
#include "core/abi/status.h"

namespace bk {

// Restores the text of the thread's last failure.
class LastErrorGuard {
public:
    LastErrorGuard() { snprintf(text_, sizeof(text_), "%s", baracuda_kernels_last_error()); }
    ~LastErrorGuard() { (void)fail(Status::kInternal, "%s", text_); }
    LastErrorGuard(const LastErrorGuard&) = delete;
    LastErrorGuard& operator=(const LastErrorGuard&) = delete;

private:
    char text_[512];
};

// Relaxes this thread's capture mode in its scope: allocations are no error and do not break captures on other threads.
class RelaxedCapture {
public:
    RelaxedCapture() { exchange(); }
    ~RelaxedCapture() { exchange(); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    void exchange() { is_exchanged_ = is_exchanged_ && cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess; }

    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool is_exchanged_ = true;
};

}  // namespace bk
