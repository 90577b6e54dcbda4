#!/bin/sh
# What the release binary must have: PIE, full RELRO, no executable stack, stack canaries,
# fortified calls, endbr64 in our functions, no RPATH, no path of the source.   sh check_binary.sh BINARY
set -u
b=$1 fail=0
[ -x "$b" ] || { echo "no binary at $b" >&2; exit 1; }
need() { # description, condition's exit status
    if [ "$2" = 0 ]; then echo "ok: $1"; else echo "MISSING: $1" >&2; fail=1; fi
}
readelf -hW "$b" | grep -q 'Type:.*DYN'; need "position independent" $?
readelf -lW "$b" | grep -q GNU_RELRO; need "RELRO segment" $?
readelf -dW "$b" | grep -qE 'BIND_NOW|FLAGS_1.*NOW'; need "bind now" $?
readelf -lW "$b" | grep 'GNU_STACK' | grep -q 'RW ' ; need "stack not executable" $?
readelf -sW --dyn-syms "$b" | grep -q __stack_chk_fail; need "stack protector" $?
readelf -sW --dyn-syms "$b" | grep -qE '_chk@'; need "fortified libc calls" $?
if objdump -d --no-show-raw-insn --disassemble=main "$b" | grep -q endbr64; then :; else false; fi; need "endbr64 in our code" $?
! readelf -dW "$b" | grep -qE 'RPATH|RUNPATH'; need "no RPATH" $?
src=$(cd "$(dirname "$0")/.." && pwd)
[ "$(strings -a "$b" | grep -cF "$src/")" = 0 ]; need "no path of the source tree" $?
exit $fail
