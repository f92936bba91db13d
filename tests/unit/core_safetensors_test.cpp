#include "core/safetensors.h"

#include <cstring>
#include <numeric>

#include "core/error.h"
#include "support/catch.h"
#include "support/test_data.h"
#include "support/text.h"

namespace flywheel {
namespace {

using test::require_contains;

std::string file_bytes(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\1');
}

std::string fault_of(const std::string& bytes) {
  try {
    parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors");
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::Data);
    return error.what();
  }
  return "no error";
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_CASE("tensors survive the way through a file") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), -3.5F);
  const std::vector<double> wide{1.5, -2.25};
  const std::vector<std::uint16_t> brain{0x3F80, 0xC000};
  {
    SafetensorsWriter writer(path, {{"b", "F32", {2, 3, 4}},
                                    {"a", "F64", {2}},
                                    {"empty", "F32", {0, 5}},
                                    {"c", "BF16", {2}},
                                    {"a\"quoted", "F32", {}}});
    REQUIRE(writer.tensors()[0].name == "a");
    writer.write("a", std::as_bytes(std::span(wide)));
    writer.write("a\"quoted", std::as_bytes(std::span(values).first(1)));
    writer.write("b", std::as_bytes(std::span(values).first(10)));
    writer.write("b", std::as_bytes(std::span(values).subspan(10)));
    writer.write("c", std::as_bytes(std::span(brain)));
    writer.close();
  }
  const SafetensorsReader reader(path);
  REQUIRE(reader.entries().size() == 5);
  REQUIRE(reader.metadata().at("format") == "pt");
  REQUIRE(reader.find("absent") == nullptr);
  const SafetensorsEntry& b = *reader.find("b");
  REQUIRE(b.shape == std::vector<std::int64_t>{2, 3, 4});
  std::vector<float> part(14);
  reader.read_floats(b, 10, part);
  REQUIRE(std::equal(part.begin(), part.end(), values.begin() + 10));
  std::vector<float> two(2);
  reader.read_floats(*reader.find("a"), 0, two);
  REQUIRE(two == std::vector<float>{1.5F, -2.25F});
  reader.read_floats(*reader.find("c"), 0, two);
  REQUIRE(two == std::vector<float>{1.0F, -2.0F});
  REQUIRE(reader.find("a\"quoted")->shape.empty());
  REQUIRE(reader.find("empty")->elements() == 0);
  REQUIRE_THROWS_AS(reader.read_floats(b, 20, part), Error);

  const std::string bytes = read_text_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE((8 + length) % 8 == 0);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{9}, bytes.size() / 2}) {
    require_contains(fault_of(bytes.substr(0, bytes.size() - cut)), "x.safetensors");
  }
  require_contains(fault_of(bytes + "x"), "cut off or extended");
}

TEST_CASE("half precision is widened exactly") {
  const std::vector<std::pair<std::uint16_t, float>> cases{
      {0x0000, 0.0F},          {0x3C00, 1.0F},     {0xC100, -2.5F},   {0x0001, 0x1p-24F},
      {0x83FF, -0x1.FF8p-15F}, {0x7BFF, 65504.0F}, {0x0400, 0x1p-14F}};
  const test::TemporaryFolder folder;
  for (const auto& [bits, value] : cases) {
    SafetensorsWriter writer(folder.path() / "h", {{"h", "F16", {1}}});
    writer.write("h", std::as_bytes(std::span(&bits, 1)));
    writer.close();
    const SafetensorsReader reader(folder.path() / "h");
    float read = 0;
    reader.read_floats(*reader.find("h"), 0, std::span(&read, 1));
    REQUIRE(read == value);
  }
}

TEST_CASE("invalid files are refused by their fault") {
  require_contains(fault_of(""), "too few");
  require_contains(fault_of(std::string(8, '\xff') + "{}"), "does not fit");
  require_contains(fault_of(file_bytes("[]", 0)), "does not start with");
  require_contains(fault_of(file_bytes("{\"a\"", 0)), "not valid JSON");
  require_contains(fault_of(file_bytes("{\"a\":3}", 0)), "a number where none belongs");
  require_contains(fault_of(file_bytes("{\"a\":{\"x\":{}}}", 0)), "an object where");
  require_contains(fault_of(file_bytes("{\"__metadata__\":{\"a\":1}}", 0)), "a number");
  require_contains(fault_of(file_bytes("{\"a\":{\"dtype\":\"F32\"}}", 0)), "lacks a shape");
  const std::string four = entry("F32", "[1]", "[0,4]");
  require_contains(fault_of(file_bytes("{\"a\":" + four + ",\"a\":" + four + "}", 4)),
                   "appears twice");
  require_contains(fault_of(file_bytes("{\"a\":" + entry("F33", "[1]", "[0,4]") + "}", 4)),
                   "unsupported dtype 'F33'");
  require_contains(fault_of(file_bytes("{\"a\":" + entry("F32", "[2]", "[0,4]") + "}", 4)),
                   "needs 8 bytes");
  require_contains(fault_of(file_bytes("{\"a\":" + entry("F32", "[1]", "[0,8]") + "}", 4)),
                   "offsets 0 to 8 of 4");
  require_contains(fault_of(file_bytes("{\"a\":" + entry("F32", "[1]", "[8,4]") + "}", 8)),
                   "offsets 8 to 4");
  require_contains(
      fault_of(file_bytes("{\"a\":" + entry("F32", "[4294967296,4294967296]", "[0,0]") + "}", 0)),
      "impossibly large");
  require_contains(fault_of(file_bytes("{\"a\":" + four + ",\"b\":" + four + "}", 4)),
                   "gap or overlap");
  require_contains(
      fault_of(file_bytes("{\"a\":" + four + ",\"b\":" + entry("F32", "[1]", "[8,12]") + "}", 12)),
      "gap or overlap");
  require_contains(fault_of(file_bytes("{\"a\":" + entry("F32", "[-1]", "[0,4]") + "}", 4)),
                   "negative");
  REQUIRE(fault_of(file_bytes("{\"a\":" + four + ",\"b\":" + entry("F32", "[0]", "[4,4]") + "}  ",
                              4)) == "no error");
}

TEST_CASE("a writer insists on its order") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "x";
  const float value = 1;
  const auto bytes = std::as_bytes(std::span(&value, 1));
  SafetensorsWriter writer(path, {{"a", "F32", {1}}, {"b", "F32", {1}}});
  REQUIRE_THROWS_AS(writer.write("b", bytes), Error);
  writer.write("a", bytes);
  REQUIRE_THROWS_AS(writer.close(), Error);
  REQUIRE_THROWS_AS(SafetensorsWriter(path, {{"a", "F32", {1}}, {"a", "F64", {1}}}), Error);
}

}  // namespace
}  // namespace flywheel
