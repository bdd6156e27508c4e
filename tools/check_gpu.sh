#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the whole suite, compute-sanitizer and the benchmark on a machine with a GPU, with the libraries that are built.
#
# usage: tools/check_gpu.sh OUT [PYTHON]     reports go to the folder OUT; exits non-zero if anything failed
#
# STAGES="tests large demo ranks sanitizers bench" selects stages (ranks: collectives, layers and training on all GPUs, if there
# are several), FAILURES=N ends the suite after N failures, WORKERS=N sets the
# number of its processes, SECONDS_OF_BENCH=N limits the benchmark. Failures are printed at once; $OUT/tests.xml has all.
# compute-sanitizer runs an op of every row, hence every kernel, on arrays of at most 2,000 elements, with its four tools in
# parallel; SANITIZE=EXPRESSION (pytest -k) selects other tests, TOOLS some of the four.
set -u -o pipefail
out=${1:?usage: tools/check_gpu.sh OUT [PYTHON]}
python=${2:-python3}
cd "$(dirname "$0")/.." && mkdir -p "$out" || exit 2
rm -f "$out/failed"
say() { printf '%-28s %s\n' "$1" "$2"; }
run() { # name, command...
    local name=$1 start=$SECONDS
    shift
    if "$@" 2>&1 | tee "$out/$name.log" | { grep --line-buffered -E '^(FAILED |E   )' || true; }; then
        say "$name" "passed in $((SECONDS - start)) s: $(tail -n 1 "$out/$name.log")"
    else
        say "$name" "FAILED in $((SECONDS - start)) s"
        tail -n 25 "$out/$name.log"
        echo "$name" >>"$out/failed"
    fi
}
wanted() { case " ${STAGES:-tests large demo ranks sanitizers bench} " in *" $1 "*) ;; *) false ;; esac; }

export BARACUDA_BACKEND=cuda PYTHONDONTWRITEBYTECODE=1
pytest=("$python" -m pytest -q -p no:cacheprovider --tb=short --failures-at-once --no-summary)
workers=()
"$python" -c 'import xdist' 2>/dev/null && workers=(-n "${WORKERS:-8}")
if wanted tests; then
    run tests "${pytest[@]}" tests "${workers[@]}" --maxfail "${FAILURES:-100}" --junitxml "$out/tests.xml" --ignore-glob "tests/gpu/test_large*.py"
fi
if wanted large; then run large "${pytest[@]}" tests/gpu/test_large*.py --junitxml "$out/large.xml"; fi
if wanted demo; then run demo "$python" -m baracuda.demo train --size small; fi
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
if wanted ranks && [ "$gpus" -gt 1 ]; then
    run ranks "$python" -m tools.check_distributed --gpus "$gpus"
    run ranks_bench "$python" -m tools.bench.distributed --gpus "$gpus" --json "$out/ranks.json"
    run scaling "$python" -m tools.bench.scaling --gpus "$gpus" --json "$out/scaling.json"
fi
if wanted sanitizers; then
    if sanitizer=$(command -v compute-sanitizer); then
        chosen=(tests/ops/test_ops.py --op-a-row --most-elements 2000 -k test_reference)
        [ -z "${SANITIZE:-}" ] || chosen=(tests/ops/test_ops.py -k "$SANITIZE")
        for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
            run "$tool" "$sanitizer" --tool "$tool" --error-exitcode 99 --target-processes all "${pytest[@]}" "${chosen[@]}" -x &
        done
        wait
    else
        say compute-sanitizer "not found"
    fi
fi
if wanted bench; then
    run bench "$python" -m tools.bench --json "$out/bench.json" ${SECONDS_OF_BENCH:+--seconds "$SECONDS_OF_BENCH"}
    cat "$out/bench.log"
fi
[ ! -e "$out/failed" ]
