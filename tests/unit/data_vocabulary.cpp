#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include <fulgurite/data/file.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;

TEST_CASE("text goes to numbers and back") {
  std::string const text = "naïve → 日本 \xF0\x9F\x8C\xA9\n";
  Vocabulary const vocabulary{text};
  CHECK(vocabulary.size() == 11);
  auto const numbers = vocabulary.encode(text);
  CHECK(numbers.size() == 11 + 2);  // the blank comes three times
  CHECK(vocabulary.decode(numbers) == text);
  CHECK(vocabulary.encode("").empty());
}

TEST_CASE("numbers follow the characters, not the order they came in") {
  CHECK(Vocabulary{"cab"}.encode("abc") == std::vector<std::int64_t>{0, 1, 2});
  Vocabulary const vocabulary{"hello world"}, again{vocabulary.characters()};
  CHECK(again.encode("hello world") == vocabulary.encode("hello world"));
}

TEST_CASE("what the vocabulary does not know is refused, and where") {
  Vocabulary const vocabulary{"abc"};
  CHECK(data_test::refusal([&] { vocabulary.encode("abcd"); }) == "fulgurite.data.unknown_character");
  CHECK(data_test::sentence([&] { vocabulary.encode("ab日"); }).find("\"日\" at byte 2") != std::string::npos);
  for (std::int64_t const number : {std::int64_t{-1}, std::int64_t{3}})
    CHECK(data_test::refusal([&] { vocabulary.decode({&number, 1}); }) == "fulgurite.data.unknown_number");
}

TEST_CASE("what is not UTF-8 is refused at its byte, at any length") {
  for (std::string const bad :
       {"ab\xff", "ab\x80", "ab\xc3", "ab\xe2\x86", "ab\xf0\x9f\x8c", "ab\xc3(", "ab\xf5\x80\x80\x80", "ab\xc0\x80",
        "ab\xe0\x80\x80", "ab\xed\xa0\x80", "ab\xf0\x80\x80\x80", "ab\xf4\x90\x80\x80"}) {
    CHECK(data_test::refusal([&] { Vocabulary{bad}; }) == "fulgurite.data.utf8");
    CHECK(data_test::sentence([&] { Vocabulary(bad, "notes.txt"); }).find("notes.txt: at byte 2 of ") !=
          std::string::npos);
  }
}
