#pragma once
// Finds and reads the four files of MNIST (or another set of its kind, such as Fashion-MNIST).

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iomanip>
#include <numbers>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/data/file.hpp>
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
  FULGURITE_BULK Idx read(std::span<std::uint8_t const> file, std::size_t dimensions) const {
    if (!is_gzip(file)) {
      Plain source{file};
      std::size_t const header = 4 + 4 * dimensions;
      return parse(Source::to<&Plain::read>(source), file.size() - std::min(file.size(), header), dimensions);
    }
    Gunzip source{file, name_};
    return parse(Source::to<&Gunzip::read>(source), file.size() * largest_gzip_ratio, dimensions);
  }

 private:
  struct Plain {
    std::span<std::uint8_t const> rest;

    FULGURITE_BULK std::size_t read(std::span<std::uint8_t> into) {
      std::size_t const count = std::min(into.size(), rest.size());
      std::copy_n(rest.begin(), count, into.begin());
      rest = rest.subspan(count);
      return count;
    }
  };

  /// Fills as much of the bytes as there is left, and says how much that was.
  using Source = FunctionRef<std::size_t(std::span<std::uint8_t>)>;

  /// `most` is the largest number of values that the source can contain.
  FULGURITE_BULK Idx parse(Source read, std::size_t most, std::size_t dimensions) const {
    std::uint32_t const expected = 0x0800 | static_cast<std::uint32_t>(dimensions), magic = number(read, 0);
    if (magic != expected) {
      std::ostringstream said;
      said << std::hex << std::setfill('0') << "at byte 0 the magic number 0x" << std::setw(8) << expected
           << " (unsigned bytes, " << dimensions << (dimensions == 1 ? " dimension: labels" : " dimensions: images")
           << ") was expected, 0x" << std::setw(8) << magic << " found";
      refuse("fulgurite.data.idx_magic", said.str() + (magic == 0x0801   ? ": this is a file of labels"
                                                       : magic == 0x0803 ? ": this is a file of images"
                                                                         : ": this is not such an IDX file"));
    }
    Idx idx;
    std::size_t const header = 4 + 4 * dimensions;
    std::string shape;
    for (std::size_t i = 0; i < dimensions; ++i) {
      idx.shape.push_back(number(read, 4 + 4 * i));
      (shape += i == 0 ? "" : " x ") += std::to_string(idx.shape.back());
    }
    std::size_t count = 1;
    for (std::size_t const length : idx.shape) {
      if (length != 0 && count > most / length)
        refuse("fulgurite.data.idx_shape", "the header (bytes 4 to " + std::to_string(header - 1) + ") promises " +
                                               shape + " bytes, but the file has room for " + std::to_string(most) +
                                               " at most: it was cut off, or its header is damaged; fetch it again");
      count *= length;
    }
    // The array grows as bytes arrive: a small gzip file may truthfully be able to contain a thousand times its size,
    // and yet contain less.
    std::size_t found = 0;
    for (bool more = true; more && found < count;) {
      idx.values.resize(std::min(count, std::max<std::size_t>(2 * found, 1 << 20)));
      std::size_t const done = read(std::span(idx.values).subspan(found));
      more = found + done == idx.values.size();
      found += done;
    }
    if (found != count)
      refuse("fulgurite.data.idx_length", "the header promises " + shape + " = " + std::to_string(count) +
                                              " bytes from byte " + std::to_string(header) +
                                              " on, but the file ends at byte " + std::to_string(header + found) +
                                              ": it was cut off; fetch it again");
    std::array<std::uint8_t, 1> behind{};
    if (read(behind) != 0)
      refuse("fulgurite.data.idx_length",
             "the header promises " + shape + " bytes, that is an end at byte " + std::to_string(header + count) +
                 ", but more follow: its header is damaged, or it was written twice; fetch it again");
    return idx;
  }

  FULGURITE_BULK std::uint32_t number(Source read, std::size_t offset) const {
    std::array<std::uint8_t, 4> bytes{};
    if (std::size_t const found = read(bytes); found != bytes.size())
      refuse("fulgurite.data.idx_length", "the header needs 4 bytes at byte " + std::to_string(offset) +
                                              ", but the file ends at byte " + std::to_string(offset + found) +
                                              ": it was cut off; fetch it again");
    std::uint32_t value = 0;
    for (std::uint8_t const byte : bytes) value = (value << 8) | byte;
    return value;
  }

  [[noreturn]] void refuse(std::string_view identifier, std::string const& sentence) const {
    throw Error(identifier, name_ + ": " + sentence);
  }

  std::string name_;
};

