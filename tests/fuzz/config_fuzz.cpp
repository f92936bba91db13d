// Any text is either a config, which then survives writing and reading, or Error Config.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json_fields.h"

namespace {

enum class Shade { Light, Dark };
constexpr auto enum_names(Shade) {
  return std::array{flywheel::EnumName{"light", Shade::Light},
                    flywheel::EnumName{"dark", Shade::Dark}};
}

// One field of every type that configs have.
struct Inner {
  std::vector<std::string> names = {"a"};
  Shade shade = Shade::Light;
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("names", self.names, "");
    visit("shade", self.shade, "");
  }
};
struct Outer {
  bool flag = false;
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  double rate = 0;
  std::optional<double> limit;
  std::vector<Inner> list = {Inner{}};
  Inner inner;
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("flag", self.flag, "");
    visit("count", self.count, "");
    visit("seed", self.seed, "");
    visit("rate", self.rate, "");
    visit("limit", self.limit, "");
    visit("list", self.list, "");
    visit("inner", self.inner, "");
  }
};

Outer read_config(std::string_view text) {
  flywheel::ConfigFaults faults("input");
  Outer config;
  flywheel::read_fields(config, flywheel::parse_json(text, "input"), faults);
  faults.throw_if_any();
  return config;
}

// The first line is an override ("list.0.shade=dark"), the rest a config file.
void exercise(std::string_view input) {
  const std::size_t end = input.find('\n');
  const std::string assignment(input.substr(0, end));
  Outer config = read_config(end == std::string_view::npos ? "" : input.substr(end + 1));
  flywheel::ConfigFaults faults;
  flywheel::override_fields(config, std::vector{assignment}, faults);
  faults.throw_if_any();

  const std::string written = flywheel::write_fields(config).dump();
  if (flywheel::write_fields(read_config(written)).dump() != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(data, data + size);
  try {
    exercise(input);
  } catch (const flywheel::Error& error) {
    if (error.kind() != flywheel::ErrorKind::Config) throw;
  }
  return 0;
}
