#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace flywheel::log {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "flywheel", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::Debug:
      return spdlog::level::debug;
    case Level::Info:
      return spdlog::level::info;
    case Level::Warning:
      return spdlog::level::warn;
    case Level::Error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}

void write(Level level, std::string_view message) {
  logger().log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace flywheel::log
