#!/bin/sh
# Installs what is missing, builds, runs every test. Plain sh; asks nothing; can be run
# again; works as root or through sudo.
#
#   sh tests/run.sh             what CI runs: reduced counts by seed, under 40 minutes on two cores
#   sh tests/run.sh --nightly   full counts, longer fuzzing, the benchmark, the other Debian in a chroot
#   sh tests/run.sh --quick     the debug build and its tests only
#
# BW_SEED      seed of the random tests (default: 1, against the reference Cedar engine the time; each prints its own)
# BW_FUZZ_S    seconds for each fuzz target
# BW_OTHER=0   leaves the other Debian out of --nightly
# Ends with ctest's own summary.
set -u
cd "$(dirname "$0")/.." || exit 1
mode=ci
for a; do
    case $a in
    --nightly) mode=nightly ;;
    --quick) mode=quick ;;
    *) echo "run: unknown option $a (--nightly, --quick)" >&2; exit 2 ;;
    esac
done
: "${BW_DEPS:=${XDG_CACHE_HOME:-$HOME/.cache}/bailiwick}"
: "${BW_CEDAR_SEED:=${BW_SEED:-$(date +%s)}}" # against the reference engine: fresh each time, printed
: "${BW_SEED:=1}"
export BW_DEPS BW_SEED BW_CEDAR_SEED
if [ $mode = nightly ]; then
    export BW_NIGHTLY=1
    : "${BW_FUZZ_S:=60}"
else
    : "${BW_FUZZ_S:=8}"
fi
jobs=$(nproc) # before the next line, which nproc heeds
# Other software's settings of threads would change speed, never results.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
failed=
start=$(date +%s)
step() { echo; echo "== $* ($(($(date +%s) - start)) s)"; }
note() { echo "FAILED: $*" >&2; failed="$failed
  $*"; }

step "what is needed"
sh server/deps.sh build model test || exit 1

build() { # preset
    log=build/$1.log
    mkdir -p build
    { cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs"; } >"$log" 2>&1 ||
        { tail -60 "$log" >&2; note "build $1"; return 1; }
}

step "debug build (ASan, UBSan)"
build debug || exit 1

if [ $mode != quick ]; then
    step "release build"
    build release || exit 1

    step "hardening of the release binary"
    sh tests/check_binary.sh build/release/bailiwick || note "hardening"

    step "thread sanitizer: concurrent tests"
    if build tsan; then
        ctest --test-dir build/tsan --output-on-failure -L tsan -j "$jobs" >build/tsan-tests.log 2>&1 ||
            { tail -80 build/tsan-tests.log >&2; note "tests under TSan"; }
        tail -4 build/tsan-tests.log
    fi

    step "fuzz targets (Clang, $BW_FUZZ_S s each)"
    if build fuzz; then
        for t in build/fuzz/tests/fuzz_*; do
            [ -x "$t" ] && [ -f "$t" ] || continue
            n=$(basename "$t" | sed 's/^fuzz_//')
            mkdir -p "build/fuzz/new/$n"
            dict=
            [ -f "tests/fuzz/$n.dict" ] && dict="-dict=tests/fuzz/$n.dict"
            # shellcheck disable=SC2086
            if ! (cd build/fuzz && "../../$t" "new/$n" "../../tests/fuzz/corpus/$n" ${dict:+-dict=../../tests/fuzz/$n.dict} \
                -max_total_time="$BW_FUZZ_S" -timeout=10 -rss_limit_mb=2048 -seed="$BW_SEED" -print_final_stats=1 \
                >"fuzz_$n.log" 2>&1); then
                tail -40 "build/fuzz/fuzz_$n.log" >&2
                note "fuzz_$n"
            else
                echo "fuzz_$n: $(sed -n 's/^stat::number_of_executed_units: */executions /p' "build/fuzz/fuzz_$n.log")"
            fi
        done
    fi
fi

if [ $mode = nightly ]; then
    step "benchmark"
    sh server/deps.sh peers || note "the benchmark's peers"
    "$BW_DEPS/venv/bin/python" tests/bench/bench.py --build build/release || note "benchmark"
    if [ "${BW_OTHER:-1}" = 1 ]; then
        step "the other Debian, in a chroot"
        sh tests/other_debian.sh || note "the other Debian"
    fi
fi

step "all tests, debug build"
ctest --test-dir build/debug --output-on-failure -j "$jobs"
rc=$?
[ -z "$failed" ] || { echo "also failed:$failed" >&2; exit 1; }
exit $rc
