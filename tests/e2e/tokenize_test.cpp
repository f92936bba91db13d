// Runs the real program, named by FLYWHEEL_TOKENIZE.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/file_io.h"
#include "data/loader.h"
#include "data/tokenizer.h"
#include "support/catch.h"
#include "support/test_data.h"
#include "support/token_files.h"

using namespace flywheel;
using test::Tokens;

namespace {

namespace fs = std::filesystem;

struct Result {
  int exit_code;
  std::string output;  // standard output and error
  bool says(const std::string& part) const { return output.find(part) != std::string::npos; }
};

Result run(const std::string& arguments) {
  const std::string command = std::string(FLYWHEEL_TOKENIZE) + " " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  Result result{};
  char buffer[4096];
  for (std::size_t count; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    result.output.append(buffer, count);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text_file(entry.path());
  }
  return files;
}

// The documents of a set of shards as bytes, without the end-of-document ids.
std::vector<std::string> documents_of(const fs::path& folder, const std::string& split) {
  std::vector<std::string> documents;
  for (const auto& [name, bytes] : content_of(folder)) {
    if (name.rfind(split, 0) != 0) continue;
    for (const std::int32_t token : test::read_all(ShardReader(folder / name))) {
      if (token == 256) {
        documents.emplace_back();
      } else {
        documents.at(documents.size() - 1) += static_cast<char>(token);
      }
    }
  }
  return documents;
}

struct Setup {
  test::TemporaryFolder folder;
  std::string in = (folder.path() / "in").string();
  std::string out = (folder.path() / "out").string();

  Setup() { fs::create_directory(in); }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(in + "/" + name, text);
  }
  Result tokenize(const std::string& arguments) const {
    return run("--tokenizer byte --output " + out + " " + arguments);
  }
};

}  // namespace

TEST_CASE("text, JSONL and folders become shards that the loader reads", "[e2e]") {
  const Setup setup;
  setup.write("a.txt", "one\n\ntwo");
  setup.write("b.jsonl", "{\"body\": \"three\"}\n{\"body\": \"four \\u00e9\"}\n");
  setup.write("ignored.csv", "five");
  const Result result = setup.tokenize(
      "--text-key body --document-separator blank --validation-fraction 0 " + setup.in);
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("4 documents"));
  REQUIRE(result.says("tokens a byte"));
  REQUIRE(documents_of(setup.out, "train") ==
          std::vector<std::string>{"one", "two", "three", "four \xC3\xA9"});
  const ShardReader shard(setup.out + "/train_000000.bin");
  REQUIRE(shard.info().token_bytes == 2);
  REQUIRE(shard.info().vocab_size == 257);
  REQUIRE(shard.info().tokenizer_fingerprint == Tokenizer::load("byte")->fingerprint());

  LoaderConfig config;
  config.sources = {{{setup.out + "/train_*.bin"}, 1.0}};
  config.sequence_length = 5;
  config.shuffle = false;
  config.document_mask = true;
  Loader loader(config, 1, {});
  const Batch& batch = loader.next();
  REQUIRE(Tokens(batch.inputs.begin(), batch.inputs.end()) == Tokens{256, 'o', 'n', 'e', 256});
  REQUIRE(Tokens(batch.cu_seqlens.begin(), batch.cu_seqlens.end()) == Tokens{0, 4, 5});
}

TEST_CASE("the program's files do not depend on its threads", "[e2e]") {
  const Setup setup;
  std::string lines;
  for (int i = 0; i < 20000; ++i) {
    lines += "{\"text\": \"document " + std::to_string(i) + std::string(i % 200, 'x') + "\"}\n";
  }
  setup.write("a.jsonl", lines);
  setup.write("b.txt", std::string(3 << 20, 'b'));
  std::map<std::string, std::string> expected;
  for (const int threads : {1, 2, 4}) {
    const Result result = setup.tokenize("--overwrite --shard-tokens 500000 --threads " +
                                         std::to_string(threads) + " " + setup.in);
    INFO(result.output);
    REQUIRE(result.exit_code == 0);
    if (threads == 1) expected = content_of(setup.out);
    REQUIRE(expected.size() > 8);
    REQUIRE((content_of(setup.out) == expected));
  }
}

