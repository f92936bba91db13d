#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace flywheel {

enum class TaskKind : std::uint8_t {
  Choice,   // one log-likelihood a choice; the likeliest is the answer
  Cloze,    // the log-likelihood of one target
  Rolling,  // the log-likelihood of a whole text
  Recall,   // words that a text told before
  Program,  // the end of a program that the model writes, which is then run
};

// A document of a data set as its task puts it.
struct Item {
  std::string document;              // JSON, as a sample file shows it
  std::vector<std::string> queries;  // ends of the context: one, or one a choice
  std::vector<std::string> choices;  // answers; Rolling: the text, as it is scored
  std::int64_t gold = 0;             // the right choice
  std::string target;                // as a sample file shows it; Program: what tests the program
  std::int64_t words = 0;            // Rolling: what the score is divided by
  std::int64_t bytes = 0;
};

// A file of a data set: the first of `names` that is in the folder of data.
struct DataFile {
  std::vector<std::string> names;  // "piqa/valid.jsonl"
  std::string source;              // where people get it
};

// Which examples go before a question.
enum class FewShot : std::uint8_t {
  None,      // the task has none
  Drawn,     // drawn for each document
  DrawnOff,  // drawn from the pool that documents come from or may be in: never the document itself
  First,     // the first of the pool, the same for all documents
};

// What a model is to write: greedily, up to the first of `until`, at most `max_tokens` tokens.
struct Writing {
  std::vector<std::string> until;
  std::int64_t max_tokens = 0;
};

// A benchmark as lm-evaluation-harness defines it (docs/evaluation.md).
struct Task {
  std::string name;
  std::string alias;  // in tables below its group
  std::string version;
  TaskKind kind = TaskKind::Choice;
  std::vector<std::string> metrics;
  std::string dataset;  // name and part on the Hugging Face hub
  std::string split;
  std::string description;      // goes before everything
  std::string delimiter = " ";  // goes before every choice
  std::string filter = "none";  // what makes answers of the model's outputs, as results name it
  Writing writing;              // Program
  DataFile evaluated;           // no names: a file that the user gives
  DataFile examples;            // the pool of the few-shot examples
  FewShot few_shot = FewShot::None;
  // Error Data names file, line and fault.
  std::function<std::vector<Item>(const std::filesystem::path&)> read;
};

// Scores of its members together, weighted by their sizes.
struct TaskGroup {
  std::string name;
  std::string alias;
  std::string version;
  std::vector<std::string> metrics;
  std::vector<std::string> members;  // tasks or groups
};

bool higher_is_better(const std::string& metric);

}  // namespace flywheel
