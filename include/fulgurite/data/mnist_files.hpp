#pragma once
// Finds and reads the four files of MNIST (or another set of its kind, such as Fashion-MNIST).

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

// Reads MNIST's IDX format: a magic number, lengths (32 bits, big endian), then bytes. Whether the file is compressed
// by gzip is seen from its content.

/// An array of unsigned bytes in which the last dimension varies fastest.
struct Idx {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;
};

/// Reads one IDX file from memory. Any bytes are safe input: the lengths in the header are compared with the bytes that
/// are there before memory is allocated. Offsets in errors count unpacked bytes, but those of fulgurite.data.gzip count
/// compressed ones.
class IdxReader {
 public:
  explicit IdxReader(std::string name) : name_(std::move(name)) {}

  /// `dimensions` is what the magic number must promise: 3 for images, 1 for labels.
  Idx read(std::span<std::uint8_t const> file, std::size_t dimensions) const;

 private:
  struct Plain {
    std::span<std::uint8_t const> rest;

    std::size_t read(std::span<std::uint8_t> into);
  };

  /// Fills as much of the bytes as there is left, and says how much that was.
  using Source = FunctionRef<std::size_t(std::span<std::uint8_t>)>;

  /// `most` is the largest number of values that the source can contain.
  Idx parse(Source read, std::size_t most, std::size_t dimensions) const;

  std::uint32_t number(Source read, std::size_t offset) const;

  [[noreturn]] void refuse(std::string_view identifier, std::string const& sentence) const;

  std::string name_;
};

/// Reads a file: `read_idx("train-images-idx3-ubyte.gz", 3)`. Errors: fulgurite.data.file, .gzip, .idx_magic,
/// .idx_shape or .idx_length; they name the file, the byte, and what was expected and found there.
Idx read_idx(std::filesystem::path const& file, std::size_t dimensions);

/// Images and what they show. The pixels are grey values from 0 (black) to `white`, image after image, row by row.
struct LabelledImages {
  std::size_t rows = 28, columns = 28;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  std::uint8_t white = 255;

  std::size_t size() const { return labels.size(); }
};

/// The two files of one part: images, and the digit that each shows.
struct MnistFiles {
  std::filesystem::path images, labels;
};

/// Finds the files of one part, "train" or "t10k", in a folder, under the usual names: with - or . before idx, with or
/// without .gz. Nothing where neither file is there. Error [fulgurite.data.mnist_missing] where only one of them is.
std::optional<MnistFiles> mnist_files(std::filesystem::path const& folder, std::string const& part);

/// Reads images and labels. Errors: those of `read_idx`; fulgurite.data.mnist_shape where there are no images or they
/// are not of 28 x 28; fulgurite.data.mnist_labels unless there is one label from 0 to 9 for each image.
LabelledImages read_mnist(MnistFiles const& files);

/// The first folder that has images with labels, of either part. Whether the files are sound is seen when they are
/// read: a damaged set is then an Error, and no reason to silently take another one.
std::optional<std::filesystem::path> find_mnist(std::span<std::filesystem::path const> folders);

// Reads small grey images of digits from text. Each line has 64 values from 0 to 16, an image of 8 x 8 row by row, and
// the digit. scikit-learn's wheel carries 1,797 digits that people wrote in this form, as
// sklearn/datasets/data/digits.csv.gz.

/// Reads such a file from memory, plain or compressed by gzip. Any bytes are safe input: a line that is not sound is an
/// Error.
class DigitsCsvReader {
 public:
  explicit DigitsCsvReader(std::string name) : name_(std::move(name)) {}

  LabelledImages read(std::span<std::uint8_t const> file) const;

 private:
  static constexpr std::size_t side = 8, values = side * side, longest = 400;
  static constexpr std::uint8_t white = 16;

  void add(std::string_view line, std::size_t number, LabelledImages& set) const;

  [[noreturn]] void refuse(std::size_t line, std::string const& what) const;

  std::string name_;
};

/// Reads such a file: `read_digits_csv("data/digits/digits.csv.gz")`. Errors: fulgurite.data.file, .gzip or
/// .digits_csv, with the line.
LabelledImages read_digits_csv(std::filesystem::path const& file);

/// The path of digits.csv.gz or digits.csv in a folder; nothing where neither is there.
std::optional<std::filesystem::path> find_digits_csv(std::filesystem::path const& folder);

// The ten digits as strokes of a pen, in the ways people write them.

/// A point, x to the right and y down. A digit fills the square from (0, 0) to (1, 1).
struct Point {
  double x = 0, y = 0;
};
/// A line drawn without lifting the pen; a digit is one or several of them.
using Stroke = std::vector<Point>;
/// The lines of one digit, in the order in which a hand would draw them.
using Glyph = std::vector<Stroke>;

/// A part of an ellipse. Angles are degrees, 0 to the right, growing clockwise, so that 90 is down.
struct Arc {
  Point center;
  double rx, ry, from, to;
};

/// Draws one line without lifting the pen: `Pen{}.to({0.5, 0}).along({{0.5, 0.5}, 0.3, 0.5, 0, 90})`.
class Pen {
 public:
  Pen& to(Point point);
  Pen& along(Arc const& arc);
  operator Stroke() const { return stroke_; }

 private:
  Stroke stroke_;
};

/// All of them anew; `glyphs` keeps them.
std::vector<std::vector<Glyph>> make_glyphs();

/// The ways to write each digit, several where people differ: `glyphs()[4][1]` is the second way to write a four.
std::vector<std::vector<Glyph>> const& glyphs();

// Draws digits as with a pen, for programs that have no files of real ones: 28 x 28 pixels, anti-aliased, each of them
// different, and the same for the same seed.

/// Pixels on a side of a drawn digit.
inline constexpr std::size_t digit_side = 28;
/// Grey values row by row, 0 (black) to 255, of a picture of 28 x 28.
using DigitImage = std::array<std::uint8_t, digit_side * digit_side>;

/// One handwriting, drawn at random: it turns and slants a digit, makes it wide or narrow, small or large, moves it,
/// lets lines waver, and presses more or less.
class Handwriting {
 public:
  explicit Handwriting(Random& random);

  double radius() const { return radius_; }
  double ink() const { return ink_; }

  Point operator()(Point p) const;

 private:
  double xx_, xy_, yx_, yy_, waver_, radius_, ink_;
  Point middle_, phase_;
};

/// The distance from `p` to the segment from `a` to `b`.
double distance(Point p, Point a, Point b);

/// Draws a digit from 0 to 9, white on black, in a handwriting that is drawn from `random`.
DigitImage draw_digit(std::size_t digit, Random& random);

/// Draws `count` digits, equally many of each. Image i depends on `seed` and i alone.
LabelledImages draw_digits(std::size_t count, std::uint64_t seed);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/mnist_files.ipp>
#endif
