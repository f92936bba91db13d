#include "core/error.h"

namespace flywheel {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Config:
      return "config";
    case ErrorKind::Data:
      return "data";
    case ErrorKind::Shape:
      return "shape";
    case ErrorKind::Io:
      return "io";
    case ErrorKind::Device:
      return "device";
    case ErrorKind::Comm:
      return "communication";
    case ErrorKind::Internal:
      return "internal";
  }
  return "unknown";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Config:
      return 2;
    case ErrorKind::Data:
      return 3;
    case ErrorKind::Io:
      return 4;
    case ErrorKind::Device:
      return 5;
    case ErrorKind::Comm:
      return 6;
    case ErrorKind::Shape:
    case ErrorKind::Internal:
      return 70;
  }
  return 70;
}

}  // namespace flywheel
