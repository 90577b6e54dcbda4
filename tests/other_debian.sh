#!/bin/sh
# Runs tests/run.sh on the other Debian (13 on 12, 12 on 13) in a chroot made by debootstrap.
# Needs root (or sudo) and the mirror that apt uses; certificates and the settings of pip and
# npm are passed in, so that a machine behind a proxy of its own works.
#   sh tests/other_debian.sh [--keep] [args of tests/run.sh…]
# BW_CHROOT  folder of the chroot (default $BW_DEPS/chroot-SUITE); reused if it is there
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
: "${BW_DEPS:=${XDG_CACHE_HOME:-$HOME/.cache}/bailiwick}"
here=$(. /etc/os-release; echo "$VERSION_CODENAME")
case $here in bookworm) suite=trixie ;; *) suite=bookworm ;; esac
chroot=${BW_CHROOT:-$BW_DEPS/chroot-$suite}
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

command -v debootstrap >/dev/null 2>&1 || as_root apt-get install -y -q --no-install-recommends debootstrap
uri=${BW_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
    awk -v s="$here" '$2 == s && $3 == "main" { print $1; exit }')}
[ -n "$uri" ] || { echo "no mirror known; set BW_MIRROR" >&2; exit 1; }

if ! [ -f "$chroot/.ready" ]; then
    echo "other: making $suite in $chroot"
    as_root debootstrap --variant=minbase --include=ca-certificates,git "$suite" "$chroot" "$uri" >"$BW_DEPS/debootstrap-$suite.log" 2>&1 ||
        { tail -20 "$BW_DEPS/debootstrap-$suite.log" >&2; exit 1; }
    as_root touch "$chroot/.ready"
fi
mounted() { grep -q " $1 " /proc/mounts; }
for m in proc dev dev/pts dev/shm sys; do
    mounted "$chroot/$m" || case $m in
    proc) as_root mount -t proc proc "$chroot/proc" ;;
    *) as_root mount --bind "/$m" "$chroot/$m" ;;
    esac
done
trap 'for m in sys dev/shm dev/pts dev proc; do as_root umount "$chroot/$m" 2>/dev/null || true; done' EXIT INT TERM

# This machine's way to the registries: resolver, hosts, certificates, apt's and pip's and npm's settings.
as_root cp /etc/resolv.conf /etc/hosts "$chroot/etc/"
as_root cp /etc/ssl/certs/ca-certificates.crt "$chroot/etc/ssl/certs/ca-certificates.crt"
for f in $(grep -lsE '^[[:space:]]*Acquire' /etc/apt/apt.conf.d/*) /etc/pip.conf /etc/npmrc "$HOME/.npmrc"; do
    [ -f "$f" ] || continue
    case $f in "$HOME"/*) d=$chroot/root/$(basename "$f") ;; *) d=$chroot$f ;; esac
    as_root mkdir -p "$(dirname "$d")"
    as_root cp "$f" "$d"
done
# What the tests read beside the checkout, and the checkout itself, as a clean clone.
as_root rm -rf "$chroot/src"
as_root mkdir -p "$chroot/src"
as_root git -c safe.directory='*' clone -q "$root" "$chroot/src/main"
[ -d "$root/../shared" ] && as_root cp -r "$root/../shared" "$chroot/src/shared"
env_pass=
for v in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_CERT PIP_DEFAULT_TIMEOUT NODE_EXTRA_CA_CERTS SSL_CERT_FILE \
    REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NPM_CONFIG_REGISTRY npm_config_registry npm_config_cafile; do
    eval "val=\${$v-}"
    [ -n "$val" ] && env_pass="$env_pass $v=$val"
done
# shellcheck disable=SC2086
as_root chroot "$chroot" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 $env_pass \
    sh /src/main/tests/run.sh "$@"
