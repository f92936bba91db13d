// export: writes a model as a folder that transformers opens.

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <string>

#include "core/error.h"
#include "infer/export_model.h"
#include "model/huggingface_config.h"
#include "tools/model_flag.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

cxxopts::Options make_options() {
  cxxopts::Options options("export",
                           "Writes a model, of whatever kind, as a folder that transformers opens: "
                           "config.json, safetensors files, tokenizer.json.");
  options.custom_help("--model PATH --output FOLDER [OPTION...]");
  auto option = options.add_options();
  option("model", kModelFlagHelp, cxxopts::value<std::string>(), "PATH");
  option("output", "the folder to write", cxxopts::value<std::string>(), "FOLDER");
  option("dtype", "of the weights: bf16, f16 or f32",
         cxxopts::value<std::string>()->default_value("bf16"), "NAME");
  option("shard-mib", "largest size of a safetensors file, in MiB",
         cxxopts::value<std::int64_t>()->default_value("5120"), "N");
  option("help", "print this");
  return options;
}

StoredType parse_dtype(const std::string& name) {
  if (name == "bf16") return StoredType::BF16;
  if (name == "f16") return StoredType::F16;
  require(name == "f32", ErrorKind::Config, "--dtype {}: expected bf16, f16 or f32", name);
  return StoredType::F32;
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}\n", options.help());
    return 0;
  }
  require(args.count("model") != 0 && args.count("output") != 0, ErrorKind::Config,
          "--model and --output are needed; see export --help");
  const OpenedModel model = open_model(args["model"].as<std::string>());
  const auto folder = args["output"].as<std::string>();
  const auto mebibytes = args["shard-mib"].as<std::int64_t>();
  require(mebibytes >= 1 && mebibytes <= (1 << 30), ErrorKind::Config,
          "--shard-mib {}: expected 1 or more", mebibytes);
  export_model(
      model, folder,
      {.type = parse_dtype(args["dtype"].as<std::string>()), .shard_bytes = mebibytes << 20});
  const std::string type = huggingface_model_type(model.config);
  fmt::print("{}: {} as {}\n", folder, model.kind, type);
  if (type == "flywheel") {
    fmt::print("transformers has no class that computes this model; Flywheel's programs open it\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("export", argc, argv, run);
}
