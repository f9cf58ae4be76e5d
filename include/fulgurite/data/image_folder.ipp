#pragma once
// The bodies of data/image_folder.hpp.

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/image_folder.hpp>

namespace fulgurite::data {

/// Throws [fulgurite.data.image] with the file and the byte.
[[noreturn]] FULGURITE_BODY void refuse_image(std::string const& name, std::size_t byte, std::string const& what) {
  throw Error("fulgurite.data.image", name + ": at byte " + std::to_string(byte) + " " + what);
}

/// Throws [fulgurite.data.image] if the picture is empty or beyond the bounds.
FULGURITE_BODY void check_image_size(std::string const& name, std::size_t byte, Image const& image) {
  bool const fits = image.rows >= 1 && image.columns >= 1 && image.rows <= longest_image_side &&
                    image.columns <= longest_image_side && image.rows <= largest_image / image.channels / image.columns;
  if (!fits)
    refuse_image(name, byte,
                 "the header says " + std::to_string(image.rows) + " x " + std::to_string(image.columns) +
                     " pixels: they have to be at least 1 x 1, and at most " + std::to_string(largest_image) +
                     " bytes; the file is damaged, or has to be made smaller");
}

FULGURITE_BULK_BODY Image with_channels(Image image, std::size_t channels) {
  if (image.channels == channels) return image;
  Image made{image.rows, image.columns, channels, {}};
  made.pixels.reserve(image.rows * image.columns * channels);
  for (std::size_t i = 0; i != image.rows * image.columns; ++i) {
    auto const* from = image.pixels.data() + i * image.channels;
    bool const colour = image.channels >= 3;
    if (channels == 1)
      made.pixels.push_back(
          colour ? static_cast<std::uint8_t>((299U * from[0] + 587U * from[1] + 114U * from[2] + 500U) / 1000U)
                 : from[0]);
    else
      for (std::size_t c = 0; c != 3; ++c) made.pixels.push_back(from[colour ? c : 0]);
  }
  return made;
}

/// True if the bytes begin like a binary PGM or PPM file.
FULGURITE_BULK_BODY bool is_netpbm(std::span<std::uint8_t const> file) {
  return file.size() >= 2 && file[0] == 'P' && (file[1] == '5' || file[1] == '6');
}

FULGURITE_BULK_BODY Image read_netpbm(std::span<std::uint8_t const> file, std::string const& name) {
  std::size_t at = 2;
  auto const number = [&](char const* what, std::size_t most) {
    while (at < file.size() && (std::isspace(file[at]) != 0 || file[at] == '#'))
      if (file[at++] == '#')
        while (at < file.size() && file[at] != '\n') ++at;
    std::size_t value = 0;
    std::size_t const from = at;
    for (; at < file.size() && file[at] >= '0' && file[at] <= '9' && value <= most; ++at)
      value = 10 * value + file[at] - '0';
    if (at == from || value > most || at == file.size())
      refuse_image(name, from,
                   std::string("there is no ") + what + " from 0 to " + std::to_string(most) +
                       ": it is damaged, or no picture");
    return value;
  };
  if (!is_netpbm(file)) refuse_image(name, 0, "this is no binary PGM or PPM file");
  Image image{.channels = file[1] == '6' ? 3U : 1U};
  image.columns = number("width", longest_image_side);
  image.rows = number("height", longest_image_side);
  std::size_t const white = number("largest value", 65535);
  check_image_size(name, 2, image);
  if (white != 255) refuse_image(name, at, "the largest value is " + std::to_string(white) + ": only 255 is read");
  ++at;  // one white space
  std::size_t const bytes = image.rows * image.columns * image.channels;
  if (at > file.size() || file.size() - at < bytes)
    refuse_image(name, file.size(),
                 "it ends, and " + std::to_string(bytes) + " bytes of pixels were to come: it was cut off");
  image.pixels.assign(file.begin() + static_cast<std::ptrdiff_t>(at),
                      file.begin() + static_cast<std::ptrdiff_t>(at + bytes));
  return image;
}

/// True if the bytes begin like a PNG file.
FULGURITE_BULK_BODY bool is_png(std::span<std::uint8_t const> file) {
  constexpr std::string_view mark = "\x89PNG\r\n\x1a\n";
  return file.size() >= mark.size() && std::equal(mark.begin(), mark.end(), file.begin(), [](char a, std::uint8_t b) {
           return static_cast<unsigned char>(a) == b;
         });
}

FULGURITE_BULK_BODY PngReader::PngReader(std::span<std::uint8_t const> file, std::string name)
    : file_(file), name_(std::move(name)) {}

FULGURITE_BULK_BODY Image PngReader::read() {
  if (!is_png(file_)) refuse_image(name_, 0, "this is no PNG file");
  at_ = 8;
  for (bool ended = false; !ended;) ended = chunk();
  if (image_.rows == 0) refuse_image(name_, at_, "it ends without a header (IHDR): it is damaged");
  unpack();
  return has_palette_ ? coloured() : std::move(image_);
}

FULGURITE_BULK_BODY std::size_t PngReader::number(std::size_t at) const {
  return std::size_t{file_[at]} << 24 | std::size_t{file_[at + 1]} << 16 | std::size_t{file_[at + 2]} << 8 |
         file_[at + 3];
}

FULGURITE_BULK_BODY bool PngReader::chunk() {
  if (file_.size() - at_ < 12) refuse_image(name_, file_.size(), "it ends inside of a part: it was cut off");
  std::size_t const length = number(at_), from = at_ + 8;
  if (length > file_.size() - at_ - 12) refuse_image(name_, at_, "a part is longer than the file: it was cut off");
  std::string const kind(file_.begin() + static_cast<std::ptrdiff_t>(at_ + 4),
                         file_.begin() + static_cast<std::ptrdiff_t>(from));
  auto const sum = ::crc32_z(0, file_.data() + at_ + 4, length + 4);
  if (sum != number(from + length))
    refuse_image(name_, at_, "the checksum of the part " + kind + " is wrong: it is damaged");
  auto const bytes = file_.subspan(from, length);
  if (kind == "IHDR") header(bytes);
  else if (kind == "PLTE") palette_.assign(bytes.begin(), bytes.end());
  else if (kind == "IDAT") packed_.insert(packed_.end(), bytes.begin(), bytes.end());
  else if (kind[0] >= 'A' && kind[0] <= 'Z' && kind != "IEND")
    refuse_image(name_, at_, "there is a part " + kind + ", which is not known: save the picture as a plain PNG");
  at_ = from + length + 4;
  return kind == "IEND";
}

FULGURITE_BULK_BODY void PngReader::header(std::span<std::uint8_t const> bytes) {
  if (bytes.size() != 13 || image_.rows != 0) refuse_image(name_, at_, "the header is damaged");
  auto const kind = bytes[9];
  has_palette_ = kind == 3;
  bool const known = kind == 0 || kind == 2 || kind == 3 || kind == 4 || kind == 6;
  if (bytes[8] != 8 || !known || bytes[10] != 0 || bytes[11] != 0 || bytes[12] != 0)
    refuse_image(name_, at_,
                 "the picture has " + std::to_string(bytes[8]) + " bits a channel" +
                     (bytes[12] != 0 ? " and is interlaced" : "") +
                     ": 8 bits without interlacing are read; save it so");
  image_.columns = number(at_ + 8);
  image_.rows = number(at_ + 12);
  image_.channels = kind == 2 ? 3 : kind == 4 ? 2 : kind == 6 ? 4 : 1;
  check_image_size(name_, at_, image_);
}

FULGURITE_BULK_BODY void PngReader::unpack() {
  std::size_t const line = image_.columns * image_.channels;
  if ((line + 1) * image_.rows / largest_gzip_ratio > packed_.size())
    refuse_image(name_, at_, "the header promises more pixels than the file can hold: it was cut off, or is damaged");
  std::vector<std::uint8_t> lines((line + 1) * image_.rows);
  uLongf size = lines.size();
  uLong given = packed_.size();
  if (::uncompress2(lines.data(), &size, packed_.data(), &given) != Z_OK || size != lines.size())
    refuse_image(name_, at_,
                 "the pixels cannot be unpacked to " + std::to_string(image_.rows) + " lines of " +
                     std::to_string(line) + " bytes: it is damaged");
  packed_ = {};
  image_.pixels.resize(line * image_.rows);
  for (std::size_t row = 0; row != image_.rows; ++row) {
    auto const* from = lines.data() + row * (line + 1);
    auto* to = image_.pixels.data() + row * line;
    if (*from > 4) refuse_image(name_, at_, "line " + std::to_string(row) + " has an unknown filter: it is damaged");
    for (std::size_t i = 0; i != line; ++i) {
      int const left = i >= image_.channels ? to[i - image_.channels] : 0, above = row > 0 ? (to - line)[i] : 0,
                corner = i >= image_.channels && row > 0 ? (to - line)[i - image_.channels] : 0;
      to[i] = static_cast<std::uint8_t>(from[1 + i] + guess(*from, left, above, corner));
    }
  }
}

FULGURITE_BULK_BODY int PngReader::guess(std::uint8_t filter, int left, int above, int corner) {
  if (filter == 1) return left;
  if (filter == 2) return above;
  if (filter == 3) return (left + above) / 2;
  if (filter == 0) return 0;
  int const to_left = std::abs(above - corner), to_above = std::abs(left - corner),
            to_corner = std::abs(left + above - 2 * corner);
  return to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
}

FULGURITE_BULK_BODY Image PngReader::coloured() const {
  Image made{image_.rows, image_.columns, 3, {}};
  made.pixels.reserve(3 * image_.pixels.size());
  for (std::size_t const index : image_.pixels) {
    if (3 * index + 2 >= palette_.size()) refuse_image(name_, at_, "a colour is not in the palette: it is damaged");
    made.pixels.insert(made.pixels.end(), palette_.begin() + static_cast<std::ptrdiff_t>(3 * index),
                       palette_.begin() + static_cast<std::ptrdiff_t>(3 * index + 3));
  }
  return made;
}

/// A file that cannot be opened counts as `other`.
FULGURITE_BULK_BODY FileKind kind_of_file(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::string first(32, '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(file.gcount()));
  auto const bytes = std::span(reinterpret_cast<std::uint8_t const*>(first.data()), first.size());
  auto const size = first.find_first_not_of(" \t\r\n", 2);  // a space in this place distinguishes the file from prose
  bool const netpbm =
      is_netpbm(bytes) && size != first.npos && (bytes[size] == '#' || (size > 2 && std::isdigit(bytes[size]) != 0));
  if (is_png(bytes) || netpbm) return FileKind::picture;
  using std::string_view_literals::operator""sv;
  auto const has = [&](std::size_t at, std::string_view mark) {
    return bytes.size() > at && first.substr(at).starts_with(mark);
  };
  bool const picture = has(0, "\xFF\xD8\xFF") || has(0, "GIF8") || has(0, "II*\0"sv) || has(0, "MM\0*"sv) ||
                       (has(0, "RIFF") && has(8, "WEBP")) || has(4, "jP  ") || has(4, "ftypavif") ||
                       has(4, "ftypheic") || has(4, "ftypmif1");
  return picture ? FileKind::other_picture : FileKind::other;
}

FULGURITE_BULK_BODY Image read_image(std::filesystem::path const& path) {
  auto const bytes = read_file(path);
  if (is_png(bytes)) return PngReader{bytes, path.string()}.read();
  if (is_netpbm(bytes)) return read_netpbm(bytes, path.string());
  refuse_image(path.string(), 0, "this is no PNG, binary PGM or PPM picture: convert it, or take it away");
}

FULGURITE_BULK_BODY ImageFolder::ImageFolder(std::filesystem::path const& root) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (!fs::is_directory(root, failed)) refuse(root, "there is no such folder; check the path");
  for (auto const& entry : entries(root)) {
    if (is_hidden(entry.path())) continue;
    if (type_of(entry) == fs::file_type::directory) classes_.push_back(entry.path().filename().string());
  }
  if (classes_.size() < 2)
    refuse(root, "a folder for each class was expected here, two at least: put pictures into root/class/");
  sort_seldom(classes_);
  std::map<std::string, std::size_t> others;
  std::vector<std::string> empty;
  for (std::size_t label = 0; label != classes_.size(); ++label) {
    std::vector<fs::path> found, within;
    list(root / classes_[label], within, found, others);
    if (found.empty()) empty.push_back(classes_[label]);
    sort_seldom(found);
    for (auto& file : found) files_.push_back({std::move(file), label});
  }
  auto const said = [](auto const& other) { return other.first + " (" + std::to_string(other.second) + ")"; };
  if (!others.empty())
    refuse(root, "files end in " + listed(others, said) +
                     ", and PNG, PGM and PPM can be read: convert them, or take them away");
  if (!empty.empty()) refuse(root / empty[0], "no file in it ends in .png, .pgm or .ppm: fill it, or remove it");
}

FULGURITE_BULK_BODY ImageFolder::Sample ImageFolder::get(std::size_t i) const {
  return {read_image(files_[i].path), files_[i].label};
}

FULGURITE_BODY void ImageFolder::refuse(std::filesystem::path const& where, std::string const& what) {
  throw Error("fulgurite.data.image_folder", where.string() + ": " + what);
}

FULGURITE_BULK_BODY bool ImageFolder::is_hidden(std::filesystem::path const& path) {
  return path.filename().string().starts_with('.');
}

FULGURITE_BULK_BODY std::vector<std::filesystem::directory_entry>
ImageFolder::entries(std::filesystem::path const& folder) {
  std::error_code failed;
  std::vector<std::filesystem::directory_entry> all;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    all.push_back(*at);
  if (failed) refuse(folder, "this folder cannot be read (" + failed.message() + "): " + check);
  return all;
}

FULGURITE_BULK_BODY std::filesystem::file_type ImageFolder::type_of(std::filesystem::directory_entry const& entry) {
  auto const& path = entry.path();
  std::error_code failed;
  auto const type = entry.status(failed).type();
  if (type == std::filesystem::file_type::not_found) refuse(path, "this link leads nowhere: mend it, or remove it");
  if (type == std::filesystem::file_type::none)
    refuse(path, "this cannot be looked at (" + failed.message() + "): " + check);
  return type;
}

FULGURITE_BULK_BODY void ImageFolder::list(std::filesystem::path const& folder,
                                           std::vector<std::filesystem::path>& within,
                                           std::vector<std::filesystem::path>& found,
                                           std::map<std::string, std::size_t>& others) {
  std::error_code failed;
  auto const real = std::filesystem::canonical(folder, failed);
  if (failed) refuse(folder, "this cannot be looked at (" + failed.message() + "): " + check);
  if (std::ranges::find(within, real) != within.end())
    refuse(folder, "this link leads to a folder that it is in: remove it");
  within.push_back(real);
  for (auto const& entry : entries(folder)) {
    auto const& path = entry.path();
    if (is_hidden(path)) continue;
    auto const type = type_of(entry);
    if (type == std::filesystem::file_type::directory) list(path, within, found, others);
    if (type != std::filesystem::file_type::regular) continue;
    std::string ending = path.extension().string();
    std::ranges::transform(ending, ending.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    auto const kind = kind_of_file(path);
    if (is_one_of({".png", ".pgm", ".ppm"}, ending)) {
      if (kind != FileKind::picture)
        refuse(path, "it cannot be opened, or does not begin as a PNG, binary PGM or PPM picture: check its "
                     "permissions, convert it, or take it away");
      found.push_back(path);
    } else if (kind != FileKind::other ||
               is_one_of({".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff"}, ending)) {
      ++others[ending.empty() ? "no ending" : ending];
    }
  }
  within.pop_back();
}

FULGURITE_BULK_BODY bool ImageFolder::is_one_of(std::initializer_list<char const*> endings, std::string const& ending) {
  return std::ranges::find(endings, ending) != endings.end();
}

}  // namespace fulgurite::data
