// SPDX-License-Identifier: Apache-2.0
// Offsets of sequences in the workspace: those of the caller, clamped to the rows that there are, and none below one in front
// of it. With others two sequences would share rows.
#pragma once

#include "core/collectives/team.h"
#include "recurrent/state/problem.h"

namespace bk::recurrent {

// One team, whose threads have adjacent runs of offsets.
struct ClampOffsets {
    int64_t count, rows;  // of offsets
    const int32_t* from;
    int32_t* to;

    BK_HD void operator()(const Team& team, int64_t) const {
        const int64_t run = (count + team.size - 1) / team.size, begin = team.rank * run;
        const int64_t end = begin + run < count ? begin + run : count;
        int32_t* const largest = static_cast<int32_t*>(team.scratch);
        int32_t most = 0;
        for (int64_t n = begin; n < end; ++n) most = larger(most, from[n]);
        largest[team.rank] = most;
        team.sync();
        most = 0;
        for (int r = 0; r < team.rank; ++r) most = larger(most, largest[r]);
        for (int64_t n = begin; n < end; ++n) to[n] = most = larger(most, from[n]);
    }

private:
    BK_HD int32_t larger(int32_t most, int32_t given) const {
        const int64_t x = given > rows ? rows : given;
        return x > most ? static_cast<int32_t>(x) : most;
    }
};

}  // namespace bk::recurrent
