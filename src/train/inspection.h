#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace flywheel {

using InspectedValue = std::variant<bool, std::int64_t, double, std::string>;

struct InspectedFact {
  std::string key;  // snake_case, as in JSON
  InspectedValue value;
  std::string note{};  // for people only
};

struct InspectedTable {
  std::string key;
  std::vector<std::string> columns;
  std::vector<std::vector<InspectedValue>> rows;  // each as long as `columns`
  std::size_t left = 1;                           // so many first columns are aligned to the left
};

// What a file or folder holds, and what is wrong with it.
struct Inspection {
  std::string path;
  std::string kind;  // "token file", "checkpoint", ...
  std::vector<InspectedFact> facts{};
  std::vector<InspectedTable> tables{};
  std::vector<std::string> faults{};  // one line each, which names the file

  bool whole() const { return faults.empty(); }
  void add(std::string key, InspectedValue value, std::string note = {});
  // Runs `read`; the lines of an Error that it throws become faults.
  void guard(const std::function<void()>& read);
};

// For people: a line with kind and verdict, the facts, the tables, the faults.
std::string to_text(const Inspection& inspection);
// For scripts: {"whole": ..., "inspected": [{"path", "kind", "whole", "faults", facts..., tables as
// lists of objects}]}.
std::string to_json(std::span<const Inspection> inspections);

// Text on one line: \n, \t, \r, \\ as in C, other control characters and bytes that are not UTF-8
// as \xNN.
std::string escaped(std::string_view text);

}  // namespace flywheel
