#!/usr/bin/env bash
# Format and static analysis; exit code 77 where the tool is not installed (tools/setup.sh --lint installs them).
#   tools/lint.sh format            says which files clang-format would change
#   tools/lint.sh fix               formats them
#   tools/lint.sh tidy [FILE...]    clang-tidy over these files, else over all of build/release
set -euo pipefail
cd "$(dirname "$0")/.."

need() {
  command -v "$1" >/dev/null && return
  echo "skipped: $1 is not installed"
  exit 77
}
sources() { find src cuda tools bench tests train.cpp -type f "$@" 2>/dev/null | sort; }

case "${1:-}" in
  format | fix)
    need clang-format
    # Other versions format a little differently.
    if ! clang-format --version | grep -q "version 14"; then
      echo "skipped: clang-format is not version 14"
      exit 77
    fi
    mapfile -t files < <(sources \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \))
    if [ "$1" = fix ]; then exec clang-format -i "${files[@]}"; fi
    exec clang-format --dry-run --Werror "${files[@]}"
    ;;
  tidy)
    need clang-tidy
    shift
    if [ ! -f build/release/compile_commands.json ]; then
      echo "lint.sh: run cmake --preset release first" >&2
      exit 1
    fi
    if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(sources -name '*.cpp' -not -path 'tests/simt/*'); fi
    printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet \
      --extra-arg=-Wno-unknown-warning-option
    ;;
  *)
    echo "usage: tools/lint.sh format | fix | tidy [FILE...]" >&2
    exit 2
    ;;
esac
