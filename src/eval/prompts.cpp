#include "eval/prompts.h"

#include <algorithm>

#include "core/error.h"
#include "eval/python_random.h"

namespace flywheel {
namespace {

constexpr std::uint32_t kFewShotSeed = 1234;

// A question with its answer, as an example for the next one.
std::string example_text(const Item& item) {
  const auto of_gold = [&](const std::vector<std::string>& texts) {
    return texts.size() == 1 ? texts[0] : texts.at(static_cast<std::size_t>(item.gold));
  };
  return of_gold(item.queries) + " " + of_gold(item.choices) + "\n\n";
}

class Examples {
 public:
  Examples(const Task& task, std::span<const Item> pool, std::int64_t shots)
      : task_(task), pool_(pool), shots_(shots) {
    if (shots == 0) return;
    require(task.few_shot != FewShot::None, ErrorKind::Config,
            "task {} has no examples: --num_fewshot must be 0", task.name);
    const std::int64_t needed = shots + (task.few_shot == FewShot::DrawnOff ? 1 : 0);
    require(std::ssize(pool) >= needed, ErrorKind::Config,
            "task {}: {} examples wanted, the pool has {} documents", task.name, needed,
            pool.size());
  }

  std::string before(const Item& item) {
    std::string text;
    for (const Item* example : choose(item)) text += example_text(*example);
    return text;
  }

 private:
  std::vector<const Item*> choose(const Item& item) {
    std::vector<const Item*> chosen;
    if (shots_ == 0) return chosen;
    if (task_.few_shot == FewShot::First) {
      for (std::int64_t i = 0; i < shots_; ++i)
        chosen.push_back(&pool_[static_cast<std::size_t>(i)]);
      return chosen;
    }
    const bool off = task_.few_shot == FewShot::DrawnOff;
    for (const std::int64_t i : random_.sample(std::ssize(pool_), shots_ + (off ? 1 : 0))) {
      const Item& example = pool_[static_cast<std::size_t>(i)];
      if (!off || example.document != item.document) chosen.push_back(&example);
    }
    chosen.resize(static_cast<std::size_t>(shots_));
    return chosen;
  }

  const Task& task_;
  std::span<const Item> pool_;
  std::int64_t shots_;
  PythonRandom random_{kFewShotSeed};
};

}  // namespace

std::vector<std::vector<TextRequest>> make_prompts(const Task& task, std::span<const Item> items,
                                                   std::span<const Item> pool, std::int64_t shots) {
  std::vector<std::vector<TextRequest>> prompts;
  Examples examples(task, pool, shots);
  for (const Item& item : items) {
    std::vector<TextRequest>& requests = prompts.emplace_back();
    if (task.kind == TaskKind::Rolling || task.kind == TaskKind::Recall) {
      requests.push_back({item.choices.at(0), ""});
      continue;
    }
    if (task.kind == TaskKind::Program) {
      requests.push_back({item.queries.at(0), ""});
      continue;
    }
    const std::string before = task.description + examples.before(item);
    const std::size_t count = std::max(item.queries.size(), item.choices.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& query = item.queries[item.queries.size() == 1 ? 0 : i];
      const std::string& choice = item.choices[item.choices.size() == 1 ? 0 : i];
      requests.push_back({before + query, task.delimiter + choice});
    }
  }
  return prompts;
}

}  // namespace flywheel
