// For ops that do without one of NVIDIA's libraries where it fails: what a call leaves behind stays as it was.
#pragma once

#include <cstdio>

#include "baracuda_kernels.h"
#include "core/abi/launch.h"
#include "core/abi/status.h"

namespace bk {

// Puts the text of the thread's last failure back at its end.
class KeepsLastFailure {
public:
    KeepsLastFailure() { snprintf(text_, sizeof(text_), "%s", baracuda_kernels_last_error()); }
    ~KeepsLastFailure() { (void)fail(Status::kInternal, "%s", text_); }
    KeepsLastFailure(const KeepsLastFailure&) = delete;
    KeepsLastFailure& operator=(const KeepsLastFailure&) = delete;

private:
    char text_[512];
};

// Allocations on this thread are no error, and leave captures on other threads alone, while this object lives.
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
