#include "core/json_fields.h"

#include <array>

#include "core/error.h"
#include "support/catch.h"
#include "support/text.h"

namespace flywheel {
namespace {

using test::require_contains;

enum class Decay { Cosine, Linear };
constexpr auto enum_names(Decay) {
  return std::array{EnumName{"cosine", Decay::Cosine}, EnumName{"linear", Decay::Linear}};
}

struct Layer {
  std::string kind;
  std::int64_t window = 0;
  bool operator==(const Layer&) const = default;

  void set_short_form(const std::string& text) { *this = {.kind = text}; }
  std::string short_form() const { return window == 0 ? kind : ""; }
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("kind", self.kind, "kind of the layer");
    visit("window", self.window, "window in tokens");
  }
};

struct Inner {
  Decay decay = Decay::Cosine;
  std::optional<std::int64_t> warmup_steps;
  std::vector<Layer> layers;
  bool operator==(const Inner&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("decay", self.decay, "shape of the decay");
    visit("warmup_steps", self.warmup_steps, "steps of warmup");
    visit("layers", self.layers, "layers, repeated");
  }
};

struct Config {
  bool masked = false;
  std::int64_t steps = 10;
  std::uint64_t seed = 7;
  double rate = 0.1;
  std::string name = "run";
  std::vector<std::string> files;
  Inner inner;
  bool operator==(const Config&) const = default;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("masked", self.masked, "a flag");
    visit("steps", self.steps, "number of steps");
    visit("seed", self.seed, "seed");
    visit("rate", self.rate, "a rate");
    visit("name", self.name, "a name");
    visit("files", self.files, "files");
    visit("inner", self.inner, "a section");
  }
};

Config parse(const std::string& text, ConfigFaults& faults) {
  Config config;
  read_fields(config, parse_json(text, "test.json"), faults);
  return config;
}

std::string faults_of(const std::string& text) {
  ConfigFaults faults("test.json");
  parse(text, faults);
  std::string all;
  for (const std::string& line : faults.lines()) all += line + "\n";
  return all;
}

std::string error_of(const std::string& text) {
  try {
    parse_json(text, "test.json");
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "no error";
}

std::string fault_of_override(const std::string& assignment) {
  ConfigFaults faults;
  Config config;
  override_fields(config, std::vector{assignment}, faults);
  return faults.lines().empty() ? "" : faults.lines().front();
}

TEST_CASE("fields survive the way through JSON") {
  Config config;
  config.masked = true;
  config.steps = -5;
  config.seed = 18446744073709551615U;
  config.rate = 3e-4;
  config.name = "a \"b\" \n";
  config.files = {"x", "y"};
  config.inner.decay = Decay::Linear;
  config.inner.warmup_steps = 3;
  config.inner.layers = {{"sa", 0}, {"swa", 64}};
  ConfigFaults faults;
  Config copy;
  read_fields(copy, parse_json(write_fields(config).dump(), "x"), faults);
  REQUIRE(faults.empty());
  REQUIRE(copy == config);
  REQUIRE(write_fields(config)["inner"]["layers"][0] == "sa");
  REQUIRE(write_fields(Config())["inner"]["warmup_steps"].is_null());
}

TEST_CASE("a config file keeps the defaults of what it leaves out") {
  ConfigFaults faults;
  const Config config =
      parse(R"({"steps": 1e3, "inner": {"decay": "linear"}, "files": "a"})", faults);
  REQUIRE(faults.empty());
  REQUIRE(config.steps == 1000);
  REQUIRE(config.inner.decay == Decay::Linear);
  REQUIRE(config.files == std::vector<std::string>{"a"});
  REQUIRE(config.seed == 7);
}

TEST_CASE("all faults of a config come at once, with paths") {
  REQUIRE(faults_of(R"({"step": 3, "rate": "x", "seed": -1, "masked": 1, "name": [],
                        "files": [1], "inner": {"decay": "cosin", "warmup_steps": 1.5,
                        "layers": [{"windo": 3}]}})") ==
          "test.json: masked: expected true or false, got 1\n"
          "test.json: seed: expected an integer of 0 or more, got -1\n"
          "test.json: rate: expected a number, got \"x\"\n"
          "test.json: name: expected a string, got a list\n"
          "test.json: files.0: expected a string, got 1\n"
          "test.json: inner.decay: expected one of 'cosine', 'linear', got \"cosin\"; did you mean "
          "'cosine'?\n"
          "test.json: inner.warmup_steps: expected an integer, got 1.5\n"
          "test.json: inner.layers.0.windo: unknown key; did you mean 'window'?\n"
          "test.json: step: unknown key; did you mean 'steps'?\n");
  REQUIRE(faults_of(R"({"inner": 3})") == "test.json: inner: expected an object, got 3\n");
  REQUIRE(faults_of("[]") == "test.json: expected an object, got a list\n");
}

