#pragma once

#include <span>
#include <string>
#include <vector>

#include "eval/tasks/task.h"

namespace flywheel {

// Every task, group and tag that `evaluate --tasks` knows.
class TaskRegistry {
 public:
  TaskRegistry();

  // The tasks that comma-separated names of tasks, groups and tags and patterns with * and ? mean,
  // each once, in the order asked for. Error Config suggests the nearest name.
  std::vector<Task> select(const std::string& names) const;

  // Groups all of whose tasks are among these, outer ones before inner ones.
  std::vector<TaskGroup> groups_of(std::span<const Task> tasks) const;

  // The tasks below a task's, group's or tag's name; none if it is unknown.
  std::vector<std::string> members(const std::string& name) const;
  // Of tasks, groups and tags.
  std::vector<std::string> names() const;

 private:
  std::vector<Task> tasks_;
  std::vector<TaskGroup> groups_;
  std::vector<TaskGroup> tags_;  // names for sets of tasks that have no score of their own
};

}  // namespace flywheel
