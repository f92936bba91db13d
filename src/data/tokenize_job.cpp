#include "data/tokenize_job.h"

#include <cmath>
#include <span>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/thread_pool.h"
#include "data/input_files.h"
#include "data/ordered_pipeline.h"
#include "data/shard_set_writer.h"
#include "data/text_source.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

// A pure function of the document's first kHashedBytes and the seed.
bool is_validation(std::string_view text, const TokenizeConfig& config) {
  StreamingChecksum sum;
  sum.update(std::as_bytes(std::span(&config.seed, 1)));
  sum.update(std::as_bytes(std::span(text.substr(0, TextPiece::kHashedBytes))));
  return static_cast<double>(sum.value()) * 0x1p-64 < config.validation_fraction;
}

struct EncodedPiece {
  std::size_t tokens = 0;
  std::size_t bytes = 0;
  bool begins_document = false;
  bool validation = false;  // where it begins a document
};

struct EncodedChunk {
  std::vector<EncodedPiece> pieces;
  std::vector<std::int32_t> ids;  // of all pieces
  std::uint64_t file_bytes = 0;
};

EncodedChunk encode(TextChunk& chunk, const Tokenizer& tokenizer, const TokenizeConfig& config) {
  if (!chunk.json_lines.empty()) parse_json_lines(chunk, config.text_key);
  EncodedChunk result;
  result.file_bytes = chunk.bytes;
  for (const TextPiece& piece : chunk.pieces) {
    const std::size_t before = result.ids.size();
    tokenizer.encode(piece.text, result.ids);
    result.pieces.push_back({result.ids.size() - before, piece.text.size(), piece.begins_document,
                             piece.begins_document && is_validation(piece.text, config)});
  }
  return result;
}

// Where encoded chunks go, in the order of the input.
class Output {
 public:
  Output(const TokenizeConfig& config, const ShardInfo& info, std::uint64_t total_bytes)
      : config_(config),
        train_(config.output, "train", info, config.shard_tokens),
        validation_(config.output, "validation", info, config.shard_tokens) {
    progress_.total_bytes = total_bytes;
  }

  void write(const EncodedChunk& chunk) {
    std::span<const std::int32_t> ids = chunk.ids;
    for (const EncodedPiece& piece : chunk.pieces) {
      if (piece.begins_document) {
        current_ = piece.validation ? &validation_ : &train_;
        current_->begin_document();
      }
      current_->append(ids.first(piece.tokens));
      ids = ids.subspan(piece.tokens);
      text_bytes_ += piece.bytes;
    }
    progress_.bytes += chunk.file_bytes;
    progress_.documents = train_.documents() + validation_.documents();
    progress_.tokens = train_.tokens() + validation_.tokens();
  }

  const TokenizeProgress& progress() const { return progress_; }

  TokenizeSummary finish() {
    require(progress_.documents > 0, ErrorKind::Data, "{}: no text in the input",
            config_.inputs.front());
    require(
        train_.documents() > 0, ErrorKind::Data,
        "all {} documents fell to validation; lower --validation-fraction or choose another --seed",
        progress_.documents);
    train_.close();
    validation_.close();
    for (const char* name : {"train", "validation"}) {
      for (const fs::path& old : list_shard_set(config_.output, name, false)) fs::remove(old);
    }
    train_.publish();
    validation_.publish();
    return {summary_of(train_), summary_of(validation_), text_bytes_};
  }

 private:
  static TokenizeSummary::Split summary_of(const ShardSetWriter& set) {
    return {set.documents(), set.tokens(), set.shards()};
  }

  const TokenizeConfig& config_;
  ShardSetWriter train_;
  ShardSetWriter validation_;
  ShardSetWriter* current_ = nullptr;
  std::uint64_t text_bytes_ = 0;
  TokenizeProgress progress_;
};

void validate(const TokenizeConfig& config, const Tokenizer& tokenizer) {
  require(!config.inputs.empty(), ErrorKind::Config,
          "no input: name text files, folders or patterns");
  require(!config.output.empty(), ErrorKind::Config, "no output folder");
  require(config.validation_fraction >= 0 && config.validation_fraction < 1, ErrorKind::Config,
          "validation fraction {}; expected 0 or more and less than 1", config.validation_fraction);
  require(config.shard_tokens >= 1, ErrorKind::Config, "{} tokens a shard; expected 1 or more",
          config.shard_tokens);
  require(tokenizer.end_of_document() >= 0, ErrorKind::Data,
          "the tokenizer has no end-of-document token, which must begin every document");
}

void prepare_output(const TokenizeConfig& config) {
  create_folders(config.output);
  for (const char* name : {"train", "validation"}) {
    const auto present = list_shard_set(config.output, name, false);
    require(present.empty() || config.overwrite, ErrorKind::Config,
            "{}: exists; choose another --output or pass --overwrite to replace {} token file(s)",
            present.empty() ? "" : present.front().string(), present.size());
    for (const fs::path& left : list_shard_set(config.output, name, true)) {
      if (left.extension() == ".partial") fs::remove(left);  // of a run that was killed
    }
  }
}

}  // namespace

TokenizeSummary tokenize_files(const Tokenizer& tokenizer, const TokenizeConfig& config,
                               const std::function<void(const TokenizeProgress&)>& report) {
  validate(config, tokenizer);
  const std::vector<fs::path> files = list_text_files(config.inputs);
  prepare_output(config);

  ShardInfo info;
  info.vocab_size = tokenizer.vocab_size();
  info.token_bytes = info.vocab_size <= 65536 ? 2 : 4;
  info.tokenizer_fingerprint = tokenizer.fingerprint();
  info.end_of_document = tokenizer.end_of_document();
  Output output(config, info, total_size(files));
  TextSource source(files, config.document_separator);
  OrderedPipeline<TextChunk, EncodedChunk> pipeline;
  pipeline.take = [&](TextChunk& chunk) { return source.next(chunk); };
  pipeline.work = [&](TextChunk& chunk) { return encode(chunk, tokenizer, config); };
  pipeline.write = [&](EncodedChunk& chunk) {
    output.write(chunk);
    report(output.progress());
  };
  ThreadPool pool(config.threads);
  pipeline.run(pool);
  return output.finish();
}

}  // namespace flywheel
