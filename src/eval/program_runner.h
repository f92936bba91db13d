#pragma once

#include <chrono>
#include <string>

namespace flywheel {

// Runs a Python program in a child process: in an empty folder of its own, without input, its
// output dropped, limited in time, memory and the size of files, and without a network where the
// kernel lets us take it away. Everything that it started is killed at the end. This keeps out
// accidents, not attacks. True: it ran to its end, nothing was raised. Error Config if there is no
// python3; Error Io if no process could be made.
bool runs_to_its_end(const std::string& program,
                     std::chrono::milliseconds limit = std::chrono::seconds(3));

}  // namespace flywheel
