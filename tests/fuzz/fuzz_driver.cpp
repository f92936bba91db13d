// A small stand-in for libFuzzer: replays a corpus folder, then seeded random mutations of it.
//
//   NAME_fuzz CORPUS_FOLDER [SECONDS [SEED]]
//   NAME_fuzz FILE                            one input, to repeat a finding
//
// When the target crashes, the input lies in ./crash-input.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file_io.h"
#include "core/philox.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

namespace fs = std::filesystem;
using flywheel::RandomSequence;
using flywheel::RandomStream;

constexpr std::size_t kMaxInputBytes = 1 << 20;

const std::string* current_input = nullptr;

// Runs while the process dies: only calls that are safe in a signal handler.
void save_current_input() {
  if (!current_input) return;
  const int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  const ssize_t written = write(file, current_input->data(), current_input->size());
  static_cast<void>(written);
  close(file);
  static constexpr char kMessage[] = "fuzz: the input that did it is in ./crash-input\n";
  const ssize_t told = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  static_cast<void>(told);
}

void on_signal(int number) {
  save_current_input();
  signal(number, SIG_DFL);
  raise(number);
}

void watch_for_crashes() {
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(save_current_input);
    return;
  }
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) signal(number, on_signal);
}

void run(const std::string& input) {
  current_input = &input;
  // A copy of the exact size, so that AddressSanitizer sees a read past the end.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  try {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  } catch (...) {
    save_current_input();
    throw;
  }
  current_input = nullptr;
}

// Draws numbers one after the other from a RandomSequence.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint32_t round) : words_(seed, RandomStream::kCorpus, round) {}
  std::size_t below(std::size_t bound) { return words_.below(next_++, bound); }

 private:
  RandomSequence words_;
  std::uint64_t next_ = 0;
};

// One small change; `other` is material to splice in.
void mutate(std::string& input, const std::string& other, Dice& dice) {
  static const std::string kInteresting[] = {
      std::string(8, '\0'),
      std::string(8, '\xff'),
      std::string("\0\0\0\x80", 4),
      std::string("\xff\xff\xff\x7f", 4),
      "-1",
      "18446744073709551616",
      "1e999",
      "\\ud800",
      "\xed\xa0\x80",
      "{",
      "]",
      "\"",
  };
  const std::size_t at = dice.below(input.size() + 1);
  const std::size_t length = std::min(dice.below(16) + 1, input.size() - at);
  switch (dice.below(7)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << dice.below(8)));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(dice.below(256));
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, input.substr(at, length));
      break;
    case 4:
      input.resize(at);
      break;
    case 5:
      input.replace(at, length, kInteresting[dice.below(std::size(kInteresting))]);
      break;
    default: {
      const std::size_t from = dice.below(other.size() + 1);
      input.replace(at, length, other.substr(from, dice.below(64)));
    }
  }
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
}

std::vector<std::string> read_corpus(const fs::path& path) {
  if (fs::is_regular_file(path)) return {flywheel::read_text_file(path)};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& file : files) corpus.push_back(flywheel::read_text_file(file));
  return corpus;
}

std::uint32_t run_mutations(const std::vector<std::string>& corpus, double seconds,
                            std::uint64_t seed) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint32_t round = 0;
  for (; std::chrono::steady_clock::now() < end; ++round) {
    Dice dice(seed, round);
    std::string input = corpus[dice.below(corpus.size())];
    const std::string& other = corpus[dice.below(corpus.size())];
    for (std::size_t changes = dice.below(8) + 1; changes > 0; --changes) {
      mutate(input, other, dice);
    }
    run(input);
  }
  return round;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [SECONDS [SEED]] | FILE\n", argv[0]);
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const std::vector<std::string> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: %s: no inputs\n", argv[1]);
    return 2;
  }
  watch_for_crashes();
  run("");
  for (const auto& input : corpus) run(input);
  const std::uint32_t rounds = run_mutations(corpus, seconds, seed);
  std::printf("%zu inputs of %s, %u mutations with seed %llu: no finding\n", corpus.size(), argv[1],
              rounds, static_cast<unsigned long long>(seed));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "fuzz: uncaught exception: %s\n", error.what());
  return 1;
}
