#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/sha256.h"
#include "eval/python_random.h"
#include "eval/python_text.h"
#include "eval/statistics.h"
#include "eval/tasks/csv.h"
#include "support/catch.h"

using namespace flywheel;

TEST_CASE("Python's whitespace is stripped and splits", "[evaluate]") {
  CHECK(python::strip(" \t\n a b\u00A0\u2003\u3000\x1c\u0085") == "a b");
  CHECK(python::lstrip("\u200b a") == "\u200b a");  // a zero-width space is none
  CHECK(python::rstrip("a \n ") == "a");
  CHECK(python::strip(" \n ").empty());
  CHECK(python::count_pieces("") == 1);
  CHECK(python::count_pieces(" a  b\n") == 4);
  CHECK(python::count_words(" a  b\n") == 2);
  CHECK(python::count_words(" ") == 0);
}

TEST_CASE("Python's texts are counted in code points", "[evaluate]") {
  CHECK(python::length("sings \u00e9 to a dog.") == 17);
  CHECK(python::length("\U0001F600e\u0301") == 3);
}

TEST_CASE("Python's capitalize, replace and split", "[evaluate]") {
  CHECK(python::capitalize("the Woman") == "The woman");
  CHECK(python::capitalize("\u00DFA\u0130") == "Ssai\u0307");
  CHECK(python::capitalize("\uFB01LE \u00C9\u01C4") == "File \u00E9\u01C6");
  CHECK(python::capitalize("\u01C6ABC") == "\u01C5abc");  // title case is a letter of its own
  CHECK(python::capitalize("").empty());
  CHECK(python::lower_first("\u00C9lan Vital") == "\u00E9lan Vital");
  CHECK(python::replace("a    b", "  ", " ") == "a  b");
  CHECK(python::replace("aaa", "aa", "b") == "ba");
  CHECK(python::split_last("one two  three", ' ').before == "one two ");
  CHECK(python::split_last("one two  three", ' ').after == "three");
  CHECK(python::split_last("one", ' ').before.empty());
}

TEST_CASE("random numbers are CPython's", "[evaluate]") {
  using Numbers = std::vector<std::int64_t>;
  CHECK(PythonRandom(0).uniform() == 0.8444218515250481);
  PythonRandom zero(0);
  Numbers draws;
  for (int i = 0; i < 8; ++i) draws.push_back(static_cast<std::int64_t>(zero.uniform() * 4));
  CHECK(draws == Numbers{3, 3, 1, 1, 2, 1, 3, 1});
  CHECK(PythonRandom(1234).sample(1000, 5) == Numbers{989, 796, 451, 119, 7});
  CHECK(PythonRandom(1234).sample(10, 3) == Numbers{7, 1, 0});
}

TEST_CASE("statistics are the harness's", "[evaluate]") {
  const std::vector<double> lls{-1, -2.5, -0.25, -4};
  CHECK(perplexity(lls) == Approx(6.941375821197036).epsilon(1e-15));
  CHECK(perplexity_stderr(lls, 2000) == Approx(7.580477634519328).epsilon(1e-14));
  CHECK(perplexity_stderr(lls, 100'000) == Approx(7.418221917048942).epsilon(1e-14));
  const std::vector<double> zero_one{1, 0};
  CHECK(mean_stderr(zero_one) == 0.5);
  // Two parts with equal errors s: s / sqrt(2), if n is large.
  const std::vector<double> errors{0.01, 0.01};
  const std::vector<std::int64_t> sizes{1000, 1000};
  CHECK(pooled_stderr(errors, sizes) == Approx(0.01 / std::sqrt(2.0)).epsilon(1e-12));
}

TEST_CASE("SHA-256 is that of its standard", "[evaluate]") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("0").substr(0, 8) == "5feceb66");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("comma-separated records keep what is in quotes", "[evaluate]") {
  using Records = std::vector<std::vector<std::string>>;
  CHECK(parse_csv("a,b\r\nc,\n") == Records{{"a", "b"}, {"c", ""}});
  CHECK(parse_csv("\"x,\n\"\"y\"\"\",2") == Records{{"x,\n\"y\"", "2"}});
  CHECK(parse_csv("\n\na") == Records{{"a"}});
  CHECK(parse_csv("").empty());
  CHECK_THROWS_AS(parse_csv("a,\"b"), Error);
}
