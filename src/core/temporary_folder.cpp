#include "core/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace flywheel {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "flywheel_XXXXXX").string();
  require(mkdtemp(name.data()) != nullptr, ErrorKind::Io, "{}: cannot be made: {}", name,
          std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace flywheel