/// Reads a file: `read_idx("train-images-idx3-ubyte.gz", 3)`. Errors: fulgurite.data.file, .gzip, .idx_magic,
/// .idx_shape or .idx_length; they name the file, the byte, and what was expected and found there.
inline Idx read_idx(std::filesystem::path const& file, std::size_t dimensions) {
  return IdxReader{file.string()}.read(read_file(file), dimensions);
}

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
FULGURITE_COLD std::optional<MnistFiles> mnist_files(std::filesystem::path const& folder, std::string const& part) {
  auto const find = [&](std::string const& kind, std::string const& format) {
    for (char const* separator : {"-", "."})
      for (char const* ending : {"", ".gz"})
        if (auto path = folder / (part + "-" + kind + separator + format + "-ubyte" + ending);
            std::filesystem::is_regular_file(path))
          return path;
    return std::filesystem::path{};
  };
  MnistFiles files{find("images", "idx3"), find("labels", "idx1")};
  if (files.images.empty() && files.labels.empty()) return std::nullopt;
  if (files.images.empty() || files.labels.empty())
    throw Error("fulgurite.data.mnist_missing",
                folder.string() + ": there is " +
                    (files.images.empty() ? files.labels : files.images).filename().string() + ", but not " + part +
                    (files.images.empty() ? "-images-idx3-ubyte" : "-labels-idx1-ubyte") +
                    " (or .gz): put both into the folder");
  return files;
}

/// Reads images and labels. Errors: those of `read_idx`; fulgurite.data.mnist_shape where there are no images or they
/// are not of 28 x 28; fulgurite.data.mnist_labels unless there is one label from 0 to 9 for each image.
FULGURITE_COLD LabelledImages read_mnist(MnistFiles const& files) {
  Idx images = read_idx(files.images, 3), labels = read_idx(files.labels, 1);
  if (images.shape[1] != 28 || images.shape[2] != 28 || images.shape[0] == 0)
    throw Error("fulgurite.data.mnist_shape",
                files.images.string() + ": the header (bytes 4 to 15) says " + std::to_string(images.shape[0]) +
                    " images of " + std::to_string(images.shape[1]) + " x " + std::to_string(images.shape[2]) +
                    ", expected are some of 28 x 28: this is another data set; read it with read_idx");
  if (labels.shape[0] != images.shape[0])
    throw Error("fulgurite.data.mnist_labels",
                files.labels.string() + ": the header (bytes 4 to 7) says " + std::to_string(labels.shape[0]) +
                    " labels, but " + files.images.filename().string() + " has " + std::to_string(images.shape[0]) +
                    " images: the two belong to different sets");
  if (auto const bad = std::ranges::find_if(labels.values, [](std::uint8_t label) { return label > 9; });
      bad != labels.values.end())
    throw Error("fulgurite.data.mnist_labels", files.labels.string() + ": at byte " +
                                                   std::to_string(8 + (bad - labels.values.begin())) +
                                                   " the label is " + std::to_string(*bad) +
                                                   ", expected are 0 to 9: this is another data set, or damaged");
  return {28, 28, std::move(images.values), std::move(labels.values), 255};
}

/// The first folder that has images with labels, of either part. Whether the files are sound is seen when they are
/// read: a damaged set is then an Error, and no reason to silently take another one.
FULGURITE_COLD std::optional<std::filesystem::path> find_mnist(std::span<std::filesystem::path const> folders) {
  auto const holds = [](std::filesystem::path const& folder) {
    return mnist_files(folder, "train") || mnist_files(folder, "t10k");
  };
  auto const found = std::ranges::find_if(folders, holds);
  return found == folders.end() ? std::nullopt : std::optional(*found);
}

