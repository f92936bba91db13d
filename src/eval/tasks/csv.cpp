#include "eval/tasks/csv.h"

#include "core/error.h"

namespace flywheel {

std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record;
  std::string field;
  bool quoted = false;
  bool any = false;  // the record has begun
  const auto end_field = [&] {
    record.push_back(std::move(field));
    field.clear();
  };
  const auto end_record = [&] {
    if (!any) return;
    end_field();
    records.push_back(std::move(record));
    record.clear();
    any = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r') {
      any = true;
      if (c == '"' && field.empty()) {
        quoted = true;
      } else if (c == ',') {
        end_field();
      } else {
        field += c;
      }
    }
  }
  require(!quoted, ErrorKind::Data, "the quote of record {} is not closed", records.size() + 1);
  end_record();
  return records;
}

}  // namespace flywheel
