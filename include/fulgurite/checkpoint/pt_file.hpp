#pragma once
// Weights for Python and from it: torch.save(model.state_dict(), "x.pt") reads and writes such files; a checkpoint of
// Lightning is read, too.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>

namespace fulgurite::pickle {
// Declared in pickle.hpp.
enum class Ref : std::uint32_t;
struct Dict;
struct Tensor;
struct Values;
}  // namespace fulgurite::pickle

namespace fulgurite {

/// True if a file of that name is read as a file of torch.save: .pt, .pth, .ckpt or .bin. A file with another name
/// never is, whatever its contents, so that no file is taken for a pickle by surprise.
bool is_pt_name(std::filesystem::path const& path);

/// The tensors of a state dict that torch.save wrote (PyTorch 1.6 or newer), with the interface of SafetensorsFile. If
/// the file holds a dict with "state_dict" in it, as a checkpoint of Lightning does, the tensors are from there. No
/// code in the file is run, and everything that is neither a tensor nor plain data is refused by name. The file is
/// checked when it is opened, except for checksums, which are checked when bytes are read. Errors are
/// [fulgurite.checkpoint.pt_zip], [...pt_pickle] and [...pt_file].
///
///     PtFile const weights("resnet18.pt");
///     for (auto const& entry : weights.entries()) std::cout << entry.name << ' ' << entry.dtype << '\n';
class PtFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype;  ///< safetensors' name of the element type, such as "F32"
    std::vector<std::int64_t> shape;
    ZipArchive::Entry const* storage = nullptr;
    std::uint64_t offset = 0;           ///< in elements of the storage
    std::vector<std::int64_t> strides;  ///< in elements
  };

  explicit PtFile(std::filesystem::path path);
  FULGURITE_MOVES(PtFile);

  std::filesystem::path const& path() const { return zip_.path(); }
  /// The tensors, in the order of the state dict.
  std::vector<Entry> const& entries() const& { return entries_; }
  void entries() && = delete;
  /// The tensor of that name, or nullptr.
  Entry const* find(std::string_view name) const;
  /// Reads a tensor's bytes in row-major order into `into`, which must have exactly the tensor's size.
  void read(Entry const& entry, std::span<std::byte> into) const;

 private:
  [[noreturn]] void refuse(std::string const& why) const;

  ZipArchive::Entry const* find_pickle();
  void check_kind() const;

  /// The dict of weights: the file's value, or the entry "state_dict" in it.
  pickle::Dict const& state_dict(pickle::Values const& values) const;

  void add(pickle::Values const& values, pickle::Ref key, pickle::Tensor const& tensor);

  ZipArchive zip_;
  std::string root_;  // the folder in the archive, with a slash
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// Writes the weights as a state dict for Python's `torch.load(path)`, also with weights_only=True, its default. It is
/// durable as write_safetensors is, with the same `each`: called twice, in the same order.
///   write_pt("best.pt", [&](auto&& f) { LibTorch::each_weight(model, f); });
void write_pt(std::filesystem::path const& path, EachWeight each, std::uint64_t wide = zip::elsewhere);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/pt_file.ipp>
#endif