// Reads small grey images of digits from text. Each line has 64 values from 0 to 16, an image of 8 x 8 row by row, and
// the digit. scikit-learn's wheel carries 1,797 digits that people wrote in this form, as
// sklearn/datasets/data/digits.csv.gz.

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
  Pen& to(Point point) {
    stroke_.push_back(point);
    return *this;
  }
  FULGURITE_BULK Pen& along(Arc const& arc) {
    constexpr double degree = std::numbers::pi / 180;
    int const steps = std::max(2, static_cast<int>(std::abs(arc.to - arc.from) / 15));
    for (int i = 0; i <= steps; ++i) {
      double const angle = degree * (arc.from + (arc.to - arc.from) * i / steps);
      stroke_.push_back({arc.center.x + arc.rx * std::cos(angle), arc.center.y + arc.ry * std::sin(angle)});
    }
    return *this;
  }
  operator Stroke() const { return stroke_; }

 private:
  Stroke stroke_;
};

/// All of them anew; `glyphs` keeps them.
FULGURITE_COLD std::vector<std::vector<Glyph>> make_glyphs() {
  auto const line = [](std::initializer_list<Point> points) { return Stroke(points); };
  Stroke const ring = Pen{}.along({{0.5, 0.5}, 0.34, 0.5, -80, 280});
  Pen six_back = Pen{}.along({{0.72, 0.68}, 0.5, 0.68, 265, 180});
  Stroke const nine_ring = Pen{}.along({{0.5, 0.3}, 0.28, 0.3, 0, -360});
  Stroke const two_top = Pen{}.along({{0.48, 0.29}, 0.32, 0.29, 195, 395}).to({0.18, 1});
  return std::vector<std::vector<Glyph>>{
      {{ring}},
      {{line({{0.5, 0}, {0.5, 1}})},
       {line({{0.3, 0.22}, {0.52, 0}, {0.52, 1}})},
       {line({{0.3, 0.22}, {0.5, 0}, {0.5, 1}}), line({{0.28, 1}, {0.74, 1}})}},
      {{two_top, line({{0.18, 1}, {0.84, 1}})},
       {two_top, Pen{}.to({0.18, 1}).along({{0.3, 0.9}, 0.12, 0.1, 180, 330}).to({0.86, 0.98})}},
      {{Pen{}.along({{0.46, 0.25}, 0.3, 0.25, 205, 440}).along({{0.46, 0.74}, 0.34, 0.26, 280, 520})},
       {line({{0.2, 0}, {0.76, 0}, {0.44, 0.42}}), Pen{}.to({0.44, 0.42}).along({{0.46, 0.71}, 0.34, 0.29, 270, 520})}},
      {{line({{0.28, 0}, {0.2, 0.55}, {0.86, 0.55}}), line({{0.7, 0.08}, {0.66, 1}})},
       {line({{0.64, 1}, {0.64, 0}, {0.14, 0.64}, {0.88, 0.64}})}},
      {{Pen{}.to({0.8, 0}).to({0.3, 0}).to({0.26, 0.45}).along({{0.46, 0.68}, 0.34, 0.32, 225, 505})}},
      {{six_back.along({{0.5, 0.7}, 0.28, 0.3, 180, -180})},
       {Pen{}.to({0.5, 0}).to({0.26, 0.55}).along({{0.52, 0.72}, 0.28, 0.28, 190, -190})}},
      {{line({{0.18, 0}, {0.82, 0}, {0.42, 1}})},
       {line({{0.18, 0}, {0.82, 0}, {0.42, 1}}), line({{0.36, 0.5}, {0.78, 0.5}})}},
      {{Pen{}.along({{0.5, 0.25}, 0.26, 0.25, 90, 450}), Pen{}.along({{0.5, 0.75}, 0.31, 0.25, 270, 630})}},
      {{nine_ring, line({{0.78, 0.3}, {0.72, 1}})}, {nine_ring, Pen{}.along({{0.28, 0.32}, 0.5, 0.68, 0, 85})}}};
}

