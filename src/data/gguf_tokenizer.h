#pragma once

#include <memory>

#include "core/gguf.h"
#include "data/tokenizer.h"

namespace flywheel {

// The tokenizer that a GGUF file carries: byte-level BPE ("gpt2", with the rules of GPT-2, SmolLM2,
// Qwen2 and 3 or Llama 3) or SentencePiece with scores ("llama"). Error Data names the file, the
// key and what is supported. It is a tokenizer.json's from here on: save() writes one.
std::unique_ptr<Tokenizer> read_gguf_tokenizer(const Gguf& file);

// Whether the token that begins a text belongs before every prompt: add_bos_token, or what
// llama.cpp does where that is absent.
bool gguf_begins_every_text(const Gguf& file);

}  // namespace flywheel
