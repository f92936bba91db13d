#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/outliers.h"
#include "train/signals.h"
#include "train/tensorboard.h"

namespace flywheel {
namespace {

TEST_CASE("CRC-32C is that of RFC 3720") {
  REQUIRE(crc32c("123456789") == 0xE3069283);
  REQUIRE(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  REQUIRE(crc32c(std::string(32, '\xff')) == 0x62A8AB43);
  REQUIRE(crc32c("") == 0);
}

// The bytes of a file that the real TensorBoard read back (tests/oracle/read_tensorboard.py).
TEST_CASE("event files have the bytes that TensorBoard reads") {
  const test::TemporaryFolder folder;
  std::filesystem::path path;
  {
    EventWriter writer(folder.path(), 5, 1700000000.25);
    const std::array scalars{Scalar{"train/loss", 2.5}, Scalar{"train/norm", -0.125}};
    writer.write(7, 1700000001.5, scalars);
    path = writer.path();
  }
  REQUIRE(path.filename().string().starts_with("events.out.tfevents.1700000000."));
  REQUIRE(read_text_file(path) == read_text_file(test::golden("tensorboard/events.bin")));
}

TEST_CASE("metrics drop what a killed run wrote after its checkpoint") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    Metrics metrics(folder.path(), 0, false);
    for (std::int64_t step = 1; step <= 5; ++step) {
      const std::array scalars{Scalar{"loss", 1.0 / static_cast<double>(step)}};
      metrics.write("train", step, scalars);
    }
    const std::array broken{Scalar{"loss", std::nan("")}};
    metrics.write("validation", 4, broken);
  }
  write_file_atomically(path, read_text_file(path) + R"({"kind": "train", "step": 3, "lo)");
  {
    Metrics metrics(folder.path(), 4, false);
    const std::array scalars{Scalar{"loss", 7.0}};
    metrics.write("train", 5, scalars);
  }
  std::string steps;
  std::string text = read_text_file(path);
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const Json line = Json::parse(text.substr(begin, text.find('\n', begin) - begin));
    steps += line["kind"].get<std::string>()[0] + std::to_string(line["step"].get<int>()) + "=" +
             line["loss"].dump() + " ";
  }
  REQUIRE(steps == "t1=1.0 t2=0.5 t3=0.3333333333333333 t4=0.25 v4=null t5=7.0 ");
}

TEST_CASE("a disk that is full is an error with the path") {
  if (!std::filesystem::exists("/dev/full")) {
    WARN("skipped: no /dev/full");
    return;
  }
  AppendFile full("/dev/full");
  REQUIRE(test::error_of([&] { full.append("x"); }) ==
          "io: /dev/full: cannot write: No space left on device");
}

TEST_CASE("outliers are found and do not hide the next one") {
  OutlierDetector detector(6);
  const auto noisy = [](int i) { return 3.0 + 0.1 * std::sin(i * 1.7); };
  for (int i = 0; i < 200; ++i) REQUIRE(!detector.observe(noisy(i)));
  REQUIRE(detector.observe(5.0).value() > 6);
  REQUIRE(!detector.observe(noisy(3)));
  REQUIRE(detector.observe(5.0).value() > 6);
  REQUIRE(!detector.observe(1.0));  // low is not an outlier
  REQUIRE(!detector.observe(std::nan("")));
  OutlierDetector silent(0);
  for (int i = 0; i < 100; ++i) REQUIRE(!silent.observe(i == 99 ? 1e9 : 1.0));
}

TEST_CASE("a lasting change stops being an outlier") {
  OutlierDetector detector(6);
  for (int i = 0; i < 100; ++i) detector.observe(1.0 + 0.01 * std::sin(i * 1.7));
  int warnings = 0;
  for (int i = 0; i < 200; ++i)
    warnings += detector.observe(2.0 + 0.01 * std::sin(i * 1.7)) ? 1 : 0;
  REQUIRE(warnings > 0);
  REQUIRE(warnings < 50);
}

TEST_CASE("a signal asks to stop, again a second later ends the process") {
  const pid_t child = fork();
  if (child == 0) {
    const StopRequest stop;
    const bool before = stop.requested();
    raise(SIGTERM);
    if (before || !stop.requested() || std::string(stop.signal_name()) != "SIGTERM") _exit(1);
    raise(SIGTERM);
    raise(SIGINT);
    if (std::string(stop.signal_name()) != "SIGTERM") _exit(2);
    sleep(1);
    raise(SIGINT);
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 130);
}

TEST_CASE("quantities read well") {
  REQUIRE(human_count(999) == "999");
  REQUIRE(human_count(359'900'000) == "359.9M");
  REQUIRE(human_count(999'960) == "1.0M");
  REQUIRE(human_bytes(1023) == "1023 B");
  REQUIRE(human_bytes(std::int64_t{3} << 29) == "1.50 GiB");
  REQUIRE(human_seconds(12.2) == "12s");
  REQUIRE(human_seconds(200) == "3m20s");
  REQUIRE(human_seconds(3725) == "1h02m");
  REQUIRE(human_seconds(200'000) == "2d07h");
}

TEST_CASE("arguments survive the shell") {
  REQUIRE(shell_quote("runs/x-1.json") == "runs/x-1.json");
  REQUIRE(shell_quote("a b") == "'a b'");
  REQUIRE(shell_quote("it's") == "'it'\\''s'");
  REQUIRE(shell_quote("") == "''");
  REQUIRE(shell_quote("k=[\"sa\"]") == "'k=[\"sa\"]'");
}

TEST_CASE("tables are aligned") {
  REQUIRE(format_table({{"name", "n"}, {"a", "1234"}, {"longer", ""}}, 1) ==
          "  name       n\n"
          "  a       1234\n"
          "  longer");
}

}  // namespace
}  // namespace flywheel