TEST_CASE("numbers that do not fit are refused, not wrapped") {
  for (const char* text : {R"({"steps": 9223372036854775808})", R"({"steps": 1e19})",
                           R"({"seed": 18446744073709551616})", R"({"seed": -0.5})"}) {
    INFO(text);
    REQUIRE(faults_of(text) != "");
  }
  REQUIRE(faults_of(R"({"steps": 9223372036854775807, "seed": 18446744073709551615})") == "");
}

TEST_CASE("JSON that does not parse is located") {
  require_contains(error_of("{\n  \"steps\": 3,\n  \"seed\" 4\n}"), "test.json:3:10:");
  require_contains(error_of("{\n  \"steps\": 3,\n  \"seed\" 4\n}"), "expected ':'");
  require_contains(error_of(""), "test.json:1:1: not valid JSON");
  require_contains(error_of("{\"a\": 1e999}"), "number overflow");
  require_contains(error_of("{\"a\": \"\xff\"}"), "ill-formed UTF-8");
  require_contains(error_of(R"({"a": {"b": 1, "b": 2}})"), "'b' appears twice");
  require_contains(error_of(std::string(100000, '[')), "levels of nesting");
  REQUIRE(error_of(R"({"a": {"b": 1}, "c": {"b": 2}})") == "no error");
}

TEST_CASE("overrides set values by path") {
  const std::vector<std::string> assignments{"steps=20",
                                             "name=42",
                                             "inner.decay=linear",
                                             "inner.layers=[\"full\"]",
                                             "inner.layers.1=swa",
                                             "files=[\"a\",\"b\"]",
                                             "inner.warmup_steps=9",
                                             "rate=1e-3",
                                             "inner.layers.2={\"kind\":\"sa\",\"window\":8}",
                                             "inner.layers.2.window=16",
                                             "masked=true",
                                             "files.0=c=d"};
  ConfigFaults faults;
  Config config;
  override_fields(config, assignments, faults);
  REQUIRE(faults.lines() == std::vector<std::string>());
  REQUIRE(config.steps == 20);
  REQUIRE(config.name == "42");
  REQUIRE(config.inner.decay == Decay::Linear);
  REQUIRE(config.inner.layers == std::vector<Layer>{{"full", 0}, {"swa", 0}, {"sa", 16}});
  REQUIRE(config.files == std::vector<std::string>{"c=d", "b"});
  REQUIRE(config.inner.warmup_steps == 9);
  REQUIRE(config.masked);
}

TEST_CASE("faulty overrides name themselves") {
  REQUIRE(fault_of_override("inner.decai=x") ==
          "--set inner.decai=x: inner.decai: unknown key; did you mean 'decay'?");
  REQUIRE(fault_of_override("steps=many") ==
          "--set steps=many: steps: expected an integer, got \"many\"");
  REQUIRE(fault_of_override("steps.x=1") ==
          "--set steps.x=1: steps: has no keys of its own, so 'x' cannot be set");
  REQUIRE(fault_of_override("files.3=1") ==
          "--set files.3=1: files: expected an index of 0 to 0, got '3'");
  REQUIRE(fault_of_override("steps") ==
          "--set steps: expected KEY=VALUE, as in train.max_steps=100");
  require_contains(fault_of_override(".=1"), "unknown key");
  require_contains(fault_of_override("=1"), "expected KEY=VALUE");
}

TEST_CASE("rows list values beside their defaults") {
  Config config;
  config.steps = 11;
  config.inner.layers = {{"swa", 64}};
  const auto rows = config_rows(write_fields(config), write_fields(Config()));
  std::string changed;
  for (const FieldRow& row : rows) {
    if (!row.is_default()) changed += row.path + "=" + row.value + " ";
  }
  REQUIRE(changed == "steps=11 inner.layers.0.kind=\"swa\" inner.layers.0.window=64 ");
}

TEST_CASE("the schema describes every key") {
  const Json schema = schema_of<Config>();
  REQUIRE(schema["additionalProperties"] == false);
  REQUIRE(schema["properties"]["inner"]["properties"]["decay"]["enum"] ==
          Json({"cosine", "linear"}));
  REQUIRE(schema["properties"]["seed"]["minimum"] == 0);
  std::string table;
  for (const FieldRow& row : reference_rows(schema)) {
    table += row.path + "|" + row.type + "|" + row.defaults + "|" + row.help + "\n";
  }
  REQUIRE(table ==
          "masked|boolean|false|a flag\n"
          "steps|integer|10|number of steps\n"
          "seed|integer|7|seed\n"
          "rate|number|0.1|a rate\n"
          "name|string|\"run\"|a name\n"
          "files|list of string|[]|files\n"
          "inner.decay|one of cosine, linear|\"cosine\"|shape of the decay\n"
          "inner.warmup_steps|integer or null|null|steps of warmup\n"
          "inner.layers|list of string or object|[]|layers, repeated\n"
          "inner.layers[].kind|string|\"\"|kind of the layer\n"
          "inner.layers[].window|integer|0|window in tokens\n");
}

}  // namespace
}  // namespace flywheel
