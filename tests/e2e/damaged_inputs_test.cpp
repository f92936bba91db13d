// Damaged configs, shards, tokenizers and checkpoints, through the real programs (in the folder
// FLYWHEEL_BIN): exit code not 0, one line that names the file and the reason, and not a byte of
// any file changed.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/file_io.h"
#include "support/catch.h"
#include "support/run_command.h"
#include "support/test_data.h"

namespace flywheel::test {
namespace {

namespace fs = std::filesystem;

const std::string kBin = FLYWHEEL_BIN;
const std::string kTrain = kBin + "/train --config config.json";
const std::string kResume = kTrain + " --resume";
const std::string kShard = "tokens/train_000000.bin";
const std::string kModel = "run/step_00000004/model.safetensors";

constexpr const char* kConfig = R"({
  "model": {"vocab_size": 418, "hidden_size": 16, "layers": 2, "heads": 2, "intermediate_size": 32,
            "max_positions": 512, "attention": {"pattern": ["sa_swa"], "window": 8}},
  "data": {"tokenizer": "corpus/tokenizer.json", "train": [{"files": ["tokens/train_*.bin"]}],
           "sequence_length": 64},
  "train": {"max_steps": 4, "global_batch_tokens": 256, "validation_every": 0, "threads": 1},
  "checkpoint": {"folder": "run", "every": 2}
})";

struct Damage {
  std::string name;
  std::function<void(const fs::path&)> apply;  // to a copy of the good folder
  std::string command;
  std::vector<std::string> says;  // in the line of the error
};

using Apply = std::function<void(const fs::path&)>;

Apply cut(const std::string& file, std::size_t bytes) {
  return [=](const fs::path& folder) { fs::resize_file(folder / file, bytes); };
}
// Cuts the last tenth off.
Apply cut_short(const std::string& file) {
  return [=](const fs::path& folder) {
    fs::resize_file(folder / file, fs::file_size(folder / file) * 9 / 10);
  };
}
Apply put(const std::string& file, const std::string& content) {
  return [=](const fs::path& folder) { write_file_atomically(folder / file, content); };
}
// All occurrences.
Apply replace(const std::string& file, const std::string& from, const std::string& to) {
  return [=](const fs::path& folder) {
    std::string text = read_text_file(folder / file);
    std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    for (; at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    write_file_atomically(folder / file, text);
  };
}
// Writes `bytes` at `offset`; a negative offset counts from the end.
Apply patch(const std::string& file, std::int64_t offset, const std::string& bytes) {
  return [=](const fs::path& folder) {
    std::string text = read_text_file(folder / file);
    const std::int64_t at = offset < 0 ? static_cast<std::int64_t>(text.size()) + offset : offset;
    write_file_atomically(folder / file,
                          text.replace(static_cast<std::size_t>(at), bytes.size(), bytes));
  };
}
Apply erase(const std::string& file) {
  return [=](const fs::path& folder) { fs::remove_all(folder / file); };
}
Apply nothing() {
  return [](const fs::path&) {};
}
// The same damage to a file of both checkpoints of the run.
Apply both(const std::function<Apply(const std::string&)>& damage, const std::string& file) {
  return [=](const fs::path& folder) {
    damage("run/step_00000002/" + file)(folder);
    damage("run/step_00000004/" + file)(folder);
  };
}
Apply flip_last_byte(const std::string& file) {
  return patch(file, -1, "\x5a");
}

const std::string kLlmC = std::string("\x28\x51\x34\x01\x01\x00\x00\x00", 8);  // magic, version

std::vector<Damage> damages() {
  const std::string resume_longer = kResume + " --set train.max_steps=6";
  const std::string fresh = kTrain + " --set checkpoint.folder=new_run";
  return {
      {"config cut", cut("config.json", 100), fresh, {"config.json", "JSON"}},
      {"config empty", put("config.json", ""), fresh, {"config.json"}},
      {"config binary",
       put("config.json", std::string("\x00\xff\xfe{", 4)),
       fresh,
       {"config.json"}},
      {"config absent", erase("config.json"), fresh, {"config.json", "No such file"}},
      {"key misspelt",
       replace("config.json", "\"layers\"", "\"layer\""),
       fresh,
       {"config.json", "model.layer", "layers"}},
      {"value of another type",
       replace("config.json", "\"layers\": 2", "\"layers\": \"two\""),
       fresh,
       {"config.json", "model.layers", "integer"}},
      {"value out of range",
       replace("config.json", "\"layers\": 2", "\"layers\": 0"),
       fresh,
       {"config.json", "model.layers", "0"}},
      {"pattern unknown",
       replace("config.json", "\"sa_swa\"", "\"sa-swa\""),
       fresh,
       {"config.json", "pattern", "sa-swa"}},
      {"override misspelt", nothing(), fresh + " --set model.layer=2", {"model.layer", "layers"}},
      {"no such shard",
       replace("config.json", "train_*", "training_*"),
       fresh,
       {"tokens/training_*.bin"}},

      {"shard cut", cut_short(kShard), fresh, {kShard}},
      {"shard empty", cut(kShard, 0), fresh, {kShard}},
      {"shard foreign",
       put(kShard, "PK\x03\x04 not a token file" + std::string(4096, 'x')),
       fresh,
       {kShard}},
      {"shard of llm.c cut", put(kShard, kLlmC), fresh, {kShard}},
      {"shard of another tokenizer",
       nothing(),
       fresh + " --set 'data.train.0.files=[\"bytes/train_*.bin\"]'",
       {"another tokenizer", "corpus/tokenizer.json"}},

      {"tokenizer cut", cut_short("corpus/tokenizer.json"), fresh, {"corpus/tokenizer.json"}},
      {"tokenizer of another kind",
       replace("corpus/tokenizer.json", "\"BPE\"", "\"Unigram\""),
       fresh,
       {"corpus/tokenizer.json", "Unigram"}},
      {"tokenizer absent", erase("corpus/tokenizer.json"), fresh, {"corpus/tokenizer.json"}},
      {"tokenizer with an id twice",
       replace("corpus/tokenizer.json", "\"\u0120Anna\": 256", "\"\u0120Anna\": 257"),
       fresh,
       {"corpus/tokenizer.json"}},
      {"tokenizer larger than the model",
       replace("config.json", "418", "400"),
       fresh,
       {"400", "418"}},

      {"text without the key",
       put("text.jsonl", "{\"txet\": \"a\"}\n"),
       kBin + "/tokenize --tokenizer byte --output new_tokens text.jsonl",
       {"text.jsonl", "text"}},
      {"text cut",
       put("text.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b"),
       kBin + "/tokenize --tokenizer byte --output new_tokens text.jsonl",
       {"text.jsonl", "2"}},
      {"tokens there already",
       nothing(),
       kBin + "/tokenize --tokenizer byte --output tokens corpus/stories.jsonl",
       {"tokens"}},

      {"run there already", nothing(), kTrain, {"run", "--resume"}},
      {"run of another model",
       nothing(),
       resume_longer + " --set model.layers=3",
       {"model.layers", "3"}},
      {"weights flipped",
       both(flip_last_byte, "model.safetensors"),
       resume_longer,
       {"model.safetensors"}},
      {"optimizer absent",
       both(erase, "optimizer.safetensors"),
       resume_longer,
       {"optimizer.safetensors"}},
      {"state cut", both(cut_short, "state.json"), resume_longer, {"state.json"}},
      {"shard with a damaged end",
       patch(kShard, -200, std::string(8, '\0')),
       resume_longer,
       {kShard}},
      {"other training data",
       [](const fs::path& folder) {
         run_command(folder, kBin +
                                 "/tokenize --tokenizer corpus/tokenizer.json --output tokens "
                                 "--overwrite --validation-fraction 0.5 corpus/stories.jsonl");
       },
       resume_longer,
       {"data", "run"}},
      {"weights cut", cut_short(kModel), kBin + "/generate --model run", {"model.safetensors"}},
      {"weights with a huge header",
       patch(kModel, 0, std::string(8, '\x7f')),
       kBin + "/generate --model run",
       {"model.safetensors"}},
      {"weights of another model",
       replace("run/step_00000004/config.json", "\"intermediate_size\": 32",
               "\"intermediate_size\": 40"),
       kBin + "/generate --model run",
       {"model.safetensors", "mlp.gate_proj.weight", "config"}},
      {"recall texts cut",
       cut("corpus/recall.jsonl", 300),
       kBin + "/recall --model run --texts corpus/recall.jsonl",
       {"corpus/recall.jsonl", "line 1"}},
  };
}

// Everything below a folder, but for the lock of a run.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
    files[fs::relative(entry.path(), folder).string()] = read_text_file(entry.path());
  }
  return files;
}

