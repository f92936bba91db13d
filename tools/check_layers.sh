#!/usr/bin/env bash
# Holds the layering: a file includes only from its own folder and from lower layers. Prints one line a violation.
#   tools/check_layers.sh [ROOT]
# The table of layers is below; docs/architecture.md explains it.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

mapfile -t files < <(find src tools bench tests cuda train.cpp \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -type f 2>/dev/null | sort)
if [ ${#files[@]} -eq 0 ]; then
  echo "check_layers.sh: no sources in $PWD" >&2
  exit 2
fi

awk '
  BEGIN {
    seam = "core backend attention"
    domain = "core backend attention model data"
    allowed["core"] = ""
    allowed["backend"] = allowed["attention"] = "core"
    allowed["cpu"] = allowed["cuda"] = allowed["dist"] = seam
    allowed["model"] = allowed["data"] = seam
    allowed["train"] = allowed["eval"] = allowed["infer"] = domain
    allowed["analysis"] = domain " eval plot"
    allowed["plot"] = "core"
    allowed["report"] = domain " train plot"
    # Headers that hold heavy ones, for .cpp files only.
    heavy_header["src/core/json_fields.h"] = heavy_header["src/data/json_node.h"] = 1
    heavy_header["src/data/tokenizer_json_parts.h"] = heavy_header["src/eval/tasks/documents.h"] = 1
    max_lines = 600
    max_main_lines = 150
  }

  function report(line, message) { print FILENAME ":" line ": " message; found = 1 }

  function finish_file() {
    if (file == "") return
    limit = is_main ? max_main_lines : max_lines
    if (lines > limit) { print file ":" lines ": more than " limit " lines: split the file"; found = 1 }
  }

  FNR == 1 {
    finish_file()
    file = FILENAME
    n = split(file, part, "/")
    folder = part[1] == "src" && n > 2 ? part[2] : part[1] == "cuda" ? "cuda" : ""
    is_header = file ~ /\.(h|cuh)$/
    is_main = file == "train.cpp" || file ~ /^tools\/[^\/]*\.cpp$/
    is_factory = file ~ /^src\/train\/factory\.cpp$/
    if (part[1] == "src" && !(folder in allowed)) report(1, "src/" folder " is not in the table of layers")
  }
  { lines = FNR }

  /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    target = $0
    sub(/^[^<"]*[<"]/, "", target)
    sub(/[>"].*$/, "", target)
    quoted = $0 ~ /include[ \t]*"/

    if (target == "cxxopts.hpp" && !is_main && part[1] != "tools" && part[1] != "bench")
      report(FNR, "cxxopts belongs into the mains (train.cpp, tools/*.cpp)")
    if (is_header && !(file in heavy_header) &&
        (target ~ /^(nlohmann|spdlog|google\/protobuf)\/|^pcre2\.h$|\.pb\.h$/ || ("src/" target) in heavy_header))
      report(FNR, target " is heavy: include it in a .cpp file")

    if (folder == "" || !quoted || target ~ /\.pb\.h$|^hwy\//) next
    if (file ~ /^cuda\/device\// && target ~ /^simt\/emulator\//) next  # in place of the headers of CUDA
    n = split(target, part, "/")
    if (n < 2) { report(FNR, "write the include relative to src/: \"" folder "/" target "\""); next }
    if (part[1] == folder) next
    if (!(part[1] in allowed)) { report(FNR, target " is not below src/: write libraries in <>"); next }
    if (is_factory && (part[1] == "cpu" || part[1] == "cuda" || part[1] == "dist")) next
    if (index(" " allowed[folder] " ", " " part[1] " ") == 0)
      report(FNR, "src/" folder " must not include " target " (it may see: " \
             (allowed[folder] == "" ? "itself" : "itself, " allowed[folder]) ")")
  }

  END { finish_file(); exit found }
' "${files[@]}"
