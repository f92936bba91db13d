#include "eval/python_text.h"
#include "eval/tasks/documents.h"
#include "eval/tasks/tasks.h"

namespace flywheel {
namespace {

using python::replace;

bool is_title(const std::string& line) {
  const std::string joined = replace(replace(line, "= = =", "==="), "= =", "==");
  const std::string_view text = python::strip(joined);
  return text.starts_with("= ") && text.ends_with(" =");
}

// A title starts a page.
std::vector<std::string> pages_of(const std::string& text) {
  std::vector<std::string> pages;
  std::string page;
  const auto finish = [&] {
    if (!python::strip(page).empty()) pages.push_back(page);
  };
  bool first = true;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (is_title(line)) {
      finish();
      page = line;
    } else {
      page += (first ? "" : "\n") + line;
    }
    first = false;
  }
  finish();
  return pages;
}

// The text between an opener and the next closer loses the whitespace at its ends.
std::string strip_inside(const std::string& text, char opener, char closer) {
  std::string result;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t open = text.find(opener, begin);
    const std::size_t close = open == std::string::npos ? open : text.find(closer, open + 1);
    if (close == std::string::npos) return result.append(text, begin);
    result.append(text, begin, open + 1 - begin);
    result += python::strip(std::string_view(text).substr(open + 1, close - open - 1));
    result += closer;
    begin = close + 1;
  }
}

std::string detokenize(std::string text) {
  const auto all = [&text](std::initializer_list<std::array<const char*, 2>> pairs) {
    for (const auto& [from, to] : pairs) text = replace(text, from, to);
  };
  all({{"s '", "s'"}, {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}});
  all({{" : ", ": "}, {" ; ", "; "}, {" . ", ". "}, {" ! ", "! "}, {" ? ", "? "}, {" , ", ", "}});
  for (const auto& [opener, closer] : {std::pair{'(', ')'}, {'[', ']'}, {'{', '}'}}) {
    text = strip_inside(text, opener, closer);
  }
  for (const char quote : {'"', '\''}) text = strip_inside(text, quote, quote);
  all({{"= = = =", "===="},
       {"= = =", "==="},
       {"= =", "=="},
       {" \u00B0 ", "\u00B0"},
       {" \n", "\n"},
       {"\n ", "\n"},
       {" N ", " 1 "},
       {" 's", "'s"}});
  return text;
}

std::vector<Item> read(const std::filesystem::path& path) {
  std::vector<Item> items;
  for (const std::string& page : pages_of(read_utf8_file(path))) {
    const std::string text = detokenize(page);
    items.push_back({.document = dump(Json{{"page", page}}),
                     .queries = {},
                     .choices = {text},
                     .target = text,
                     .words = python::count_pieces(page),
                     .bytes = std::ssize(page)});
  }
  return items;
}

}  // namespace

Task wikitext_task() {
  return {.name = "wikitext",
          .alias = "wikitext",
          .version = "2.0",
          .kind = TaskKind::Rolling,
          .metrics = {"word_perplexity", "byte_perplexity", "bits_per_byte"},
          .dataset = "EleutherAI/wikitext_document_level (wikitext-2-raw-v1)",
          .split = "test",
          .evaluated = {.names = {"wikitext2/wiki.test.raw", "wikitext-2-raw/wiki.test.raw"},
                        .source = "wikitext-2-raw-v1.zip of WikiText-2 (Merity et al. 2016)"},
          .examples = {},
          .read = read};
}

}  // namespace flywheel
