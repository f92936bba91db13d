#pragma once

#include <cstdint>
#include <string>

namespace simt {

// A place in the running program, as an offset into its image.
std::uint32_t code_offset(const void* return_address);
// "norm.cu:52", by addr2line; of inlined code, the innermost line that is not a helper's.
std::string line_of(std::uint32_t code_offset);

}  // namespace simt
