#include <algorithm>
#include <array>

#include "core/error.h"
#include "eval/python_text.h"
#include "eval/tasks/csv.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

struct Area {
  const char* name;
  const char* alias;
  std::vector<std::string> subjects;
};

const std::vector<Area>& areas() {
  static const std::vector<Area> all{
      {"mmlu_stem",
       "stem",
       {"abstract_algebra", "anatomy", "astronomy", "college_biology", "college_chemistry",
        "college_computer_science", "college_mathematics", "college_physics", "computer_security",
        "conceptual_physics", "electrical_engineering", "elementary_mathematics",
        "high_school_biology", "high_school_chemistry", "high_school_computer_science",
        "high_school_mathematics", "high_school_physics", "high_school_statistics",
        "machine_learning"}},
      {"mmlu_other",
       "other",
       {"business_ethics", "clinical_knowledge", "college_medicine", "global_facts", "human_aging",
        "management", "marketing", "medical_genetics", "miscellaneous", "nutrition",
        "professional_accounting", "professional_medicine", "virology"}},
      {"mmlu_social_sciences",
       "social sciences",
       {"econometrics", "high_school_geography", "high_school_government_and_politics",
        "high_school_macroeconomics", "high_school_microeconomics", "high_school_psychology",
        "human_sexuality", "professional_psychology", "public_relations", "security_studies",
        "sociology", "us_foreign_policy"}},
      {"mmlu_humanities",
       "humanities",
       {"formal_logic", "high_school_european_history", "high_school_us_history",
        "high_school_world_history", "international_law", "jurisprudence", "logical_fallacies",
        "moral_disputes", "moral_scenarios", "philosophy", "prehistory", "professional_law",
        "world_religions"}},
  };
  return all;
}

constexpr std::array<const char*, 4> kLetters{"A", "B", "C", "D"};

Item make(const std::vector<std::string>& fields, const std::string& subject) {
  require(fields.size() == 6, ErrorKind::Data,
          "{} fields; expected a question, four choices and a letter", fields.size());
  const std::int64_t gold = place_of(fields[5], {kLetters.begin(), kLetters.end()});
  const std::vector<std::string> choices(fields.begin() + 1, fields.begin() + 5);
  std::string query(python::strip(fields[0]));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    query += std::string("\n") + kLetters.at(i) + ". " + choices[i];
  }
  const Json document{
      {"question", fields[0]}, {"subject", subject}, {"choices", choices}, {"answer", gold}};
  return {.document = dump(document),
          .queries = {query + "\nAnswer:"},
          .choices = {kLetters.begin(), kLetters.end()},
          .gold = gold,
          .target = std::to_string(gold)};
}

std::vector<Item> read(const std::filesystem::path& path, const std::string& subject) {
  std::vector<Item> items;
  try {
    for (const auto& fields : parse_csv(read_utf8_file(path)))
      items.push_back(make(fields, subject));
  } catch (const Error& error) {
    fail(error.kind(), "{}: record {}: {}", path.string(), items.size() + 1, error.what());
  }
  require(!items.empty(), ErrorKind::Data, "{}: no questions in it", path.string());
  return items;
}

Task subject_task(const std::string& subject) {
  std::string words = subject;
  std::replace(words.begin(), words.end(), '_', ' ');
  const auto file = [&](const std::string& split) {
    const std::string name = split + "/" + subject + "_" + split + ".csv";
    return DataFile{.names = {"mmlu/" + name, "mmlu/data/" + name},
                    .source = name +
                              " of MMLU's data.tar by Hendrycks et al. 2020 "
                              "(github.com/hendrycks/test)"};
  };
  return {.name = "mmlu_" + subject,
          .alias = subject,
          .version = "1.0",
          .metrics = {"acc"},
          .dataset = "cais/mmlu (" + subject + ")",
          .split = "test",
          .description =
              "The following are multiple choice questions (with answers) about " + words + ".\n\n",
          .evaluated = file("test"),
          .examples = file("dev"),
          .few_shot = FewShot::First,
          .read = [subject](const std::filesystem::path& path) { return read(path, subject); }};
}

}  // namespace

std::vector<Task> mmlu_tasks() {
  std::vector<Task> tasks;
  for (const Area& area : areas()) {
    for (const std::string& subject : area.subjects) tasks.push_back(subject_task(subject));
  }
  return tasks;
}

std::vector<TaskGroup> mmlu_groups() {
  const auto group = [](const std::string& name, const std::string& alias) {
    return TaskGroup{
        .name = name, .alias = alias, .version = "2", .metrics = {"acc"}, .members = {}};
  };
  std::vector<TaskGroup> groups{group("mmlu", "mmlu")};
  for (const Area& area : areas()) {
    groups[0].members.emplace_back(area.name);
    TaskGroup& inner = groups.emplace_back(group(area.name, area.alias));
    for (const std::string& subject : area.subjects) inner.members.push_back("mmlu_" + subject);
  }
  return groups;
}

}  // namespace flywheel
