#include "core/file_io.h"

#include <string>

#include "core/checksum.h"
#include "core/error.h"
#include "support/catch.h"
#include "support/test_data.h"

using namespace flywheel;

TEST_CASE("an atomic write replaces the whole file and leaves nothing beside it", "[core]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.txt";
  write_file_atomically(path, "first");
  write_file_atomically(path, "second");
  REQUIRE(read_text_file(path) == "second");
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("an atomic write that fails leaves the old file and nothing beside it", "[core]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a_folder_is_in_the_way";
  std::filesystem::create_directories(path / "inside");
  REQUIRE_THROWS_AS(write_file_atomically(path, "text"), Error);
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("file errors name the path and the reason", "[core]") {
  try {
    read_text_file("/no/such/file");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::Io);
    REQUIRE(std::string(error.what()) == "/no/such/file: cannot open: No such file or directory");
  }
}

TEST_CASE("a mapped file shows the bytes that a writer wrote", "[core]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "b.bin";
  std::string content(3 << 20, 'x');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 % 251);
  FileWriter writer(path);
  writer.write(std::as_bytes(std::span(content)));
  writer.write_at(5, std::as_bytes(std::span(std::string_view("hello"))));
  writer.close();
  content.replace(5, 5, "hello");

  const MappedFile file(path);
  const std::string_view mapped(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
  REQUIRE(mapped == content);
  REQUIRE(checksum_of_file(path) == checksum(file.bytes()));
}

TEST_CASE("mapped bytes that were released can be read again", "[core]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  std::string content;
  for (int i = 0; i < 50'000; ++i) content += static_cast<char>('a' + i % 23);
  write_file_atomically(path, content);
  const MappedFile file(path);
  const std::uint64_t whole = checksum(file.bytes());
  for (const std::size_t begin : {0, 1, 4096, 49'999}) {
    release_mapped(file.bytes().subspan(begin));
    release_mapped(file.bytes().subspan(begin, 0));
    CHECK(checksum(file.bytes()) == whole);
  }
}

TEST_CASE("an empty file maps to no bytes", "[core]") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "empty", "");
  REQUIRE(MappedFile(folder.path() / "empty").bytes().empty());
}
