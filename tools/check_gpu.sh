#!/usr/bin/env bash
# The whole suite, the sanitizers and the benchmark on a machine with a GPU, with the libraries as they were built.
#
# usage: tools/check_gpu.sh OUT [PYTHON]     reports go to the folder OUT; exits non-zero if anything failed
#
# compute-sanitizer runs ops of every skeleton in f32 and bf16; SANITIZE=EXPRESSION (pytest -k) chooses others.
set -u -o pipefail
out=${1:?usage: tools/check_gpu.sh OUT [PYTHON]}
python=${2:-python3}
cd "$(dirname "$0")/.." && mkdir -p "$out" || exit 2
failed=0
say() { printf '%-28s %s\n' "$1" "$2"; }
run() { # name, command...
    local name=$1 start=$SECONDS
    shift
    if "$@" >"$out/$name.log" 2>&1; then say "$name" "passed in $((SECONDS - start)) s: $(tail -n 1 "$out/$name.log")"
    else say "$name" "FAILED in $((SECONDS - start)) s"; tail -n 25 "$out/$name.log"; failed=1; fi
}

export BARACUDA_BACKEND=cuda PYTHONDONTWRITEBYTECODE=1
workers=()
"$python" -c 'import xdist' 2>/dev/null && workers=(-n 8)
run tests "$python" -m pytest tests -q -p no:cacheprovider "${workers[@]}" --ignore tests/gpu/test_large.py
run large "$python" -m pytest tests/gpu/test_large.py -q -p no:cacheprovider
run demo "$python" -m baracuda.demo
skeletons="segment or embedding or alibi or repeat or binary_lerp or prelu or gated_glu or unary_neg or binary_add or binary_mul"
skeletons+=" or ternary_fma or where_u32 or fill or affine or cast_f32_bf16 or cast_bf16_s4 or cast_u4_f32"
if sanitizer=$(command -v compute-sanitizer); then
    for tool in memcheck racecheck initcheck synccheck; do
        run "$tool" "$sanitizer" --tool "$tool" --error-exitcode 99 --target-processes all \
            "$python" -m pytest tests/test_ops.py -q -p no:cacheprovider -x -k "${SANITIZE:-test_reference and (f32 or bf16) and ($skeletons)}"
    done
else
    say compute-sanitizer "not found"
fi
run bench "$python" -m tools.bench --json "$out/bench.json"
cat "$out/bench.log"
exit "$failed"
