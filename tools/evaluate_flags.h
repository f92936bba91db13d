#pragma once

#include <cxxopts.hpp>
#include <string>

#include "eval/evaluation.h"
#include "tools/model_scorer.h"

namespace flywheel {

// What every program that evaluates takes: the model, the data, the documents, speed.
void add_evaluation_flags(cxxopts::Options& options);
EvaluationOptions evaluation_options(const cxxopts::ParseResult& args);
ScoringOptions scoring_options(const cxxopts::ParseResult& args);
// "" where it is not given.
std::string text_flag(const cxxopts::ParseResult& args, const char* name);

}  // namespace flywheel
