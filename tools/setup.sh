#!/usr/bin/env bash
# Installs what the build needs from the distribution (Debian 12, Ubuntu 24.04). Does nothing where all is there.
#   tools/setup.sh          compiler, CMake, libraries
#   tools/setup.sh --lint   also clang-format, clang-tidy, shellcheck
set -euo pipefail

packages=(
  cmake ninja-build g++ pkg-config
  libhwy-dev libigraph-dev libopenblas-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libcxxopts-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libprotobuf-dev protobuf-compiler libopenmpi-dev openmpi-bin catch2 gnuplot-nox
)
case "${1:-}" in
  "") ;;
  --lint) packages+=(clang-format clang-tidy shellcheck) ;;
  *)
    echo "setup.sh: unknown option '$1' (known: --lint)" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: this system has no apt. Flywheel is built on Debian 12 and Ubuntu 24.04; elsewhere" >&2
  echo "install the equivalents of: ${packages[*]}" >&2
  exit 0 # CMake names what it does not find
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null || true)
  grep -qx installed <<<"$status" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: not root and no sudo; ask an administrator to run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null >>"$log" 2>&1; }
# The package lists may be absent or old: refresh them only when the first try fails.
if ! apt install --no-install-recommends -y "${missing[@]}"; then
  if ! { apt update && apt install --no-install-recommends -y "${missing[@]}"; }; then
    tail -n 20 "$log" >&2
    echo "setup.sh: apt could not install: ${missing[*]}" >&2
    exit 1
  fi
fi
