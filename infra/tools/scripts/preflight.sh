#!/bin/sh
# Checks what a build needs, and says in one line what to do about what is missing. When all is well it prints nothing
# and takes a few milliseconds.
#
#   preflight.sh [GOAL...]   before a build; with the goal run or demo, the port must be free as well
#   preflight.sh explain     after a failed build: names the disk or the network if one of them is the reason
#   preflight.sh optional    names the tests that this machine cannot run, and what they need
set -u
cd "$(dirname "$0")/../../.."

# Megabytes that the first `make run` writes, that the first `make test` writes, and that a later build may write.
FIRST_BUILD_MB=4000
FIRST_TEST_MB=7000
LATER_BUILD_MB=500

stop() {
    echo "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

free_mb() { df -Pk . | awk 'NR == 2 {print int($4 / 1024)}'; }

check_system() {
    [ "$(uname -s)" = Linux ] ||
        stop "This project runs on Linux, not on $(uname -s): use a Linux machine, a virtual machine or a container."
}

check_rust() {
    wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if ! has cargo; then
        [ ! -x "${HOME:-}/.cargo/bin/cargo" ] ||
            stop "Rust is installed but not on the PATH. Run: . \"\$HOME/.cargo/env\""
        stop "Rust is missing. Install it with rustup (https://rustup.rs), and open a new terminal."
    fi
    if [ -z "${RUSTUP_TOOLCHAIN:-}" ] && has rustup && [ "$(command -v cargo)" -ef "$(command -v rustup)" ]; then
        # Asking rustup for a version takes longer than all other checks together, so look at its folder first.
        for folder in "${RUSTUP_HOME:-${HOME:-}/.rustup}/toolchains/$wanted"-*; do
            [ ! -d "$folder" ] || return 0
        done
        cargo --version >/dev/null 2>&1 && return
        echo "Installing Rust $wanted with rustup (once)..." >&2
        rustup toolchain install "$wanted" --profile minimal --component clippy,rustfmt >&2 ||
            stop "Rust $wanted could not be installed: check the network, then run: rustup toolchain install $wanted"
        return
    fi
    found=$(rustc --version 2>/dev/null | cut -d' ' -f2)
    lowest=$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)
    [ -n "$found" ] && [ "$lowest" = "$wanted" ] ||
        stop "Rust ${found:-without rustc} is too old: $wanted is needed. Install it with rustup (https://rustup.rs)."
}

check_compiler() {
    has cc || stop "A C compiler is missing. Install one: apt install build-essential, or dnf install gcc."
    # A compiler without the C library's headers fails much later. It is asked before the first build only.
    [ -d target ] || echo '#include <stdlib.h>' | cc -x c -fsyntax-only - 2>/dev/null ||
        stop "The C compiler (cc) cannot compile. Install the C library's headers: apt install libc6-dev."
}

check_disk() {
    needed=$LATER_BUILD_MB
    if [ ! -d target/debug ]; then
        needed=$FIRST_BUILD_MB
        case " $* " in *" test "*) needed=$FIRST_TEST_MB ;; esac
    fi
    found=$(free_mb)
    [ "$found" -ge "$needed" ] ||
        stop "The disk is nearly full: $found MB are free, and a build needs $needed MB. Free some space first."
}

# The port that `make run` and `make demo` listen on. The program says the same, but only after a first build.
check_port() {
    case " ${ARGS:-} " in *" --port"*) return ;; esac
    port=${PORT:-3000}
    case $port in *[!0-9]* | '') return ;; esac
    [ "$port" -ge 1 ] && [ "$port" -le 65535 ] || return 0
    listening=":$(printf %04X "$port") 0*:0000 0A "
    ! grep -q "$listening" /proc/net/tcp /proc/net/tcp6 2>/dev/null ||
        stop "Port $port is in use: stop what listens there, or choose another, as in: make $1 PORT=$((port + 1))"
}

explain() {
    found=$(free_mb)
    [ "$found" -ge 100 ] ||
        stop "The disk is full ($found MB are free). Free some space, then run the same command again."
    # What this build needs may be there although not everything is, so the second question decides.
    host=$(rustc -vV 2>/dev/null | sed -n 's/^host: //p')
    cargo fetch --locked --offline --target "$host" >/dev/null 2>&1 ||
        ! cargo build --workspace --bins --offline 2>&1 | grep -q -e '--offline' ||
        stop "Crates could not be downloaded. Check the network or HTTPS_PROXY, then run the same command again."
    exit 1
}

optional() {
    has python3 || echo "Not run: make invoke-all, make fuzz-api and make rehearse need Python 3.11 (python3)."
    has node || echo "Not run: make browser needs Node 20 (node) and Chromium."
    has java || echo "Not run: make engines needs Java 17 (java) and npm."
}

case ${1:-} in
    explain) explain ;;
    optional) optional ;;
    *)
        check_system
        check_rust
        check_compiler
        check_disk "$@"
        for goal; do
            case $goal in run | demo) check_port "$goal" ;; esac
        done
        ;;
esac
