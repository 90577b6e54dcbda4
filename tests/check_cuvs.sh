#!/bin/sh
# Holds engine/index/cuvs_abi.h against the real cuVS: types and layouts against its
# headers, names against its library, and what we say when it is loaded without a GPU.
#   sh check_cuvs.sh SOURCE_DIR CC TEST_PROGRAM
# BW_CUVS_WHEEL: folder into which a libcuvs-cu13 wheel (26.08 … 26.x) was unpacked.
# BW_CUVS_INCLUDE: folders with cuda.h, cuda_runtime.h and dlpack/dlpack.h, parted by
# colons, beside the usual ones. Ends with 77 and says why where something is missing.
set -u
src=$1 cc=$2 test=$3
wheel=${BW_CUVS_WHEEL:-}
skip() { echo "cuVS: skipped, $1"; exit 77; }
fail() { echo "cuVS: $1" >&2; exit 1; }
[ -n "$wheel" ] || skip "BW_CUVS_WHEEL names no unpacked wheel of libcuvs-cu13"
lib="$wheel/libcuvs/lib64/libcuvs_c.so"
[ -f "$wheel/libcuvs/include/cuvs/neighbors/cagra.h" ] || skip "no headers in $wheel"
[ -f "$lib" ] || skip "no libcuvs_c.so in $wheel"
command -v nm > /dev/null || skip "no nm here"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
set -- -isystem "$wheel/libcuvs/include"
IFS=:
for d in ${BW_CUVS_INCLUDE:-} /usr/local/cuda/include; do
    [ -d "$d" ] && set -- "$@" -isystem "$d"
done
unset IFS
for h in cuda.h cuda_runtime.h dlpack/dlpack.h; do
    echo "#include <$h>" | "$cc" "$@" -x c -fsyntax-only - 2> /dev/null || skip "no header $h here"
done
layout="$src/tests/support/cuvs_double/layout.c"
"$cc" -std=gnu11 -Wall -Wextra -Werror -I"$src" "$layout" -o "$tmp/ours" || fail "our declarations do not compile"
"$cc" -std=gnu11 -Wall -Wextra -DREAL_CUVS_HEADERS -I"$src" "$@" "$layout" -o "$tmp/real" ||
    fail "the real headers declare something else"
"$tmp/ours" > "$tmp/ours.txt" && "$tmp/real" > "$tmp/real.txt" || fail "a layout program failed"
diff "$tmp/ours.txt" "$tmp/real.txt" || fail "layouts differ (ours left, theirs right)"
nm -D --defined-only "$lib" | sed 's/.* //' > "$tmp/names"
n=0
for s in $(sed -n 's/^symbol //p' "$tmp/ours.txt"); do
    grep -qx "$s" "$tmp/names" || fail "$lib lacks $s"
    n=$((n + 1))
done
echo "cuVS: $(grep -c . "$tmp/ours.txt") layouts, values and names agree; $n of $n symbols are in the library"
# A driver's double says that there is a GPU: then it is the library that must say no.
if [ -x "$test" ]; then
    "$test" real-library "$lib" || fail "the real library was taken for usable, or crashed"
fi
