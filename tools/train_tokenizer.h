#pragma once

namespace flywheel {

// `tokenize train`; argv[0] is "train".
int train_tokenizer(int argc, char** argv);

}  // namespace flywheel
