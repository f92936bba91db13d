#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "model/huggingface_config.h"
#include "model/transformer.h"
#include "train/checkpoint.h"
#include "train/console.h"
#include "train/inspect.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

std::string pattern_of(const LayerPatternConfig& layer) {
  return layer.window ? fmt::format("{}({})", layer.pattern, *layer.window) : layer.pattern;
}

// "sa_swa", or "sa, full in turn".
std::string patterns_of(const AttentionConfig& attention) {
  std::vector<std::string> names;
  for (const LayerPatternConfig& layer : attention.pattern) names.push_back(pattern_of(layer));
  return fmt::format("{}{}", fmt::join(names, ", "), names.size() > 1 ? " in turn" : "");
}

void describe_state(const CheckpointState& state, Inspection& out) {
  out.add("step", state.step, fmt::format("of {}", state.config.train.max_steps.value_or(0)));
  out.add("tokens", state.tokens, human_count(static_cast<double>(state.tokens)));
  out.add("data_windows", state.data_windows, "position in the data");
  if (state.validation_loss) {
    out.add("validation_loss", *state.validation_loss,
            fmt::format("perplexity {:.2f}", std::exp(*state.validation_loss)));
  }
  out.add("skipped_steps", state.skipped_steps);
  out.add("train_seed", fmt::format("{}", state.config.train.seed));
  out.add("data_seed", fmt::format("{}", state.config.data.seed));
  out.add("data_tokens", state.data_tokens);
  out.add("data_fingerprint", state.data_fingerprint);
  out.add("tokenizer_fingerprint", state.tokenizer_fingerprint);
  out.add("sequence_length", state.config.data.sequence_length);
  out.add("written_by", state.version);
  describe_model(state.config.model, state.config.data.sequence_length, out);
}

InspectedTable file_table() {
  return {"files", {"name", "bytes", "size", "state"}, {}, 1};
}

void add_file(InspectedTable& table, const std::string& name, std::int64_t bytes,
              const char* verdict) {
  table.rows.push_back({name, bytes, human_bytes(bytes), verdict});
}

// Every file that a readable state.json lists, each with its own verdict, and state.json itself.
void check_files(const fs::path& folder, const CheckpointState& state, Inspection& out) {
  InspectedTable table = file_table();
  for (const CheckpointFile& file : state.files) {
    const std::size_t faults = out.faults.size();
    out.guard([&] { verify_checkpoint_file(folder, file); });
    add_file(table, file.name, file.bytes, out.faults.size() == faults ? "verified" : "damaged");
  }
  add_file(table, kStateFile, static_cast<std::int64_t>(fs::file_size(folder / kStateFile)),
           "verified");
  out.tables.push_back(std::move(table));
}

// What can be said without a readable state.json.
void describe_without_state(const fs::path& folder, Inspection& out) {
  const fs::path config = folder / "config.json";
  if (fs::exists(config)) {
    out.guard([&] {
      const ModelConfig model = from_huggingface(read_text_file(config), config.string());
      describe_model(model, model.max_positions, out);
    });
  }
  InspectedTable table = file_table();
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    add_file(table, name, static_cast<std::int64_t>(entry.file_size()),
             name == kStateFile ? "damaged" : "not verified");
  }
  std::sort(table.rows.begin(), table.rows.end());
  out.tables.push_back(std::move(table));
}

// A folder named step_XXXXXXXX must hold that step; a copy may have any other name.
void require_matching_name(const fs::path& folder, const CheckpointState& state) {
  const std::string name = fs::canonical(folder).filename().string();
  const std::string expected = CheckpointStore("", {}).path_of(state.step).filename().string();
  require(name == expected || !name.starts_with("step_"), ErrorKind::Data,
          "{}: holds the state of step {}", folder.string(), state.step);
}

struct CheckpointVerdict {
  Inspection inspection;
  std::optional<CheckpointState> state;
};

CheckpointVerdict judge_checkpoint(const fs::path& folder) {
  CheckpointVerdict verdict{{.path = folder.string(), .kind = "checkpoint"}, std::nullopt};
  Inspection& out = verdict.inspection;
  out.guard([&] { verdict.state = read_state(folder / kStateFile); });
  if (!verdict.state) {
    describe_without_state(folder, out);
    return verdict;
  }
  out.guard([&] { require_matching_name(folder, *verdict.state); });
  out.guard([&] { describe_state(*verdict.state, out); });
  check_files(folder, *verdict.state, out);
  return verdict;
}

