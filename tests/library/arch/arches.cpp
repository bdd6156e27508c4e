// SPDX-License-Identifier: Apache-2.0
// The choice of core/abi/arch.h if files *_sm80.cu and *_sm90a.cu exist. Defines only what was compiled, as a build does.
#include <cstdio>

#include "core/abi/arch.h"

namespace bk {

Status fail(Status status, const char*, ...) { return status; }
int device_arch() { return 0; }

}  // namespace bk

int run_sm80();
int run_sm90a();
#if BK_HAS_SM80
int run_sm80() { return 80; }
#endif
#if BK_HAS_SM90a
int run_sm90a() { return 90; }
#endif

int main() {
    for (int arch : {0, 75, 80, 86, 90, 100, 120}) {
        const auto up = bk::choose({BK_SM(80, run_sm80), BK_SM(90a, run_sm90a)}, arch);
        const auto down = bk::choose({BK_SM(90a, run_sm90a), BK_SM(80, run_sm80)}, arch);
        if (up.run != down.run) return 1;
        if (up.run != nullptr && up.run() != up.number()) return 1;
        if (up.run == nullptr && bk::unsupported_arch(arch) == bk::Status::kOk) return 1;
        printf("%d:%s ", arch, up.name);
    }
    puts("");
}
