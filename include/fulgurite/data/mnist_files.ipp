#pragma once
// The bodies of data/mnist_files.hpp.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iomanip>
#include <numbers>
#include <sstream>
#include <system_error>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/mnist_files.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY Idx IdxReader::read(std::span<std::uint8_t const> file, std::size_t dimensions) const {
  if (!is_gzip(file)) {
    Plain source{file};
    std::size_t const header = 4 + 4 * dimensions;
    return parse(Source::to<&Plain::read>(source), file.size() - std::min(file.size(), header), dimensions);
  }
  Gunzip source{file, name_};
  return parse(Source::to<&Gunzip::read>(source), file.size() * largest_gzip_ratio, dimensions);
}

FULGURITE_BULK_BODY std::size_t IdxReader::Plain::read(std::span<std::uint8_t> into) {
  std::size_t const count = std::min(into.size(), rest.size());
  std::copy_n(rest.begin(), count, into.begin());
  rest = rest.subspan(count);
  return count;
}

FULGURITE_BULK_BODY Idx IdxReader::parse(Source read, std::size_t most, std::size_t dimensions) const {
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
  // The array grows as bytes arrive, since a gzip file's content may be up to a thousand times as large as the file.
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

FULGURITE_BULK_BODY std::uint32_t IdxReader::number(Source read, std::size_t offset) const {
  std::array<std::uint8_t, 4> bytes{};
  if (std::size_t const found = read(bytes); found != bytes.size())
    refuse("fulgurite.data.idx_length", "the header needs 4 bytes at byte " + std::to_string(offset) +
                                            ", but the file ends at byte " + std::to_string(offset + found) +
                                            ": it was cut off; fetch it again");
  std::uint32_t value = 0;
  for (std::uint8_t const byte : bytes) value = (value << 8) | byte;
  return value;
}

FULGURITE_BULK_BODY void IdxReader::refuse(std::string_view identifier, std::string const& sentence) const {
  throw Error(identifier, name_ + ": " + sentence);
}

FULGURITE_BULK_BODY Idx read_idx(std::filesystem::path const& file, std::size_t dimensions) {
  return IdxReader{file.string()}.read(read_file(file), dimensions);
}

FULGURITE_BODY std::optional<MnistFiles> mnist_files(std::filesystem::path const& folder, std::string const& part) {
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

FULGURITE_BODY LabelledImages read_mnist(MnistFiles const& files) {
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

FULGURITE_BODY std::optional<std::filesystem::path> find_mnist(std::span<std::filesystem::path const> folders) {
  auto const holds = [](std::filesystem::path const& folder) {
    return mnist_files(folder, "train") || mnist_files(folder, "t10k");
  };
  auto const found = std::ranges::find_if(folders, holds);
  return found == folders.end() ? std::nullopt : std::optional(*found);
}

FULGURITE_BULK_BODY LabelledImages DigitsCsvReader::read(std::span<std::uint8_t const> file) const {
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

FULGURITE_BULK_BODY void DigitsCsvReader::add(std::string_view line, std::size_t number, LabelledImages& set) const {
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
  if (!line.empty()) refuse(number, "has text after column " + std::to_string(values + 1));
}

FULGURITE_BULK_BODY void DigitsCsvReader::refuse(std::size_t line, std::string const& what) const {
  throw Error("fulgurite.data.digits_csv", name_ + ": line " + std::to_string(line) + " " + what +
                                               ", expected are 64 values from 0 to 16 and a digit in each line: "
                                               "this is another file, or a damaged one; fetch it again");
}

FULGURITE_BULK_BODY LabelledImages read_digits_csv(std::filesystem::path const& file) {
  return DigitsCsvReader{file.string()}.read(read_file(file));
}

FULGURITE_BULK_BODY std::optional<std::filesystem::path> find_digits_csv(std::filesystem::path const& folder) {
  for (char const* name : {"digits.csv.gz", "digits.csv"})
    if (std::filesystem::is_regular_file(folder / name)) return folder / name;
  return std::nullopt;
}

FULGURITE_BULK_BODY Pen& Pen::to(Point point) {
  stroke_.push_back(point);
  return *this;
}

FULGURITE_BULK_BODY Pen& Pen::along(Arc const& arc) {
  constexpr double degree = std::numbers::pi / 180;
  int const steps = std::max(2, static_cast<int>(std::abs(arc.to - arc.from) / 15));
  for (int i = 0; i <= steps; ++i) {
    double const angle = degree * (arc.from + (arc.to - arc.from) * i / steps);
    stroke_.push_back({arc.center.x + arc.rx * std::cos(angle), arc.center.y + arc.ry * std::sin(angle)});
  }
  return *this;
}

/// Makes all glyphs; `glyphs` caches them.
FULGURITE_BODY std::vector<std::vector<Glyph>> make_glyphs() {
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

FULGURITE_BULK_BODY std::vector<std::vector<Glyph>> const& glyphs() {
  static std::vector<std::vector<Glyph>> const all = make_glyphs();
  return all;
}

FULGURITE_BULK_BODY Handwriting::Handwriting(Random& random) {
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

FULGURITE_BULK_BODY Point Handwriting::operator()(Point p) const {
  double const x = p.x - 0.5 + waver_ * std::sin(7 * p.y + phase_.x),
               y = p.y - 0.5 + waver_ * std::sin(7 * p.x + phase_.y);
  return {middle_.x + xx_ * x + xy_ * y, middle_.y + yx_ * x + yy_ * y};
}

FULGURITE_BULK_BODY double distance(Point p, Point a, Point b) {
  double const dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
  double const along = square > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0) : 0.0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

FULGURITE_BULK_BODY DigitImage draw_digit(std::size_t digit, Random& random) {
  auto const& ways = glyphs().at(digit);
  auto const& glyph = ways[random.below(ways.size())];
  Handwriting const hand{random};
  std::array<double, digit_side * digit_side> nearest{};
  nearest.fill(1e9);
  auto const pixel = [](double at) { return std::clamp(static_cast<int>(at), 0, 27); };
  for (Stroke const& stroke : glyph)
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      Point const a = hand(stroke[i - 1]), b = hand(stroke[i]);
      double const reach = hand.radius() + 1;  // pixels farther away stay black
      for (int y = pixel(std::min(a.y, b.y) - reach); y <= pixel(std::max(a.y, b.y) + reach); ++y)
        for (int x = pixel(std::min(a.x, b.x) - reach); x <= pixel(std::max(a.x, b.x) + reach); ++x) {
          double& known = nearest[digit_side * static_cast<std::size_t>(y) + static_cast<std::size_t>(x)];
          known = std::min(known, distance({x + 0.5, y + 0.5}, a, b));
        }
    }
  DigitImage image{};
  for (std::size_t i = 0; i < image.size(); ++i) {
    double const cover =
        std::clamp(hand.radius() + 0.5 - nearest[i], 0.0, 1.0);  // pixels on the edge are partly covered
    image[i] = static_cast<std::uint8_t>(std::lround(255 * hand.ink() * cover));
  }
  return image;
}

FULGURITE_BULK_BODY LabelledImages draw_digits(std::size_t count, std::uint64_t seed) {
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
