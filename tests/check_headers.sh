#!/bin/sh
# Compiles each public header alone, as pedantic C11 and as C++17.
#   sh check_headers.sh INCLUDE_DIR CC CXX
set -eu
inc=$1 cc=$2 cxx=$3 n=0
for h in "$inc"/bailiwick/*.h; do
    "$cc" -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -I"$inc" -x c "$h" \
        -Wno-pragma-once-outside-header 2>&1 || exit 1
    "$cxx" -std=c++17 -Wall -Wextra -Werror -pedantic -fsyntax-only -I"$inc" -x c++ "$h" \
        -Wno-pragma-once-outside-header 2>&1 || exit 1
    n=$((n + 1))
done
echo "$n headers passed"