std::string last_lines(const std::string& output) {
  return output.size() < 400 ? output : "..." + output.substr(output.size() - 400);
}

// The lines that report an error.
std::vector<std::string> error_lines(const std::string& output) {
  std::vector<std::string> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(": error: ") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

void make_good_folder(const fs::path& folder) {
  write_file_atomically(folder / "config.json", kConfig);
  for (const std::string& command :
       {kBin + "/make_corpus --output corpus --stories 60 --held-out 3",
        kBin + "/tokenize --tokenizer corpus/tokenizer.json --output tokens corpus/stories.jsonl",
        kBin + "/tokenize --tokenizer byte --output bytes corpus/stories.jsonl", kTrain}) {
    const CommandResult result = run_command(folder, command);
    INFO(command << "\n" << result.output);
    REQUIRE(result.exit_code == 0);
  }
}

TEST_CASE("a damaged input is refused in one line, and nothing is overwritten") {
  const TemporaryFolder good;
  make_good_folder(good.path());
  for (const Damage& damage : damages()) {
    const TemporaryFolder copy;
    fs::copy(good.path(), copy.path(),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    damage.apply(copy.path());
    const auto before = content_of(copy.path());
    const CommandResult result = run_command(copy.path(), damage.command);

    INFO(damage.name << ": " << damage.command << "\nexit code " << result.exit_code << "\n"
                     << last_lines(result.output));
    CHECK(result.exit_code > 0);
    CHECK(result.exit_code != 70);  // a fault of ours
    const std::vector<std::string> errors = error_lines(result.output);
    CHECK(errors.size() == 1);
    for (const std::string& part : damage.says) {
      INFO("missing: " << part);
      CHECK((!errors.empty() && errors.back().find(part) != std::string::npos));
    }
    CHECK(result.output.ends_with((errors.empty() ? "?" : errors.back()) + "\n"));
    auto after = content_of(copy.path());
    for (const auto& [file, content] : before) {
      INFO("changed: " << file);
      CHECK(after[file] == content);
    }
  }
}

}  // namespace
}  // namespace flywheel::test
