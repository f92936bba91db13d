#include <cstdio>
#include <vector>

#include "data/tokenizer.h"
#include "support/catch.h"
#include "unit/data_tokenizer_helpers.h"

using namespace flywheel;
using test::encode;
using test::Ids;

namespace {

struct Vector {
  const char* text;
  Ids qwen3;
  Ids gpt2;
};

// Made with the reference library and the real vocabularies.
const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {
      {"Hello world", {9707, 1879}, {15496, 995}},
      {" Hello world", {21927, 1879}, {18435, 995}},
      {"I'm I'M can'T DON'T",
       {40, 2776, 358, 27603, 646, 17323, 44273, 17323},
       {40, 1101, 314, 6, 44, 460, 6, 51, 23917, 6, 51}},
      {"in 2024, 3.14",
       {258, 220, 17, 15, 17, 19, 11, 220, 18, 13, 16, 19},
       {259, 48609, 11, 513, 13, 1415}},
      {"a  b   c", {64, 220, 293, 256, 272}, {64, 220, 275, 220, 220, 269}},
      {"x\n\n  y", {87, 271, 220, 379}, {87, 628, 220, 331}},
      {"trailing  ", {376, 14277, 256}, {9535, 4386, 220, 220}},
      {"\tint x = 10;\r\n\r\nreturn;",
       {2084, 856, 284, 220, 16, 15, 1926, 689, 26},
       {197, 600, 2124, 796, 838, 26, 201, 198, 201, 198, 7783, 26}},
      {"cafe\u0301 caf\u00e9", {924, 58858, 51950}, {66, 8635, 136, 223, 40304}},
      {"<|endoftext|>hi<|im_end|>",
       {151643, 6023, 151645},
       {50256, 5303, 27, 91, 320, 62, 437, 91, 29}},
      {"日本語テスト 1２³",
       {101059, 102819, 140592, 220, 16, 24918, 43201},
       {33768, 98, 17312, 105, 45739, 252, 24336, 43302, 352, 171, 120, 240, 126, 111}},
      {"😀👍🏽", {141334, 144349, 145375}, {47249, 222, 41840, 235, 8582, 237, 121}},
      {"foo(bar)!!!\nbaz",
       {7975, 54630, 8, 79295, 42573},
       {21943, 7, 5657, 8, 10185, 198, 65, 1031}},
      {"a\u00a0b\u3000c", {64, 4102, 65, 22441, 66}, {64, 1849, 65, 5099, 222, 66}},
      {"don\u2019t", {15007, 1405}, {9099, 447, 247, 83}},
      {"caf\u00e9<|im_start|>e\u0301", {924, 58858, 151644, 963}, {}},
      {"\u212b", {144044}, {}},
      {"a\r\n b", {64, 319, 293}, {}},
      {"a \n", {64, 715}, {}},
      {"\n \n", {26809}, {}},
      {"<think>\n\n</think>\n\nok",
       {151667, 271, 151668, 271, 562},
       {27, 14925, 29, 198, 198, 3556, 14925, 29, 198, 198, 482}},
  };
  return all;
}

std::unique_ptr<Tokenizer> load_real(const char* name) {
  const auto path = test::real_data(std::string("tokenizers/") + name);
  if (!path) {
    std::printf("skipped: no tokenizers/%s among the real data\n", name);
    return nullptr;
  }
  return Tokenizer::load(path->string());
}

}  // namespace

TEST_CASE("GPT-2's vocabulary gives the reference library's ids") {
  const auto tokenizer = load_real("gpt2");
  if (!tokenizer) return;
  CHECK(tokenizer->vocab_size() == 50257);
  CHECK(tokenizer->end_of_document() == 50256);
  for (const Vector& vector : vectors()) {
    if (vector.gpt2.empty()) continue;
    CAPTURE(vector.text);
    CHECK(encode(*tokenizer, vector.text) == vector.gpt2);
    CHECK(tokenizer->decode(vector.gpt2) == vector.text);
  }
}

TEST_CASE("Qwen3's tokenizer.json gives the reference library's ids") {
  const auto tokenizer = load_real("qwen3");
  if (!tokenizer) return;
  CHECK(tokenizer->vocab_size() == 151669);
  CHECK(tokenizer->end_of_document() == 151643);
  for (const Vector& vector : vectors()) {
    CAPTURE(vector.text);
    CHECK(encode(*tokenizer, vector.text) == vector.qwen3);
  }
}
