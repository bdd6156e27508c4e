// SPDX-License-Identifier: Apache-2.0
#include "conv/cpu/conv_instances_cpu.h"

namespace bk {

BK_CONV_INSTANCES(f16)

}  // namespace bk
