#include "train/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backend/memory_plan.h"
#include "core/json_fields.h"
#include "model/parameters.h"
#include "train/optimizer.h"
#include "train/trainer.h"

namespace flywheel {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// "model.layers.7.mlp" becomes "model.layers.*.mlp".
std::string folded_name(const std::string& name) {
  std::string folded;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    const bool part_begins = i == 0 || name[i - 1] == '.';
    if (!digit || !(part_begins || folded.back() == '*')) {
      folded += name[i];
    } else if (part_begins) {
      folded += '*';
    }
  }
  return folded;
}

}  // namespace

std::string config_table(const RunConfig& config, const Console& console) {
  const auto rows = config_rows(write_fields(config), write_fields(RunConfig()));
  std::size_t width = 0;
  for (const FieldRow& row : rows) width = std::max(width, row.path.size());
  std::string table;
  for (const FieldRow& row : rows) {
    std::string line = fmt::format("{:<{}}  {}", row.path, width, row.value);
    if (row.is_default()) {
      line = "  " + line;
    } else {
      line = console.is_terminal() ? "  " + console.bold(line) : "* " + line;
    }
    table += (table.empty() ? "" : "\n") + line;
  }
  return table;
}

std::string parameter_table(const ModelConfig& config) {
  struct Group {
    std::string name;
    Shape shape;
    std::int64_t count = 0;
  };
  std::vector<Group> groups;
  std::map<std::string, std::size_t> index;
  const ParameterLayout layout = lay_out_parameters(config);
  for (const ParameterSpec& spec : layout.specs) {
    const std::string name = folded_name(spec.name);
    const auto [place, is_new] = index.emplace(name, groups.size());
    if (is_new) groups.push_back({name, spec.slot.shape, 0});
    ++groups[place->second].count;
  }
  Rows rows{{"parameter", "shape", "count", "elements"}};
  std::int64_t total = 0;
  for (const Group& group : groups) {
    const std::int64_t elements = group.shape.elements() * group.count;
    total += elements;
    rows.push_back({group.name, group.shape.to_string(), fmt::format("{}", group.count),
                    fmt::format("{}", elements)});
  }
  rows.push_back({"total", "", fmt::format("{}", layout.specs.size()), fmt::format("{}", total)});
  return format_table(rows, 2);
}

std::string memory_table(const RunConfig& config) {
  std::vector<MemoryLine> lines = Transformer::memory(config.model, limits_of(config));
  const std::int64_t elements = lay_out_parameters(config.model).bytes / size_of(DType::F32);
  for (MemoryLine& line : Optimizer::memory(elements)) lines.push_back(std::move(line));
  if (config.train.device == DeviceChoice::Cuda) {
    lines.push_back({"workspaces of CUDA kernels", kGpuWorkspaceBytes});
  }
  Rows rows{{"memory", "bytes", ""}};
  std::int64_t total = 0;
  for (const MemoryLine& line : lines) {
    total += line.bytes;
    rows.push_back({line.name, fmt::format("{}", line.bytes), human_bytes(line.bytes)});
  }
  rows.push_back({"total", fmt::format("{}", total), human_bytes(total)});
  return format_table(rows, 1);
}

std::string cost_table(const RunConfig& config, const PeakFlops& peak) {
  const ModelCost cost = Transformer::cost(config.model, config.data.sequence_length);
  const TrainConfig& train = config.train;
  const std::int64_t steps = *train.max_steps;
  const auto tokens = static_cast<double>(steps * train.global_batch_tokens);
  Rows rows{
      {"parameters",
       fmt::format("{} ({})", human_count(static_cast<double>(cost.parameters)), cost.parameters)},
      {"visible keys a query", fmt::format("{:.1f}", cost.mean_visible_keys)},
      {"FLOPs a token", fmt::format("{} (training)", human_count(cost.flops_per_token))},
      {"tokens a step", fmt::format("{} = {} sequences of {}", train.global_batch_tokens,
                                    config.batch_sequences(), config.data.sequence_length)},
      {"micro-batches a step",
       fmt::format("{} of {} sequences", config.batch_sequences() / train.micro_batch_sequences,
                   train.micro_batch_sequences)},
      {"steps", fmt::format("{}, {} tokens, {}FLOP", steps, human_count(tokens),
                            human_count(tokens * cost.flops_per_token))}};
  rows.push_back({"peak", peak.value > 0
                              ? fmt::format("{}FLOP/s ({})", human_count(peak.value), peak.basis)
                              : "unknown"});
  return format_table(rows, 2);
}

}  // namespace flywheel