std::string target_of(const fs::path& link) {
  std::error_code absent;
  return fs::read_symlink(link, absent).string();
}

// The links that point to a checkpoint: "latest, best".
std::string links_to(const fs::path& checkpoint) {
  std::vector<std::string> links;
  for (const char* link : {"latest", "best"}) {
    if (target_of(checkpoint.parent_path() / link) == checkpoint.filename()) links.push_back(link);
  }
  return fmt::format("{}", fmt::join(links, ", "));
}

std::int64_t total_bytes(const InspectedTable& files) {
  std::int64_t bytes = 0;
  for (const auto& row : files.rows) bytes += std::get<std::int64_t>(row[1]);
  return bytes;
}

std::vector<InspectedValue> row_of(const fs::path& folder, std::int64_t step,
                                   const CheckpointVerdict& verdict) {
  const auto& state = verdict.state;
  return {folder.filename().string(),
          links_to(folder),
          step,
          state ? InspectedValue(state->tokens) : InspectedValue("?"),
          state && state->validation_loss ? InspectedValue(*state->validation_loss)
                                          : InspectedValue(""),
          human_bytes(total_bytes(verdict.inspection.tables.back())),
          verdict.inspection.whole() ? "whole" : "damaged"};
}

void describe_run_config(const RunConfig& config, Inspection& out) {
  describe_model(config.model, config.data.sequence_length, out);
  out.add("steps", *config.train.max_steps,
          fmt::format("of {} tokens", config.train.global_batch_tokens));
}

}  // namespace

void describe_model(const ModelConfig& given, std::int64_t sequence_length, Inspection& out) {
  const ModelConfig model = with_defaults(given);
  out.add("model",
          fmt::format("{}: {} layers of width {}, {} heads of {} ({} for keys and "
                      "values), MLP {}, vocabulary {}, attention {}, window {}",
                      huggingface_model_type(model), model.layers, model.hidden_size, model.heads,
                      model.head_dim, model.kv_heads, model.intermediate_size, model.vocab_size,
                      patterns_of(model.attention), model.attention.window));
  if (const ExpertsConfig& experts = model.experts; experts.count > 0) {
    out.add("experts", experts.count,
            fmt::format("of width {}, {} for each token", experts.intermediate_size,
                        experts.per_token));
  }
  const std::int64_t parameters = Transformer::cost(model, sequence_length).parameters;
  out.add("parameters", parameters, human_count(static_cast<double>(parameters)));
}

Inspection inspect_checkpoint(const fs::path& folder) {
  return judge_checkpoint(folder).inspection;
}

Inspection inspect_run(const fs::path& folder) {
  Inspection out{.path = folder.string(), .kind = "run"};
  out.guard([&] { describe_run_config(load_run_config(folder / "config.json", {}), out); });
  const CheckpointStore store(folder, {});
  InspectedTable table{"checkpoints",
                       {"name", "links", "step", "tokens", "validation_loss", "size", "state"},
                       {},
                       2};
  std::string resume = "nothing";
  for (const std::int64_t step : store.steps()) {
    const fs::path path = store.path_of(step);
    const CheckpointVerdict verdict = judge_checkpoint(path);
    if (verdict.inspection.whole()) resume = path.filename().string();
    table.rows.push_back(row_of(path, step, verdict));
    out.faults.insert(out.faults.end(), verdict.inspection.faults.begin(),
                      verdict.inspection.faults.end());
  }
  out.add("resume_takes", resume, table.rows.empty() ? "the run starts at step 1" : "");
  out.tables.push_back(std::move(table));
  return out;
}

Inspection inspect_run_config(const fs::path& path) {
  Inspection out{.path = path.string(), .kind = "run config"};
  out.guard([&] {
    const RunConfig config = load_run_config(path, {});
    describe_run_config(config, out);
    InspectedTable values{"not_default", {"key", "value", "default"}, {}, 3};
    for (const FieldRow& row : config_rows(write_fields(config), write_fields(RunConfig()))) {
      if (!row.is_default()) values.rows.push_back({row.path, row.value, row.defaults});
    }
    out.tables.push_back(std::move(values));
  });
  return out;
}

Inspection inspect_model_config(const fs::path& path) {
  Inspection out{.path = path.string(), .kind = "model config"};
  out.guard([&] {
    const ModelConfig model = from_huggingface(read_text_file(path), path.string());
    describe_model(model, model.max_positions, out);
  });
  return out;
}

}  // namespace flywheel
