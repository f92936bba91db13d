#include "data/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

namespace flywheel {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ScoredPiece::Kind;

constexpr std::string_view kSpace = "\u2581";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

Json added_token(const ScoredPiece& piece, std::size_t id) {
  return {{"id", id},
          {"content", piece.text},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", piece.kind != Kind::UserDefined}};
}

// Every way to make a piece of two others, best piece first.
Json merges_of(const std::vector<ScoredPiece>& pieces) {
  std::unordered_set<std::string_view> parts;
  std::vector<std::size_t> order;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].kind != Kind::Normal) continue;
    parts.insert(pieces[id].text);
    order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].score > pieces[b].score; });
  Json merges = Json::array();
  for (const std::size_t id : order) {
    const std::string_view text = pieces[id].text;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view left = text.substr(0, cut);
      const std::string_view right = text.substr(cut);
      if (is_continuation(right.front()) || !parts.contains(left) || !parts.contains(right)) {
        continue;
      }
      merges.push_back({left, right});
    }
  }
  return merges;
}

Json normalizer(bool space_prefix) {
  Json steps = Json::array();
  if (space_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json decoder(bool space_prefix) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (space_prefix) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Json post_processor(const std::string& begin, std::int32_t id) {
  const auto special = [&](int type) {
    return Json{{"SpecialToken", {{"id", begin}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", {special(0), text("A", 0)}},
      {"pair", {special(0), text("A", 0), special(1), text("B", 1)}},
      {"special_tokens",
       {{begin, {{"id", begin}, {"ids", Json::array({id})}, {"tokens", Json::array({begin})}}}}}};
}

}  // namespace

std::string begin_processor_json(const std::string& begin, std::int32_t id) {
  return post_processor(begin, id).dump();
}

std::string byte_piece(unsigned char byte) {
  return fmt::format("<0x{:02X}>", byte);
}

std::string bytes_of_piece(std::string_view piece) {
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>') {
    const std::string digits(piece.substr(3, 2));
    std::size_t used = 0;
    if (std::isxdigit(static_cast<unsigned char>(digits[0])) != 0) {
      const int value = std::stoi(digits, &used, 16);
      if (used == 2) return {static_cast<char>(value)};
    }
  }
  std::string bytes;
  while (!piece.empty()) {
    const std::size_t at = std::min(piece.find(kSpace), piece.size());
    bytes += piece.substr(0, at);
    if (at < piece.size()) bytes += ' ';
    piece.remove_prefix(std::min(piece.size(), at + kSpace.size()));
  }
  return bytes;
}

std::string sentencepiece_json(const std::vector<ScoredPiece>& pieces, bool space_prefix,
                               std::int32_t begin) {
  Json added = Json::array();
  Json vocabulary = Json::object();
  Json unknown = nullptr;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const ScoredPiece& piece = pieces[id];
    vocabulary.push_back({piece.text, id});
    if (piece.kind == Kind::Unknown) unknown = piece.text;
    if (piece.kind == Kind::Unknown || piece.kind == Kind::Control ||
        piece.kind == Kind::UserDefined) {
      added.push_back(added_token(piece, id));
    }
  }
  const Json processor = begin < 0
                             ? Json(nullptr)
                             : post_processor(pieces[static_cast<std::size_t>(begin)].text, begin);
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", normalizer(space_prefix)},
                     {"pre_tokenizer", nullptr},
                     {"post_processor", processor},
                     {"decoder", decoder(space_prefix)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", unknown},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", true},
                       {"byte_fallback", true},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", merges_of(pieces)}}}};
  return json.dump(1, ' ', false, Json::error_handler_t::strict) + "\n";
}

}  // namespace flywheel