TEST_CASE("about the asked share of documents goes to validation, the rest to training", "[e2e]") {
  const Setup setup;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::to_string(i) + "\n###\n";
  setup.write("a.txt", text);
  for (const double fraction : {0.0, 0.05, 0.5}) {
    const Result result =
        setup.tokenize("--overwrite --document-separator '###' --validation-fraction " +
                       std::to_string(fraction) + " " + setup.in);
    INFO(result.output);
    REQUIRE(result.exit_code == 0);
    auto documents = documents_of(setup.out, "train");
    const auto validation = documents_of(setup.out, "validation");
    const double deviation = std::sqrt(3000 * fraction * (1 - fraction));
    REQUIRE(std::abs(static_cast<double>(validation.size()) - 3000 * fraction) <= 6 * deviation);
    documents.insert(documents.end(), validation.begin(), validation.end());
    std::sort(documents.begin(), documents.end());
    REQUIRE(std::unique(documents.begin(), documents.end()) == documents.end());
    REQUIRE(documents.size() == 3000);
  }
}

TEST_CASE("faults end in one line, the right exit code and no files", "[e2e]") {
  const Setup setup;
  setup.write("good.txt", "text");
  setup.write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": \n");
  setup.write("key.jsonl", "{\"body\": \"a\"}\n");
  setup.write("empty.txt", "");
  struct Case {
    std::string arguments;
    ErrorKind kind;
    std::string message;
  };
  const std::string good = " " + setup.in + "/good.txt";
  const Case cases[] = {
      {setup.in + "/none.txt", ErrorKind::Data, "/none.txt: no such file or folder"},
      {"'" + setup.in + "/*.none'", ErrorKind::Data, "no file matches this pattern"},
      {setup.in + "/bad.jsonl", ErrorKind::Data, "bad.jsonl:2: malformed JSON: "},
      {setup.in + "/key.jsonl", ErrorKind::Data,
       "key.jsonl:1: no key \"text\" (there are: body); pass --text-key"},
      {setup.in + "/empty.txt", ErrorKind::Data, "no text in the input"},
      {"", ErrorKind::Config, "no input"},
      {"--validation-fraction 2" + good, ErrorKind::Config, "validation fraction 2; expected 0"},
      {"--shard-tokens none" + good, ErrorKind::Config, "none"},
      {"--shard-token 5" + good, ErrorKind::Config, "shard-token"},
      {"--threads -1" + good, ErrorKind::Config, "threads is -1; expected 0"},
      {"--tokenizer /none" + good, ErrorKind::Data, "/none"},
  };
  for (const Case& c : cases) {
    const Result result = setup.tokenize(c.arguments);
    INFO(c.arguments << "\n" << result.output);
    REQUIRE(result.exit_code == exit_code(c.kind));
    REQUIRE(result.says("tokenize: error: "));
    REQUIRE(result.says(c.message));
    REQUIRE(std::count(result.output.begin(), result.output.end(), '\n') == 1);
    REQUIRE((!fs::exists(setup.out) || fs::is_empty(setup.out)));
  }
  REQUIRE(run("--output x" + good).says("--tokenizer is missing"));
  REQUIRE(run("--tokenizer byte" + good).says("--output is missing"));
}

