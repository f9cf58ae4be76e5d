#pragma once
// Pictures in folders: each folder below a root is a class, each file in it a picture of that class.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
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

  /// Lists the files whose names end in .png, .pgm or .ppm. Error [fulgurite.data.image_folder] where the root is no
  /// folder, has fewer than two folders, one of them has no picture, or pictures of other kinds are among the files.
  explicit ImageFolder(std::filesystem::path const& root) {
    namespace fs = std::filesystem;
    auto const refuse = [](fs::path const& where, std::string const& what) {
      throw Error("fulgurite.data.image_folder", where.string() + ": " + what);
    };
    if (!fs::is_directory(root)) refuse(root, "there is no such folder; check the path");
    for (auto const& entry : fs::directory_iterator(root))
      if (entry.is_directory() && !entry.path().filename().string().starts_with('.'))
        classes_.push_back(entry.path().filename().string());
    if (classes_.size() < 2)
      refuse(root, "a folder for each class was expected here, two at least: put pictures into root/class/");
    sort_seldom(classes_);
    std::map<std::string, std::size_t> others;
    std::vector<std::string> empty;
    for (std::size_t label = 0; label != classes_.size(); ++label) {
      std::vector<fs::path> found;
      for (auto const& entry : fs::recursive_directory_iterator(root / classes_[label])) {
        if (!entry.is_regular_file()) continue;
        std::string const ending = ending_of(entry.path());
        if (is_one_of({".png", ".pgm", ".ppm"}, ending)) found.push_back(entry.path());
        else if (is_one_of({".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}, ending)) ++others[ending];
      }
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
