#pragma once

#include <cxxopts.hpp>
#include <string>

#include "eval/evaluation.h"

namespace flywheel {

// The flags of `evaluate`, and those of them that say what to evaluate.
cxxopts::Options evaluate_flags();
EvaluationOptions evaluation_options(const cxxopts::ParseResult& args);
// "" where it is not given.
std::string text_flag(const cxxopts::ParseResult& args, const char* name);

}  // namespace flywheel