TEST_CASE("existing output is not replaced unasked", "[e2e]") {
  const Setup setup;
  setup.write("a.txt", "first");
  REQUIRE(setup.tokenize("--validation-fraction 0 " + setup.in).exit_code == 0);
  setup.write("a.txt", "second");
  const Result refused = setup.tokenize("--validation-fraction 0 " + setup.in);
  REQUIRE(refused.exit_code == exit_code(ErrorKind::Config));
  REQUIRE(refused.says("train_000000.bin: exists; choose another --output or pass --overwrite"));
  REQUIRE(documents_of(setup.out, "train") == std::vector<std::string>{"first"});
  REQUIRE(setup.tokenize("--validation-fraction 0 --overwrite " + setup.in).exit_code == 0);
  REQUIRE(documents_of(setup.out, "train") == std::vector<std::string>{"second"});
}

TEST_CASE("a run that is killed leaves no file that looks complete", "[e2e]") {
  const Setup setup;
  const std::string pipe = setup.in + "/pipe.txt";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(FLYWHEEL_TOKENIZE, FLYWHEEL_TOKENIZE, "--tokenizer", "byte", "--validation-fraction",
            "0", "--shard-tokens", "500000", "--output", setup.out.c_str(), pipe.c_str(), nullptr);
    ::_exit(127);
  }
  const int input = ::open(pipe.c_str(), O_WRONLY);
  const std::string text(1 << 16, 'a');
  for (int i = 0; i < 64; ++i) REQUIRE(::write(input, ("b " + text).data(), text.size()) > 0);
  const std::string first = setup.out + "/train_000000.bin.partial";
  const std::string second = setup.out + "/train_000001.bin.partial";
  for (int i = 0; i < 3000 && !fs::exists(second); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(fs::exists(first));
  REQUIRE(fs::exists(second));
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  ::close(input);
  for (const auto& [name, bytes] : content_of(setup.out))
    REQUIRE(fs::path(name).extension() == ".partial");
  REQUIRE_THROWS_AS(ShardReader(setup.out + "/" + content_of(setup.out).rbegin()->first), Error);

  setup.write("a.txt", "text");
  REQUIRE(setup.tokenize("--validation-fraction 0 " + setup.in + "/a.txt").exit_code == 0);
  REQUIRE(content_of(setup.out).size() == 1);
}

TEST_CASE("help shows examples", "[e2e]") {
  const Result result = run("--help");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("Examples:"));
  REQUIRE(result.says("--document-separator"));
}

TEST_CASE("a tokenizer is trained and used, commas in names and all", "[e2e]") {
  const Setup setup;
  setup.write("a,b.txt", "low lower lowest");
  const std::string file = setup.out + "/tokenizer.json";
  const Result trained =
      run("train --vocab-size 300 --special-token '<|endoftext|>' " +
          std::string("--special-token '<,>' --output ") + file + " " + setup.in + "/a,b.txt");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  REQUIRE(trained.says("Stopped before 300 tokens"));
  const auto tokenizer = Tokenizer::load(file);
  Tokens ids;
  tokenizer->encode(" lower<,>", ids);
  REQUIRE(ids.size() == 2);
  REQUIRE(ids.back() == 1);

  const Result used = run("--validation-fraction 0 --tokenizer " + file + " --output " + setup.out +
                          " " + setup.in);
  INFO(used.output);
  REQUIRE(used.exit_code == 0);
  REQUIRE(ShardReader(setup.out + "/train_000000.bin").info().end_of_document == 0);
}

TEST_CASE("training names what is missing", "[e2e]") {
  const Setup setup;
  const std::string file = setup.out + "/tokenizer.json";
  for (const auto& [arguments, message] : std::map<std::string, std::string>{
           {"--output " + file + " x.txt", "--vocab-size is missing"},
           {"--vocab-size 300 x.txt", "--output is missing"},
           {"--vocab-size 300 --output " + file, "no input"},
           {"--vocab-size 200 --output " + file + " x.txt", "vocabulary of 200 tokens"}}) {
    const Result result = run("train " + arguments);
    CAPTURE(result.output);
    REQUIRE(result.exit_code == exit_code(ErrorKind::Config));
    REQUIRE(result.says(message));
  }
}
