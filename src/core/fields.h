#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace flywheel {

// How config structs are read, written, overridden, printed and documented.
//
// A struct lists its fields once:
//
//   struct ScheduleConfig {
//     std::int64_t warmup_steps = 100;
//     template <class Self, class Visitor>
//     static void visit_fields(Self& self, Visitor& visit) {
//       visit("warmup_steps", self.warmup_steps, "steps of linear warmup from 0");
//     }
//   };
//
// `Self` is the struct or its const form. A field is a bool, std::int64_t, std::uint64_t, double,
// std::string, an enum with names, a struct with visit_fields, or a std::vector or std::optional of
// these. An enum's names are found by argument-dependent lookup:
//
//   constexpr auto enum_names(Decay) {
//     return std::array{EnumName{"cosine", Decay::Cosine}, EnumName{"linear", Decay::Linear}};
//   }
//
// core/json_fields.h has the visitors.
template <class Enum>
struct EnumName {
  std::string_view name;
  Enum value;
};
template <class Enum>
EnumName(const char*, Enum) -> EnumName<Enum>;

template <class Enum>
constexpr std::string_view name_of_enum(Enum value) {
  for (const auto& entry : enum_names(value)) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

}  // namespace flywheel
