#include "data/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <iostream>

#include "data/shard_format.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"
#include "support/token_files.h"

using namespace flywheel;
using test::contains;
using test::error_of;
using test::Tokens;

namespace {

std::string bytes_of(const std::filesystem::path& path) {
  return read_text_file(path);
}

void replace_bytes(const std::filesystem::path& path, const std::string& bytes) {
  write_file_atomically(path, bytes);
}

std::string open_error(const std::filesystem::path& path) {
  return error_of([&] { ShardReader reader(path); });
}

// Changes the header and gives it a fitting checksum, as a hostile writer would.
template <class Change>
void change_header(const std::filesystem::path& path, const Change& change) {
  std::string bytes = bytes_of(path);
  shard_format::Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  change(header);
  header.header_checksum = shard_format::header_checksum(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  replace_bytes(path, bytes);
}

}  // namespace

TEST_CASE("a shard gives back the documents that were written", "[data]") {
  const test::TemporaryFolder folder;
  for (const int token_bytes : {2, 4}) {
    const std::int64_t vocab_size = token_bytes == 2 ? 65536 : 200000;
    const auto last = static_cast<std::int32_t>(vocab_size - 1);
    const auto path = folder.path() / "a.bin";
    test::write_shard(path, {{5, 6, last}, {}, {7}}, vocab_size, token_bytes, 0xabcdef);

    const ShardReader shard(path);
    REQUIRE(shard.info().format == "flywheel");
    REQUIRE(shard.info().token_bytes == token_bytes);
    REQUIRE(shard.info().vocab_size == vocab_size);
    REQUIRE(shard.info().tokenizer_fingerprint == 0xabcdef);
    REQUIRE(shard.info().end_of_document == 0);
    REQUIRE(shard.info().documents == 3);
    REQUIRE(test::read_all(shard) == Tokens{0, 5, 6, last, 0, 0, 7});
    const auto starts = shard.document_starts();
    REQUIRE(std::vector<std::uint64_t>(starts.begin(), starts.end()) ==
            std::vector<std::uint64_t>{0, 4, 5});
    Tokens middle(2);
    shard.read(2, middle);
    REQUIRE(middle == Tokens{6, last});
    shard.verify_checksum();
  }
}

TEST_CASE("a shard without tokens is read", "[data]") {
  const test::TemporaryFolder folder;
  test::write_shard(folder.path() / "a.bin", {});
  REQUIRE(ShardReader(folder.path() / "a.bin").info().tokens == 0);
}

TEST_CASE("a document can go on in the next shard", "[data]") {
  const test::TemporaryFolder folder;
  ShardInfo info;
  info.vocab_size = 10;
  info.end_of_document = 9;
  ShardWriter writer(folder.path() / "a.bin", info);
  writer.append(Tokens{1, 2, 3});
  writer.add_document(Tokens{4});
  writer.close();
  const ShardReader shard(folder.path() / "a.bin");
  REQUIRE(test::read_all(shard) == Tokens{1, 2, 3, 9, 4});
  REQUIRE(shard.document_starts().size() == 1);
  REQUIRE(shard.document_starts()[0] == 3);
}

TEST_CASE("the writer refuses tokens outside of the vocabulary", "[data]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.bin";
  for (const std::int32_t token : {-1, 10}) {
    REQUIRE(contains(error_of([&] { test::write_shard(path, {{token}}, 10); }),
                     "token " + std::to_string(token) + " is outside of the vocabulary of 10 ids"));
    REQUIRE(contains(open_error(path), "was not completed"));
  }
  ShardInfo info;
  info.vocab_size = 10;
  ShardWriter writer(path, info);
  REQUIRE(contains(error_of([&] { writer.begin_document(); }), "no end-of-document id"));
}

TEST_CASE("files of llm.c and modded-nanogpt are read as they are", "[data]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.bin";
  test::write_foreign_shard<std::uint16_t>(path, 20240520, 1, {50256, 1, 65535});
  const ShardReader narrow(path);
  REQUIRE(narrow.info().format == "llm.c");
  REQUIRE(narrow.info().token_bytes == 2);
  REQUIRE(narrow.info().end_of_document == 50256);
  REQUIRE(narrow.info().vocab_size == 0);
  REQUIRE(test::read_all(narrow) == Tokens{50256, 1, 65535});
  narrow.verify_checksum();

  test::write_foreign_shard<std::uint32_t>(path, 20240801, 7, {128000, 1, 2147483647});
  const ShardReader wide(path);
  REQUIRE(wide.info().token_bytes == 4);
  REQUIRE(wide.info().end_of_document == 128000);
  REQUIRE(test::read_all(wide) == Tokens{128000, 1, 2147483647});

  test::write_foreign_shard<std::uint32_t>(path, 20240801, 7, {1, 2147483648U});
  REQUIRE(contains(error_of([&] { test::read_all(ShardReader(path)); }), "token 2147483648 among"));
}

TEST_CASE("damaged and foreign files are refused in one line with their name", "[data]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "bad.bin";
  test::write_shard(path, {{1, 2, 3}, {4, 5}});
  const std::string good = bytes_of(path);
  std::string fault;

  SECTION("missing") {
    std::filesystem::remove(path);
    fault = "cannot open: No such file or directory";
  }
  SECTION("empty") {
    replace_bytes(path, "");
    fault = "0 bytes are no token file";
  }
  SECTION("text") {
    replace_bytes(path, "Call me Ishmael. Some years ago");
    fault = "not a token file";
  }
  SECTION("header cut") {
    replace_bytes(path, good.substr(0, 100));
    fault = "truncated (100 bytes, the header alone has 128)";
  }
  SECTION("truncated") {
    replace_bytes(path, good.substr(0, good.size() - 1));
    fault = "truncated (159 bytes, but its header states 7 tokens and so 160 bytes)";
  }
  SECTION("longer") {
    replace_bytes(path, good + "x");
    fault = "has bytes behind its end (161 bytes";
  }
  SECTION("header bit") {
    std::string bytes = good;
    bytes[32] ^= 1;
    replace_bytes(path, bytes);
    fault = "damaged header (checksum";
  }
  SECTION("unclosed") {
    ShardInfo info;
    info.vocab_size = 10;
    info.end_of_document = 0;
    ShardWriter(path, info).add_document(Tokens{1});
    fault = "was not completed";
  }
  SECTION("version") {
    change_header(path, [](auto& header) { header.version = 2; });
    fault = "token file version 2, but this program reads version 1";
  }
  SECTION("token bytes") {
    change_header(path, [](auto& header) { header.token_bytes = 3; });
    fault = "3 bytes a token; expected 2 or 4";
  }
  SECTION("vocabulary") {
    change_header(path, [](auto& header) { header.vocab_size = 65537; });
    fault = "a vocabulary of 65537 ids does not fit 2 bytes a token";
  }
  SECTION("end of document") {
    change_header(path, [](auto& header) { header.end_of_document = 50257; });
    fault = "end-of-document id 50257 is outside";
  }
  SECTION("count overflow") {
    change_header(path, [](auto& header) { header.token_count = ~std::uint64_t{0} / 2; });
    fault = "tokens and 2 documents cannot be";
  }
  SECTION("document overflow") {
    change_header(path, [](auto& header) { header.document_count = 8; });
    fault = "7 tokens and 8 documents cannot be";
  }
  SECTION("documents") {
    std::string bytes = good;
    bytes[bytes.size() - 8] = 100;
    replace_bytes(path, bytes);
    fault = "damaged table of documents";
  }
  SECTION("evaluation file") {
    test::write_foreign_shard<std::uint16_t>(path, 20240522, 1, {1});
    fault = "an evaluation file of llm.c";
  }
  SECTION("foreign version") {
    test::write_foreign_shard<std::uint16_t>(path, 20240520, 2, {1});
    fault = "llm.c token file version 2; expected version 1";
  }
  SECTION("foreign truncated") {
    test::write_foreign_shard<std::uint16_t>(path, 20240520, 1, {1, 2, 3});
    replace_bytes(path, bytes_of(path).substr(0, 1028));
    fault = "truncated (1028 bytes, but its header states 3 tokens and so 1030 bytes)";
  }
  SECTION("foreign header cut") {
    test::write_foreign_shard<std::uint16_t>(path, 20240520, 1, {});
    replace_bytes(path, bytes_of(path).substr(0, 1000));
    fault = "truncated (1000 bytes, the header of llm.c's format alone has 1024)";
  }
  SECTION("foreign negative count") {
    test::write_foreign_shard<std::uint16_t>(path, 20240520, 1, {});
    std::string bytes = bytes_of(path);
    bytes[11] = '\x80';
    replace_bytes(path, bytes);
    fault = "states -2147483648 tokens";
  }
  const std::string message = open_error(path);
  INFO(message);
  REQUIRE(contains(message, path.string() + ": "));
  REQUIRE(contains(message, fault));
  REQUIRE_FALSE(contains(message, "\n"));
}

TEST_CASE("a token beyond the vocabulary is found on reading", "[data]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.bin";
  test::write_shard(path, {{1, 2, 3}}, 10);
  change_header(path, [](auto& header) { header.vocab_size = 3; });
  const ShardReader shard(path);
  Tokens start(3);
  shard.read(0, start);
  REQUIRE(contains(error_of([&] { test::read_all(shard); }),
                   "token 3 among tokens 0 to 3, but the vocabulary ends at 2"));
}

TEST_CASE("the checksum finds a changed token or table", "[data]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.bin";
  test::write_shard(path, {{1, 2, 3}, {4}});
  const std::string good = bytes_of(path);
  const std::uint64_t fingerprint = ShardReader(path).fingerprint();
  for (const std::size_t offset : {std::size_t{128}, good.size() - 8}) {
    std::string bytes = good;
    bytes[offset] ^= 1;
    replace_bytes(path, bytes);
    const ShardReader shard(path);
    REQUIRE(contains(error_of([&] { shard.verify_checksum(); }), "another checksum"));
    REQUIRE(shard.fingerprint() != fingerprint);
  }
}

TEST_CASE("shards above 4 GiB are read at any place", "[data]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "large.bin";
  shard_format::Header header;
  header.state = shard_format::kStateComplete;
  header.token_count = 2'500'000'000;
  header.document_count = 1;
  header.vocab_size = 50257;
  header.header_checksum = shard_format::header_checksum(header);
  const std::uint64_t table = sizeof(header) + header.token_count * 2;
  const std::uint64_t document = header.token_count - 2;
  const std::uint16_t last[2] = {17, 18};

  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  const bool sparse = ::ftruncate(descriptor, static_cast<off_t>(table + 8)) == 0 &&
                      ::pwrite(descriptor, &header, sizeof(header), 0) == sizeof(header) &&
                      ::pwrite(descriptor, last, 4, static_cast<off_t>(table - 4)) == 4 &&
                      ::pwrite(descriptor, &document, 8, static_cast<off_t>(table)) == 8;
  ::close(descriptor);
  if (!sparse) {
    std::cout << "skipped: this file system holds no sparse file of 5 GB\n";
    return;
  }
  const ShardReader shard(path);
  REQUIRE(shard.info().tokens == 2'500'000'000);
  REQUIRE(shard.document_starts()[0] == 2'499'999'998);
  Tokens end(4);
  shard.read(2'499'999'996, end);
  REQUIRE(end == Tokens{0, 0, 17, 18});
}
