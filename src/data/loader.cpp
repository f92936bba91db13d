#include "data/loader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "data/source_set.h"
#include "data/window_order.h"

namespace flywheel {
namespace {

void validate(const LoaderConfig& config, std::int64_t sequences, const DataPosition& start,
              int rank, int ranks) {
  require(config.sequence_length >= 1, ErrorKind::Config,
          "sequence_length is {}; expected 1 or more", config.sequence_length);
  require(sequences >= 1 &&
              sequences < std::numeric_limits<std::int32_t>::max() / config.sequence_length,
          ErrorKind::Config, "a batch of {} sequences of {} tokens; expected 1 to 2^31 tokens",
          sequences, config.sequence_length);
  require(rank >= 0 && rank < ranks, ErrorKind::Internal, "rank {} of {}", rank, ranks);
  require(start.windows >= 0, ErrorKind::Data, "data position {}; expected 0 or more",
          start.windows);
}

struct Buffer {
  std::vector<std::int32_t> inputs, targets, positions, cu_seqlens;
  Batch batch;
};

}  // namespace

struct Loader::Impl {
  static constexpr std::int64_t kBuffers = 3;  // one with the consumer, two ahead

  Impl(const LoaderConfig& loader_config, std::int64_t sequences_per_batch,
       const DataPosition& start_position, int this_rank, int all_ranks)
      : config(loader_config),
        sequences(sequences_per_batch),
        start(start_position.windows),
        rank(this_rank),
        ranks(all_ranks),
        data(config),
        order(data.windows, data.weights, config.seed, config.shuffle),
        window_tokens(static_cast<std::size_t>(config.sequence_length + 1)) {
    reader = std::thread([this] { read_ahead(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    reader.join();
  }

  // The reader thread: fills batch after batch, at most kBuffers - 1 ahead of the one in use.
  void read_ahead() {
    try {
      for (std::int64_t number = 0;; ++number) {
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return stopping || number < released + kBuffers; });
          if (stopping) return;
        }
        fill(buffers[static_cast<std::size_t>(number % kBuffers)], number);
        {
          const std::lock_guard lock(mutex);
          filled = number + 1;
        }
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      changed.notify_all();
    }
  }

  void fill(Buffer& buffer, std::int64_t number) {
    const std::int64_t first = start + number * sequences * ranks + rank;
    buffer.inputs.clear();
    buffer.targets.clear();
    buffer.positions.clear();
    buffer.cu_seqlens.assign(1, 0);
    for (std::int64_t i = 0; i < sequences; ++i) {
      const auto place = order.at(first + i * ranks);
      data.sources[place.source].read(place.window * config.sequence_length, window_tokens);
      check_vocabulary(place);
      append_window(buffer);
    }
    buffer.batch = {buffer.inputs, buffer.targets, buffer.positions, buffer.cu_seqlens, first};
  }

  void check_vocabulary(const WindowOrder::Place& place) const {
    if (config.vocab_size == 0) return;
    const std::int32_t largest = *std::max_element(window_tokens.begin(), window_tokens.end());
    require(largest < config.vocab_size, ErrorKind::Data,
            "{}: token {} in window {}, but the model's vocabulary has {} ids; tokenize with the "
            "model's tokenizer",
            config.sources[place.source].files.front(), largest, place.window, config.vocab_size);
  }

  void append_window(Buffer& buffer) const {
    const std::span<const std::int32_t> tokens = window_tokens;
    const auto inputs = tokens.first(tokens.size() - 1);
    const auto targets = tokens.subspan(1);
    buffer.inputs.insert(buffer.inputs.end(), inputs.begin(), inputs.end());
    buffer.targets.insert(buffer.targets.end(), targets.begin(), targets.end());
    const std::int32_t mark = config.document_mask ? data.end_of_document : -1;
    std::int32_t position = 0;
    for (const std::int32_t token : inputs) {
      if (token == mark && position > 0) {
        buffer.cu_seqlens.push_back(static_cast<std::int32_t>(buffer.positions.size()));
        position = 0;
      }
      buffer.positions.push_back(position++);
    }
    buffer.cu_seqlens.push_back(static_cast<std::int32_t>(buffer.positions.size()));
  }

  const LoaderConfig config;
  const std::int64_t sequences;
  const std::int64_t start;
  const int rank;
  const int ranks;
  const SourceSet data;
  WindowOrder order;                        // the reader thread's
  std::vector<std::int32_t> window_tokens;  // the reader thread's
  std::array<Buffer, kBuffers> buffers;

  std::mutex mutex;  // guards the five below
  std::condition_variable changed;
  std::int64_t filled = 0;    // batches that the reader has finished
  std::int64_t released = 0;  // batches that the consumer is done with
  std::exception_ptr failure;
  bool stopping = false;

  std::int64_t taken = 0;  // batches that next() returned
  double wait_seconds = 0;
  std::thread reader;
};

Loader::Loader(const LoaderConfig& config, std::int64_t sequences_per_batch,
               const DataPosition& start, int rank, int ranks) {
  validate(config, sequences_per_batch, start, rank, ranks);
  impl_ = std::make_unique<Impl>(config, sequences_per_batch, start, rank, ranks);
}

Loader::~Loader() = default;

const Batch& Loader::next() {
  Impl& impl = *impl_;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(impl.mutex);
  impl.released = impl.taken;
  impl.changed.notify_all();
  impl.changed.wait(lock, [&] { return impl.filled > impl.taken || impl.failure; });
  impl.wait_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (impl.filled <= impl.taken) std::rethrow_exception(impl.failure);
  return impl.buffers[static_cast<std::size_t>(impl.taken++ % Impl::kBuffers)].batch;
}

DataPosition Loader::position() const {
  return {impl_->start + impl_->taken * impl_->sequences * impl_->ranks};
}

const DataSummary& Loader::summary() const {
  return impl_->data.summary;
}

// WindowOrder::epochs only reads what the reader thread never changes.
double Loader::epochs() const {
  return impl_->order.epochs(position().windows);
}

double Loader::wait_seconds() const {
  return impl_->wait_seconds;
}

}  // namespace flywheel
