#include "eval/tasks/registry.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/error.h"
#include "core/nearest_name.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

template <class Range>
auto find_by_name(const Range& range, const std::string& name) {
  return std::find_if(range.begin(), range.end(),
                      [&](const auto& entry) { return entry.name == name; });
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    if (end > begin) parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

bool higher_is_better(const std::string& metric) {
  return metric.starts_with("acc") || metric.starts_with("pass@");
}

TaskRegistry::TaskRegistry()
    : tasks_{wikitext_task(),  lambada_openai_task(), lambada_standard_task(),
             piqa_task(),      hellaswag_task(),      winogrande_task(),
             arc_easy_task(),  arc_challenge_task(),  openbookqa_task(),
             sciq_task(),      boolq_task(),          copa_task(),
             humaneval_task(), perplexity_task(),     recall_task()},
      groups_(mmlu_groups()) {
  for (Task& task : mmlu_tasks()) tasks_.push_back(std::move(task));
  const auto tag = [](const char* name, std::vector<std::string> members) {
    return TaskGroup{
        .name = name, .alias = name, .version = "", .metrics = {}, .members = std::move(members)};
  };
  tags_ = {tag("lambada", {"lambada_openai", "lambada_standard"}),
           tag("ai2_arc", {"arc_easy", "arc_challenge"})};
}

std::vector<Task> TaskRegistry::select(const std::string& wanted) const {
  std::vector<std::string> chosen;
  const auto add = [&](const std::vector<std::string>& found) {
    for (const std::string& name : found) {
      if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
    }
  };
  for (const std::string& name : split(wanted)) {
    std::vector<std::string> found = members(name);
    if (name.find_first_of("*?") != std::string::npos) {
      for (const std::string& known : names()) {
        if (fnmatch(name.c_str(), known.c_str(), 0) != 0) continue;
        const auto below = members(known);
        found.insert(found.end(), below.begin(), below.end());
      }
    }
    const std::string nearest = nearest_name(name, names());
    require(!found.empty(), ErrorKind::Config, "--tasks: there is no task \"{}\"{}; see --list",
            name, nearest.empty() ? "" : fmt::format(", did you mean \"{}\"?", nearest));
    add(found);
  }
  require(!chosen.empty(), ErrorKind::Config, "--tasks names no task; see --list");
  std::vector<Task> tasks;
  for (const std::string& name : chosen) tasks.push_back(*find_by_name(tasks_, name));
  return tasks;
}

std::vector<TaskGroup> TaskRegistry::groups_of(std::span<const Task> tasks) const {
  std::vector<TaskGroup> complete;
  for (const TaskGroup& group : groups_) {
    const auto below = members(group.name);
    const bool all = std::all_of(below.begin(), below.end(), [&](const std::string& name) {
      return find_by_name(tasks, name) != tasks.end();
    });
    if (all) complete.push_back(group);
  }
  return complete;
}

std::vector<std::string> TaskRegistry::members(const std::string& name) const {
  if (find_by_name(tasks_, name) != tasks_.end()) return {name};
  for (const auto* sets : {&groups_, &tags_}) {
    const auto set = find_by_name(*sets, name);
    if (set == sets->end()) continue;
    std::vector<std::string> result;
    for (const std::string& member : set->members) {
      const auto below = members(member);
      result.insert(result.end(), below.begin(), below.end());
    }
    return result;
  }
  return {};
}

std::vector<std::string> TaskRegistry::names() const {
  std::vector<std::string> result;
  for (const Task& task : tasks_) result.push_back(task.name);
  for (const auto* sets : {&groups_, &tags_}) {
    for (const TaskGroup& set : *sets) result.push_back(set.name);
  }
  return result;
}

}  // namespace flywheel
