#pragma once
// Finds and reads the four files of MNIST, or of another dataset in its format, such as Fashion-MNIST.

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
#include <fulgurite/core/types.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

// Reads MNIST's IDX format: a magic number, lengths (32 bits, big endian), then bytes. Gzip compression is detected
// from the content.

/// An array of unsigned bytes in which the last dimension varies fastest.
struct Idx {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;
};

/// Reads one IDX file from memory. Any bytes are safe input: the lengths in the header are compared with the available
/// bytes before memory is allocated. Offsets in errors count unpacked bytes; those of fulgurite.data.gzip count
/// compressed ones.
class IdxReader {
 public:
  explicit IdxReader(std::string name) : name_(std::move(name)) {}

  /// `dimensions` is the number that the magic number must have: 3 for images, 1 for labels.
  Idx read(std::span<std::uint8_t const> file, std::size_t dimensions) const;

 private:
  struct Plain {
    std::span<std::uint8_t const> rest;

    std::size_t read(std::span<std::uint8_t> into);
  };

  /// Fills as many of the bytes as remain in the source, and returns their number.
  using Source = FunctionRef<std::size_t(std::span<std::uint8_t>)>;

  /// `most` is the largest number of values that the source can contain.
  Idx parse(Source read, std::size_t most, std::size_t dimensions) const;

  std::uint32_t number(Source read, std::size_t offset) const;

  [[noreturn]] void refuse(std::string_view identifier, std::string const& sentence) const;

  std::string name_;
};

/// Reads a file: `read_idx("train-images-idx3-ubyte.gz", 3)`. Errors: fulgurite.data.file, .gzip, .idx_magic,
/// .idx_shape or .idx_length; they name the file, the byte, and the expected and the actual value.
Idx read_idx(std::filesystem::path const& file, std::size_t dimensions);

/// Images and their labels. The pixels are grey values from 0 (black) to `white`, image after image, row by row.
struct LabelledImages {
  std::size_t rows = 28, columns = 28;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  std::uint8_t white = 255;

  std::size_t size() const { return labels.size(); }
};

/// The two files of one part: the images, and the digit on each of them.
struct MnistFiles {
  std::filesystem::path images, labels;
};

/// Finds the files of one part, "train" or "t10k", in a folder, under the usual names: with - or . before idx, with or
/// without .gz. Returns nothing if there is none, and throws [fulgurite.data.mnist_missing] if there is only one.
std::optional<MnistFiles> mnist_files(std::filesystem::path const& folder, std::string const& part);

/// Reads images and labels. Errors: those of `read_idx`; fulgurite.data.mnist_shape if there are no images or they are
/// not 28 x 28; fulgurite.data.mnist_labels unless there is one label from 0 to 9 for each image.
LabelledImages read_mnist(MnistFiles const& files);

/// The first folder that has images with labels, of either part. The files are checked only when they are read: a
/// damaged dataset is then an Error, and another one is not silently used in its place.
std::optional<std::filesystem::path> find_mnist(std::span<std::filesystem::path const> folders);

// Reads small grey images of digits from text. Each line has 64 values from 0 to 16, an image of 8 x 8 row by row, and
// the digit. scikit-learn's wheel contains 1,797 handwritten digits in this form, as
// sklearn/datasets/data/digits.csv.gz.

/// Reads a digits CSV file from memory, plain or compressed by gzip. Any bytes are safe: a malformed line is an Error.
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

/// Reads a digits CSV file: `read_digits_csv("data/digits/digits.csv.gz")`. Errors: fulgurite.data.file, .gzip or
/// .digits_csv, with the line.
LabelledImages read_digits_csv(std::filesystem::path const& file);

/// The path of digits.csv.gz or digits.csv in a folder; nothing if neither exists.
std::optional<std::filesystem::path> find_digits_csv(std::filesystem::path const& folder);

// The ten digits as strokes of a pen, in the ways people write them.

/// A point, x to the right and y down. A digit fills the square from (0, 0) to (1, 1).
struct Point {
  double x = 0, y = 0;
};
/// A line drawn without lifting the pen; a digit is one or several of them.
using Stroke = std::vector<Point>;
/// The lines of one digit, in the order in which a person draws them.
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

/// The ways to write each digit, several where people differ: `glyphs()[4][1]` is the second way to write a four.
std::vector<std::vector<Glyph>> const& glyphs();

// Draws digits with a pen, for programs that have no files of real ones: 28 x 28 pixels, anti-aliased, each of them
// different, and reproducible by seed.

/// Pixels on a side of a drawn digit.
inline constexpr std::size_t digit_side = 28;
/// A picture of 28 x 28 pixels, row by row; grey values from 0 (black) to 255.
using DigitImage = std::array<std::uint8_t, digit_side * digit_side>;

/// One random handwriting: it rotates, slants, scales, stretches and moves a digit, makes lines waver, and varies the
/// pressure of the pen.
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

/// Draws a digit from 0 to 9, white on black, in a random handwriting.
DigitImage draw_digit(std::size_t digit, Random& random);

/// Draws `count` digits, equally many of each. Image i depends only on `seed` and i.
LabelledImages draw_digits(std::size_t count, std::uint64_t seed);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/mnist_files.ipp>
#endif
