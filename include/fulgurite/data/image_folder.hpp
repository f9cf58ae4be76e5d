#pragma once
// Pictures in folders: each folder below a root is a class, each file in it a picture of that class.

#include <array>
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

// A picture of 8 bits a channel in memory, and the bounds of what is read from a file.

/// Pixels row by row, the channels of a pixel side by side: 1 grey, 2 grey and alpha, 3 red, green, blue, 4 those and
/// alpha.
struct Image {
  std::size_t rows = 0, columns = 0, channels = 1;
  std::vector<std::uint8_t> pixels = {};
};

/// No picture is read that has more pixels along a side, or more bytes.
inline constexpr std::size_t longest_image_side = 1U << 16, largest_image = std::size_t{1} << 28;

/// Error [fulgurite.data.image], with the file and the byte.
[[noreturn]] void refuse_image(std::string const& name, std::size_t byte, std::string const& what);

/// Refuses the size of a picture that is none, or beyond the bounds.
void check_image_size(std::string const& name, std::size_t byte, Image const& image);

/// The picture with 1 channel (grey: 0.299 red + 0.587 green + 0.114 blue) or 3. Alpha is left out.
Image with_channels(Image image, std::size_t channels);

// Reads the plainest pictures: binary PGM (grey) and PPM (colours), of 8 bits.

/// Whether the bytes begin as a PGM or PPM file in binary does.
bool is_netpbm(std::span<std::uint8_t const> file);

/// Reads such a file from memory. Any bytes are safe input. Error [fulgurite.data.image] for one that is damaged, cut
/// off, or has more than 8 bits a channel.
Image read_netpbm(std::span<std::uint8_t const> file, std::string const& name);

// Reads PNG pictures of 8 bits a channel, or of a palette, that are not interlaced; through zlib (link with -lz).

/// Whether the bytes begin as a PNG file does.
bool is_png(std::span<std::uint8_t const> file);

/// Reads such a file from memory. Any bytes are safe input: what a picture needs is known from its header before any of
/// it is unpacked.
class PngReader {
 public:
  PngReader(std::span<std::uint8_t const> file, std::string name);

  /// Error [fulgurite.data.image] for a file that is damaged, cut off, or of a kind that is not read.
  Image read();

 private:
  std::size_t number(std::size_t at) const;

  /// Whether it was the last.
  bool chunk();

  void header(std::span<std::uint8_t const> bytes);

  void unpack();
  /// What a filter takes for the next byte.
  static int guess(std::uint8_t filter, int left, int above, int corner);

  Image coloured() const;

  std::span<std::uint8_t const> file_;
  std::string name_;
  Image image_;
  std::vector<std::uint8_t> palette_, packed_;
  std::size_t at_ = 0;
  bool has_palette_ = false;
};

/// What a file is by its first bytes: a picture that read_image reads, one of another kind, or something else.
enum class FileKind : std::uint8_t { picture, other_picture, other };

/// One that cannot be opened is something else.
FileKind kind_of_file(std::filesystem::path const& path);

/// Reads one picture, PNG, PGM or PPM, by what it begins with. Errors: fulgurite.data.file, .image.
Image read_image(std::filesystem::path const& path);

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

  /// What is in a folder.
  static std::vector<std::filesystem::directory_entry> entries(std::filesystem::path const& folder);
  /// What a link leads to, or the entry itself is.
  static std::filesystem::file_type type_of(std::filesystem::directory_entry const& entry);

  /// The pictures of a folder and those in it; of other kinds of pictures, how many end how. `within`: the folders
  /// around this one.
  static void list(std::filesystem::path const& folder, std::vector<std::filesystem::path>& within,
                   std::vector<std::filesystem::path>& found, std::map<std::string, std::size_t>& others);

  /// In small letters.
  static std::string ending_of(std::filesystem::path const& path);
  static bool is_one_of(std::initializer_list<char const*> endings, std::string const& ending);

  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/image_folder.ipp>
#endif
