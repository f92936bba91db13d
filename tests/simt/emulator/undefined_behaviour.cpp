// Handlers of -fsanitize=bounds,alignment,shift,...: kernels are built with it, but libubsan is not
// linked; the report names kernel, block and thread. The structs are the compiler's.
#include <fmt/format.h>

#include "simt/emulator/block.h"

namespace {

struct Place {
  const char* file;
  std::uint32_t line, column;
};
struct Type {
  std::uint16_t kind, info;
  char name[1];
};
struct OutOfBounds {
  Place place;
  const Type* array;
  const Type* index;
};
struct Mismatch {
  Place place;
  const Type* type;
  unsigned char log_alignment, kind;
};
struct Operands {
  Place place;
  const Type* left;
  const Type* right;
};

[[noreturn]] void fail_at(const Place& place, std::string what) {
  what += " at " + simt::SourceLine{place.file, static_cast<int>(place.line)}.text();
  simt::fail(std::move(what));
}

}  // namespace

extern "C" {
// A GPU clamps shift counts and saturates conversions; x86 does neither.
void __ubsan_handle_shift_out_of_bounds_abort(const Operands* data, std::uintptr_t,
                                              std::uintptr_t count) {
  fail_at(data->place,
          fmt::format("shift of {} by {}", data->left->name, static_cast<std::int64_t>(count)));
}
void __ubsan_handle_float_cast_overflow_abort(const Operands* data, std::uintptr_t) {
  fail_at(data->place,
          fmt::format("{} value out of range of {}", data->left->name, data->right->name));
}
void __ubsan_handle_divrem_overflow_abort(const Operands* data, std::uintptr_t, std::uintptr_t) {
  fail_at(data->place, "integer division by zero or overflow");
}
void __ubsan_handle_out_of_bounds_abort(const OutOfBounds* data, std::uintptr_t index) {
  fail_at(data->place, fmt::format("index {} is out of bounds for {}",
                                   static_cast<std::int64_t>(index), data->array->name));
}
void __ubsan_handle_type_mismatch_v1_abort(const Mismatch* data, std::uintptr_t address) {
  fail_at(data->place,
          fmt::format("misaligned access: address {:#x} for {} needs {}-byte alignment", address,
                      data->type->name, 1 << data->log_alignment));
}
}
