#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a compiler for make: prints the unit instead of the command, and records the compile time.
#
# usage: tools/compile.sh NAME OBJECT COMMAND...          runs COMMAND, which makes OBJECT
#        tools/compile.sh --plan WHAT JOBS RATE MAKE...   prints what MAKE would compile, and for how long
#
# OBJECT.seconds has the CPU seconds of the compiler; it does not exist if ccache had the object. Progress is printed as
# "[12/64] NAME"; V=1 shows the command as well. $PROGRESS.plan lists the units to compile, $PROGRESS those that started. A
# unit with an unknown time is estimated at 1.5 s, plus a second for each RATE bytes of its source.
set -eu

plan() {
    mkdir -p "$(dirname "$PROGRESS")"
    : >"$PROGRESS"
    "$@" -n V= 2>/dev/null | sed -n 's/^.*tools\/compile\.sh \([^ ]*\) \([^ ]*\) .* -c \([^ ]*\) .*/\1 \2 \3/p' |
        while read -r name object source; do
            echo "$name $(cat "$object.seconds" 2>/dev/null || echo unknown) $(wc -c <"$source")"
        done >"$PROGRESS.plan"
    awk -v what="$what" -v jobs="$jobs" -v rate="$rate" '
        { seconds = $2 == "unknown" ? 1.5 + $3 / rate : $2; total += seconds; if (seconds > longest) longest = seconds }
        END {
            wall = total / jobs < longest ? longest : total / jobs
            about = wall < 90 ? int(wall / 5 + 1) * 5 " s" : int(wall / 60 + 0.5) " minutes"
            units = NR == 1 ? "unit" : "units"
            if (NR > 0) printf "%s: %d %s to compile, about %s on %d idle %s\n", what, NR, units, about, jobs, jobs == 1 ? "core" : "cores"
        }' "$PROGRESS.plan"
}

if [ "$1" = --plan ]; then
    what=$2 jobs=$3 rate=$4
    shift 4
    plan "$@"
    exit 0
fi

name=$1 object=$2
shift 2
progress=
if [ -s "${PROGRESS:-}.plan" ]; then # the number of the appended line is its own
    echo "$name" >>"$PROGRESS"
    number=$(grep -nxF -e "$name" "$PROGRESS" | sed -n '$s/:.*//p')
    progress="[$number/$(grep -c . "$PROGRESS.plan")] "
fi
echo "$progress$name"
if [ "${V:-0}" != 0 ]; then echo "    $*"; fi

mkdir -p "$(dirname "$object")"
rm -f "$object.seconds" "$object.ccache"
CCACHE_STATSLOG=$object.ccache "$@" || { status=$? && echo "failed: $*" >&2 && exit $status; }
if ! grep -qE '^(direct|preprocessed)_cache_hit$' "$object.ccache" 2>/dev/null; then
    times >"$object.times" # in this shell: in a pipe it would be a subshell's
    awk 'NR == 2 { for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); sum += 60 * part[1] + part[2] } printf "%.1f\n", sum }' \
        "$object.times" >"$object.seconds"
fi
rm -f "$object.times" "$object.ccache"
