#!/usr/bin/env bash
# Runs a command with a container engine: `container-engine.sh COMMAND...`.
#
# If an engine answers, the command runs on it. Otherwise root gets one for this command: Debian's docker.io, started
# on a socket, a bridge and a folder of its own, and stopped and removed afterwards. Where Lambda's image cannot be
# pulled, a Debian with the same programs takes its name, so that `sam local invoke` finds it. If no engine can be had,
# one line says why, and the command runs without one.
set -euo pipefail
cd "$(dirname "$0")/../../.."
case $(uname -m) in
  aarch64) arch=arm64 ;;
  *) arch=x86_64 ;;
esac
IMAGE=public.ecr.aws/lambda/provided:al2023-$arch
ROOT=$PWD/.tools/debian-$arch.tar
# An address range that a company network rarely uses.
BRIDGE=172.31.250.1/24

without() {
  echo "No container engine: $*." >&2
  exec "${command[@]}"
}

command=("$@")
if command -v docker >/dev/null && timeout 10 docker version >/dev/null 2>&1; then
  exec "${command[@]}"
fi
[ "$(id -u)" = 0 ] || without "none answers, and only root can start one"
if ! command -v dockerd >/dev/null || ! command -v debootstrap >/dev/null; then
  command -v apt-get >/dev/null || without "dockerd is missing, and there is no apt-get to install it with"
  echo "Installing docker.io and debootstrap (apt-get)..." >&2
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    docker.io containerd runc debootstrap iproute2; } >/dev/null 2>&1 || without "docker.io could not be installed"
fi

# A socket's path has at most 107 characters, so the folder is not below this one.
work=$(mktemp -d /tmp/engine.XXXXXX)
had_bridge=$(ip link show docker0 2>/dev/null || true)
daemon=
stop() {
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  [ -n "$had_bridge" ] || ip link delete docker0 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

start() {
  dockerd --iptables=false --ip6tables=false --bip "$BRIDGE" --storage-driver "$1" --data-root "$work/data" \
    --exec-root "$work/exec" --pidfile "$work/pid" --host "unix://$work/socket" >"$work/log" 2>&1 &
  daemon=$!
  for _ in $(seq 100); do
    ! timeout 5 docker version >/dev/null 2>&1 || return 0
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.3
  done
  kill "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  daemon=
  return 1
}

export DOCKER_HOST=unix://$work/socket
if ! start overlay2 && ! start vfs; then
  reason=$(grep -v level=info "$work/log" | tail -n 1 | cut -c -200)
  stop
  unset DOCKER_HOST
  trap - EXIT
  without "dockerd does not start here: $reason"
fi
if ! timeout 60 docker pull --quiet "$IMAGE" >/dev/null 2>&1; then
  if [ ! -f "$ROOT" ]; then
    echo "Lambda's image cannot be pulled; making one from Debian (once)..." >&2
    mkdir -p "$(dirname "$ROOT")"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$work/root" >"$work/debootstrap.log" 2>&1 || {
      tail -n 5 "$work/debootstrap.log" >&2
      exit 1
    }
    rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/{doc,locale,man}
    tar --create --directory "$work/root" --file "$ROOT.part" .
    mv "$ROOT.part" "$ROOT"
  fi
  docker import --change 'WORKDIR /var/task' "$ROOT" "$IMAGE" >/dev/null
fi
"${command[@]}"
