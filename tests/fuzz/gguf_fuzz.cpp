// Any bytes are either a GGUF file, whose config, tokenizer and weights can then be read, or an
// error that is the file's.

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/gguf.h"
#include "data/gguf_tokenizer.h"
#include "model/gguf_model.h"

namespace {

using namespace flywheel;

template <class Action>
void may_be_refused(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Data && error.kind() != ErrorKind::Config) throw;
  }
}

void read_weights(const Gguf& file) {
  const ModelConfig config = gguf_config(file);
  WeightsSource source("input");
  add_gguf_tensors(file, config, source);
  for (const auto& [name, tensor] : source.tensors()) {
    if (tensor.type == StoredType::Unsupported) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    source.read_rows(tensor, 0, values);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  may_be_refused([&] {
    const Gguf file(std::as_bytes(std::span(data, size)), "input");
    may_be_refused([&] { read_weights(file); });
    may_be_refused([&] {
      const auto tokenizer = read_gguf_tokenizer(file);
      std::vector<std::int32_t> ids;
      tokenizer->encode("The first th\u00e9\n", ids);
      tokenizer->decode(ids);
    });
  });
  return 0;
}
