#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/json_fields.h"
#include "eval/tasks/task.h"

namespace flywheel {

// The items of a file that is one JSON object a line, or one list of them. What `make` throws
// becomes Error Data with file and number.
std::vector<Item> read_json_items(const std::filesystem::path& path,
                                  const std::function<Item(const Json&)>& make);

// Well-formed UTF-8: what is ill-formed becomes U+FFFD.
std::string read_utf8_file(const std::filesystem::path& path);
std::vector<std::string> lines_of(const std::string& text);

// As the sample files have it.
std::string dump(const Json& document);

// A field that is a string.
std::string text_of(const Json& document, const char* field);

// The place of `label` among labels; Error Data if it is not there.
std::int64_t place_of(const std::string& label, const std::vector<std::string>& labels);

}  // namespace flywheel
