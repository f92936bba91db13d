// A training config: whatever the bytes, a run or Error Config, and what was resolved resolves to
// itself.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/json_fields.h"
#include "train/train_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flywheel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    RunConfig config;
    ConfigFaults faults("fuzz");
    // The first line is an override, the rest a config.
    const std::size_t end = std::min(text.find('\n'), text.size());
    read_fields(config, parse_json(text.substr(end), "fuzz"), faults);
    const std::vector<std::string> overrides{std::string(text.substr(0, end))};
    override_fields(config, overrides, faults);
    validate(config, faults);
    faults.throw_if_any();
    const RunConfig whole = resolved(config);
    RunConfig copy;
    read_fields(copy, parse_json(run_config_to_json(whole), "copy"), faults);
    if (run_config_to_json(copy) != run_config_to_json(whole)) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) throw;
  }
  return 0;
}
