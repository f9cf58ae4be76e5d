#pragma once
// Pictures in folders: each folder below a root is a class, each file in it a picture of that class.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/image.hpp>
#include <fulgurite/data/netpbm.hpp>
#include <fulgurite/data/png_image.hpp>

namespace fulgurite::data {

/// What a file is by its first bytes: a picture that read_image reads, one of another kind, or something else.
enum class FileKind : std::uint8_t { picture, other_picture, other };

/// One that cannot be opened is something else.
FULGURITE_BULK FileKind kind_of_file(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::string first(32, '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(file.gcount()));
  auto const bytes = std::span(reinterpret_cast<std::uint8_t const*>(first.data()), first.size());
  auto const size = first.find_first_not_of(" \t\r\n", 2);  // so begins no sentence
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

/// Reads one picture, PNG, PGM or PPM, by what it begins with. Errors: fulgurite.data.file, .image.
FULGURITE_BULK Image read_image(std::filesystem::path const& path) {
  auto const bytes = read_file(path);
  if (is_png(bytes)) return PngReader{bytes, path.string()}.read();
  if (is_netpbm(bytes)) return read_netpbm(bytes, path.string());
  refuse_image(path.string(), 0, "this is no PNG, binary PGM or PPM picture: convert it, or take it away");
}

/// A data set of the pictures below a root, `root/cat/1.png`, `root/dog/a/7.pgm`: classes in the order of their names,
/// and files in that of theirs. A picture is read when it is asked for, from several threads at once if need be.
class ImageFolder {
 public:
  struct Sample {
    Image image;
    std::size_t label = 0;
  };

  /// Lists the files whose names end in .png, .pgm or .ppm, and looks at the first bytes of each. Hidden files and
  /// folders are left out; links are followed. Error [fulgurite.data.image_folder] where the root is no folder, has
  /// fewer than two folders, one of them has no picture, a picture is none by its first bytes, pictures of other kinds
  /// are among the files, a link leads nowhere or round in a circle, or
  /// one of them cannot be read.
  explicit ImageFolder(std::filesystem::path const& root) {
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
    std::string said;
    for (auto const& [ending, count] : others)
      (said += said.empty() ? "" : ", ") += ending + " (" + std::to_string(count) + ")";
    if (!others.empty())
      refuse(root, "files end in " + said + ", and PNG, PGM and PPM can be read: convert them, or take them away");
    if (!empty.empty()) refuse(root / empty[0], "no file in it ends in .png, .pgm or .ppm: fill it, or remove it");
  }

  std::size_t size() const { return files_.size(); }
  Sample get(std::size_t i) const { return {read_image(files_[i].path), files_[i].label}; }

  std::vector<std::string> const& classes() const { return classes_; }
  std::filesystem::path const& path(std::size_t i) const { return files_[i].path; }
  std::size_t label(std::size_t i) const { return files_[i].label; }

 private:
  struct File {
    std::filesystem::path path;
    std::size_t label;
  };
  [[noreturn]] FULGURITE_COLD static void refuse(std::filesystem::path const& where, std::string const& what) {
    throw Error("fulgurite.data.image_folder", where.string() + ": " + what);
  }
  static bool is_hidden(std::filesystem::path const& path) { return path.filename().string().starts_with('.'); }

  static constexpr char const* check = "check its permissions and links, or remove it";

  /// What is in a folder.
  FULGURITE_BULK static std::vector<std::filesystem::directory_entry> entries(std::filesystem::path const& folder) {
    std::error_code failed;
    std::vector<std::filesystem::directory_entry> all;
    for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
      all.push_back(*at);
    if (failed) refuse(folder, "this folder cannot be read (" + failed.message() + "): " + check);
    return all;
  }
  /// What a link leads to, or the entry itself is.
  FULGURITE_BULK static std::filesystem::file_type type_of(std::filesystem::directory_entry const& entry) {
    auto const& path = entry.path();
    std::error_code failed;
    auto const type = entry.status(failed).type();
    if (type == std::filesystem::file_type::not_found) refuse(path, "this link leads nowhere: mend it, or remove it");
    if (type == std::filesystem::file_type::none)
      refuse(path, "this cannot be looked at (" + failed.message() + "): " + check);
    return type;
  }

  /// The pictures of a folder and those in it; of other kinds of pictures, how many end how. `within`: the folders
  /// around this one.
  FULGURITE_BULK static void list(std::filesystem::path const& folder, std::vector<std::filesystem::path>& within,
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
      std::string const ending = ending_of(path);
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

  /// In small letters.
  FULGURITE_BULK static std::string ending_of(std::filesystem::path const& path) {
    std::string ending = path.extension().string();
    std::ranges::transform(ending, ending.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return ending;
  }
  FULGURITE_BULK static bool is_one_of(std::initializer_list<char const*> endings, std::string const& ending) {
    return std::ranges::find(endings, ending) != endings.end();
  }

  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace fulgurite::data
