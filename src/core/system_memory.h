#pragma once

#include <cstdint>
#include <optional>

namespace flywheel {

// Bytes that this process may still take before the kernel ends something: MemAvailable, and what a
// cgroup's limit (version 2) leaves. Nothing where the system does not say.
std::optional<std::int64_t> available_memory();

}  // namespace flywheel