/// The ways to write each digit, several where people differ: `glyphs()[4][1]` is the second way to write a four.
inline std::vector<std::vector<Glyph>> const& glyphs() {
  static std::vector<std::vector<Glyph>> const all = make_glyphs();
  return all;
}

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
  explicit Handwriting(Random& random) {
    auto const turn = random.uniform(-0.22, 0.22), slant = random.uniform(-0.35, 0.25);
    auto const width = random.uniform(11, 21), height = random.uniform(16, 22);
    xx_ = std::cos(turn) * width;
    xy_ = (-std::sin(turn) - slant * std::cos(turn)) * height;
    yx_ = std::sin(turn) * width;
    yy_ = (std::cos(turn) - slant * std::sin(turn)) * height;
    middle_ = {random.uniform(12.2, 15.8), random.uniform(12.2, 15.8)};
    waver_ = random.uniform(0, 0.05);
    phase_ = {random.uniform(0, 2 * std::numbers::pi), random.uniform(0, 2 * std::numbers::pi)};
    radius_ = random.uniform(0.7, 1.7);
    ink_ = random.uniform(0.75, 1.0);
  }

  double radius() const { return radius_; }
  double ink() const { return ink_; }

  FULGURITE_BULK Point operator()(Point p) const {
    double const x = p.x - 0.5 + waver_ * std::sin(7 * p.y + phase_.x),
                 y = p.y - 0.5 + waver_ * std::sin(7 * p.x + phase_.y);
    return {middle_.x + xx_ * x + xy_ * y, middle_.y + yx_ * x + yy_ * y};
  }

 private:
  double xx_, xy_, yx_, yy_, waver_, radius_, ink_;
  Point middle_, phase_;
};

/// The distance from `p` to the segment from `a` to `b`.
inline double distance(Point p, Point a, Point b) {
  double const dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
  double const along = square > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0) : 0.0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

/// Draws a digit from 0 to 9, white on black, in a handwriting that is drawn from `random`.
FULGURITE_BULK DigitImage draw_digit(std::size_t digit, Random& random) {
  auto const& ways = glyphs().at(digit);
  auto const& glyph = ways[random.below(ways.size())];
  Handwriting const hand{random};
  std::array<double, digit_side * digit_side> nearest{};
  nearest.fill(1e9);
  auto const pixel = [](double at) { return std::clamp(static_cast<int>(at), 0, 27); };
  for (Stroke const& stroke : glyph)
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      Point const a = hand(stroke[i - 1]), b = hand(stroke[i]);
      double const reach = hand.radius() + 1;  // farther pixels stay black
      for (int y = pixel(std::min(a.y, b.y) - reach); y <= pixel(std::max(a.y, b.y) + reach); ++y)
        for (int x = pixel(std::min(a.x, b.x) - reach); x <= pixel(std::max(a.x, b.x) + reach); ++x) {
          double& known = nearest[digit_side * static_cast<std::size_t>(y) + static_cast<std::size_t>(x)];
          known = std::min(known, distance({x + 0.5, y + 0.5}, a, b));
        }
    }
  DigitImage image{};
  for (std::size_t i = 0; i < image.size(); ++i) {
    double const cover =
        std::clamp(hand.radius() + 0.5 - nearest[i], 0.0, 1.0);  // the edge runs through a pixel: partly covered
    image[i] = static_cast<std::uint8_t>(std::lround(255 * hand.ink() * cover));
  }
  return image;
}

/// Draws `count` digits, equally many of each. Image i depends on `seed` and i alone.
FULGURITE_BULK LabelledImages draw_digits(std::size_t count, std::uint64_t seed) {
  LabelledImages set;
  set.pixels.reserve(count * 28 * 28);
  for (std::size_t i = 0; i < count; ++i) {
    Random random{seed, i};
    DigitImage const image = draw_digit(i % 10, random);
    set.pixels.insert(set.pixels.end(), image.begin(), image.end());
    set.labels.push_back(static_cast<std::uint8_t>(i % 10));
  }
  return set;
}

}  // namespace fulgurite::data
