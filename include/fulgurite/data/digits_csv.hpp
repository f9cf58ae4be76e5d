#pragma once
// Reads small grey images of digits from text. Each line has 64 values from 0 to 16, an image of 8 x 8 row by row, and
// the digit. scikit-learn's wheel carries 1,797 digits that people wrote in this form, as
// sklearn/datasets/data/digits.csv.gz.

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/gzip.hpp>
#include <fulgurite/data/mnist_files.hpp>

namespace fulgurite::data {

/// Reads such a file from memory, plain or compressed by gzip. Any bytes are safe input: a line that is not sound is an
/// Error.
class DigitsCsvReader {
 public:
  explicit DigitsCsvReader(std::string name) : name_(std::move(name)) {}

  FULGURITE_BULK LabelledImages read(std::span<std::uint8_t const> file) const {
    LabelledImages set{side, side, {}, {}, white};
    std::string line;
    std::size_t number = 1;
    auto const take = [&](std::span<std::uint8_t const> bytes) {
      for (std::uint8_t const byte : bytes) {
        if (byte == '\n') {
          add(std::exchange(line, {}), number++, set);
        } else if (line.size() < longest) {
          line += static_cast<char>(byte);
        } else {
          refuse(number, "has more than " + std::to_string(longest) + " characters");
        }
      }
    };
    if (is_gzip(file)) {
      Gunzip source{file, name_};
      std::array<std::uint8_t, 1 << 14> part{};
      while (std::size_t const count = source.read(part)) take(std::span(part).first(count));
    } else {
      take(file);
    }
    if (!line.empty()) add(line, number, set);
    if (set.labels.empty()) refuse(1, "is missing");
    return set;
  }

 private:
  static constexpr std::size_t side = 8, values = side * side, longest = 400;
  static constexpr std::uint8_t white = 16;

  FULGURITE_BULK void add(std::string_view line, std::size_t number, LabelledImages& set) const {
    if (line.ends_with('\r')) line.remove_suffix(1);
    for (std::size_t column = 0; column <= values; ++column) {
      unsigned value = 0;
      auto const most = column < values ? white : std::uint8_t{9};
      auto const [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
      if (error != std::errc{} || value > most)
        refuse(number, "has no number from 0 to " + std::to_string(most) + " in column " + std::to_string(column + 1));
      (column < values ? set.pixels : set.labels).push_back(static_cast<std::uint8_t>(value));
      line.remove_prefix(static_cast<std::size_t>(end - line.data()));
      if (column < values && line.starts_with(',')) line.remove_prefix(1);
    }
    if (!line.empty()) refuse(number, "goes on behind column " + std::to_string(values + 1));
  }

  [[noreturn]] void refuse(std::size_t line, std::string const& what) const {
    throw Error("fulgurite.data.digits_csv", name_ + ": line " + std::to_string(line) + " " + what +
                                                 ", expected are 64 values from 0 to 16 and a digit in each line: "
                                                 "this is another file, or a damaged one; fetch it again");
  }

  std::string name_;
};

/// Reads such a file: `read_digits_csv("data/digits/digits.csv.gz")`. Errors: fulgurite.data.file, .gzip or
/// .digits_csv, with the line.
inline LabelledImages read_digits_csv(std::filesystem::path const& file) {
  return DigitsCsvReader{file.string()}.read(read_file(file));
}

/// The path of digits.csv.gz or digits.csv in a folder; nothing where neither is there.
inline std::optional<std::filesystem::path> find_digits_csv(std::filesystem::path const& folder) {
  for (char const* name : {"digits.csv.gz", "digits.csv"})
    if (std::filesystem::is_regular_file(folder / name)) return folder / name;
  return std::nullopt;
}

}  // namespace fulgurite::data
