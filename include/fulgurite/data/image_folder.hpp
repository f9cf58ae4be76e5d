#pragma once
// Pictures in folders: each folder below a root is a class, and each file in it is a picture of that class.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::data {

// A picture with 8 bits per channel in memory, and the bounds for pictures that are read from a file.

/// Pixels row by row, the channels of a pixel side by side. 1 channel: grey; 2: grey and alpha; 3: red, green, blue; 4:
/// red, green, blue and alpha.
struct Image {
  std::size_t rows = 0, columns = 0, channels = 1;
  std::vector<std::uint8_t> pixels = {};
};

/// Pictures with more pixels along a side, or more bytes, are not read.
inline constexpr std::size_t longest_image_side = 1U << 16, largest_image = std::size_t{1} << 28;

/// Converts a picture to 1 channel (grey: 0.299 red + 0.587 green + 0.114 blue) or to 3. Alpha is dropped.
Image with_channels(Image image, std::size_t channels);

// Reads the simplest formats: binary PGM (grey) and PPM (colour) with 8 bits per channel.

/// Reads a binary PGM or PPM file from memory. Any bytes are safe input. Throws [fulgurite.data.image] if the file is
/// damaged, cut off, or has more than 8 bits per channel.
Image read_netpbm(std::span<std::uint8_t const> file, std::string const& name);

// Reads PNG pictures with 8 bits per channel or a palette, without interlacing; through zlib (link with -lz).

/// Reads a PNG file from memory. Any bytes are safe input: the header gives the size before anything is unpacked.
class PngReader {
 public:
  PngReader(std::span<std::uint8_t const> file, std::string name);

  /// Throws [fulgurite.data.image] if the file is damaged, cut off, or of an unsupported kind.
  Image read();

 private:
  std::size_t number(std::size_t at) const;

  /// Reads one chunk; returns true if it was the last.
  bool chunk();

  void header(std::span<std::uint8_t const> bytes);

  void unpack();
  /// The value that a PNG filter predicts for the next byte.
  static int guess(std::uint8_t filter, int left, int above, int corner);

  Image coloured() const;

  std::span<std::uint8_t const> file_;
  std::string name_;
  Image image_;
  std::vector<std::uint8_t> palette_, packed_;
  std::size_t at_ = 0;
  bool has_palette_ = false;
};

/// The kind of a file by its first bytes: a picture for read_image, a picture of another kind, or something else.
enum class FileKind : std::uint8_t { picture, other_picture, other };

/// Reads one PNG, PGM or PPM picture; its first bytes decide which. Errors: fulgurite.data.file, .image.
Image read_image(std::filesystem::path const& path);

/// A dataset of the pictures below a root, `root/cat/1.png`, `root/dog/a/7.pgm`. Classes and files are sorted by name.
/// A picture is read when `get` is called; several threads may call it at once:
/// `data::ImageFolder pets("pets"); auto [image, label] = pets.get(0);`.
class ImageFolder {
 public:
  struct Sample {
    Image image;
    std::size_t label = 0;
  };

  /// Lists the files whose names end in .png, .pgm or .ppm, and checks the first bytes of each. Hidden files and
  /// folders are skipped; links are followed. Throws [fulgurite.data.image_folder] if the root is not a folder or has
  /// fewer than two folders; if a folder has no picture or cannot be read; if a picture's first bytes are wrong; if
  /// there are pictures of other kinds; or if a link is broken or circular.
  explicit ImageFolder(std::filesystem::path const& root);

  std::size_t size() const { return files_.size(); }
  Sample get(std::size_t i) const;

  std::vector<std::string> const& classes() const { return classes_; }
  std::filesystem::path const& path(std::size_t i) const { return files_[i].path; }
  std::size_t label(std::size_t i) const { return files_[i].label; }

 private:
  struct File {
    std::filesystem::path path;
    std::size_t label;
  };
  [[noreturn]] static void refuse(std::filesystem::path const& where, std::string const& what);
  static bool is_hidden(std::filesystem::path const& path);

  static constexpr char const* check = "check its permissions and links, or remove it";

  /// The entries of a folder.
  static std::vector<std::filesystem::directory_entry> entries(std::filesystem::path const& folder);
  /// The type of the entry, or of a link's target.
  static std::filesystem::file_type type_of(std::filesystem::directory_entry const& entry);

  /// Finds the pictures in a folder and its subfolders, and counts the files of other picture kinds by their endings.
  /// `within`: the folders that contain this one.
  static void list(std::filesystem::path const& folder, std::vector<std::filesystem::path>& within,
                   std::vector<std::filesystem::path>& found, std::map<std::string, std::size_t>& others);

  static bool is_one_of(std::initializer_list<char const*> endings, std::string const& ending);

  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/image_folder.ipp>
#endif
