#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <zlib.h>

#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/sampler.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;
using data_test::refusal;
using data_test::sentence;

namespace {

/// A line of 64 times `value`, and the digit.
std::string line(int value, int digit) {
  std::string text;
  for (int i = 0; i < 64; ++i) text += std::to_string(value) + ",";
  return text + std::to_string(digit);
}

std::string packed(std::string const& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string file(plain.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(file.data());
  stream.avail_out = static_cast<uInt>(file.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  file.resize(file.size() - stream.avail_out);
  deflateEnd(&stream);
  return file;
}

LabelledImages parse(std::string_view text) {
  return DigitsCsvReader{"some.csv"}.read({reinterpret_cast<std::uint8_t const*>(text.data()), text.size()});
}

}  // namespace

TEST_CASE("digits of 8 x 8 are read, plain and packed, with and without a last line break") {
  std::string const two = line(0, 3) + "\n" + line(16, 9), windows = line(0, 3) + "\r\n" + line(16, 9) + "\r\n";
  for (std::string const& text : {two, two + "\n", windows, packed(two), packed(two + "\n")}) {
    LabelledImages const read = parse(text);
    CHECK(read.rows == 8);
    CHECK(read.columns == 8);
    CHECK(read.white == 16);
    CHECK(read.labels == std::vector<std::uint8_t>{3, 9});
    REQUIRE(read.pixels.size() == 128);
    CHECK(read.pixels.front() == 0);
    CHECK(read.pixels.back() == 16);
  }
}

TEST_CASE("more digits than fit into a piece of the packed file") {
  std::string text;
  for (int i = 0; i < 1797; ++i) text += line(i % 17, i % 10) + "\n";
  LabelledImages const read = parse(packed(text));
  REQUIRE(read.size() == 1797);
  CHECK(read.labels[1796] == 6);
  CHECK(read.pixels[64 * 1796] == 1796 % 17);
}

TEST_CASE("a file of digits that is not one is refused with its line") {
  std::string const good = line(1, 2) + "\n";
  auto const told = [&](std::string const& text, std::string const& part) {
    INFO(sentence([&] { parse(text); }));
    CHECK(refusal([&] { parse(text); }) == "fulgurite.data.digits_csv");
    CHECK(sentence([&] { parse(text); }).find("some.csv: " + part) != std::string::npos);
  };
  told("", "line 1 is missing");
  told(good + line(17, 2), "line 2 has no number from 0 to 16 in column 1");
  told(good + line(1, 10), "line 2 has no number from 0 to 9 in column 65");
  told(good + line(-1, 2), "line 2 has no number");
  told(good + good.substr(2), "line 2 has no number from 0 to 9 in column 65");
  told(good + "\n" + good, "line 2 has no number from 0 to 16 in column 1");
  told(good + line(1, 2) + ",3\n", "line 2 has text after column 65");
  told(std::string(1000, '1'), "line 1 has more than 400 characters");
  CHECK(refusal([&] { parse(packed(good).substr(0, 20)); }) == "fulgurite.data.gzip");
}

TEST_CASE("no bytes make the reader of digits do more than refuse") {
  std::string const good = line(3, 4) + "\n" + line(5, 6) + "\n", small = packed(good);
  Random random{7};
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 ? small : good;
    for (std::size_t hits = 1 + random.below(4); hits > 0; --hits)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    text.resize(random.below(3) == 0 ? random.below(text.size()) : text.size());
    std::size_t read = 0;
    refusal([&] { read = parse(text).size(); });
    if (read > 2) FAIL(text);
  }
}

TEST_CASE("a folder's file of digits is found") {
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite_digits_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  CHECK_FALSE(find_digits_csv(folder).has_value());
  std::ofstream(folder / "digits.csv.gz", std::ios::binary) << packed(line(2, 7));
  REQUIRE(find_digits_csv(folder) == folder / "digits.csv.gz");
  CHECK(read_digits_csv(*find_digits_csv(folder)).labels == std::vector<std::uint8_t>{7});
  std::filesystem::remove_all(folder);
}
