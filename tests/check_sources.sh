#!/bin/sh
# Rules that a compiler does not check: the include arrows, banned functions, and
# allocators that go past bw_alloc.   sh check_sources.sh SOURCE_DIR
set -u
cd "$1" || exit 1
fail=0
say() { echo "$1" >&2; fail=1; }

# server -> ingest -> policies -> engine/base; server, ingest -> engine; all -> include.
arrow() { # folder, pattern of includes it must not have
    out=$(grep -rnE "#include \"[^\"]*($2)" --include='*.[ch]' --include='*.cpp' "$1" 2>/dev/null)
    [ -z "$out" ] || say "arrow: $1 must not include $2:
$out"
}
arrow engine 'policies/|ingest/|server/'
arrow policies 'ingest/|server/|engine/(kernels|index|partition|store|plan)'
arrow ingest 'server/'
arrow engine/base '(kernels|index|partition|store|plan)/'
arrow engine/kernels '(index|partition|store|plan)/'
arrow engine/index '(partition|store|plan)/'

banned='\b(strcpy|strcat|sprintf|vsprintf|strncpy|strtok|gets|scanf|sscanf|fscanf|vsscanf|atoi|atol|atoll|system|popen|tmpnam|alloca|strcmp_secret)\('
out=$(grep -rnE "$banned" --include='*.[ch]' --include='*.cpp' engine policies ingest server include |
    grep -vE '^[^:]+:[0-9]+: *(\*|/\*|//)')
[ -z "$out" ] || say "banned function:
$out"

out=$(grep -rnE '(^|[^_a-zA-Z0-9.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf)\(' \
    --include='*.c' engine policies ingest server | grep -v '^engine/base/alloc\.c:' |
    grep -vE '^[^:]+:[0-9]+: *(\*|/\*|//)' | grep -v 'libc-allocator:')
[ -z "$out" ] || say "libc allocator outside engine/base/alloc.c (say why with 'libc-allocator:' if a library demands it):
$out"
[ $fail = 0 ] && echo "sources passed"
exit $fail
