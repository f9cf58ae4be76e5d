#pragma once
// Writes named tensors as Python's torch.save(state_dict, file) would, durably.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>

namespace fulgurite {

namespace pickle {

/// Writes the pickle of an OrderedDict of tensors, in protocol 2, with the opcodes and names that torch.load accepts by
/// default.
class StateDictWriter {
 public:
  StateDictWriter();
  /// Appends a tensor that fills the storage with that number.
  void add(std::string_view name, std::string_view storage, std::span<std::int64_t const> shape, std::size_t number);
  std::string finish() && { return std::move(text_ += "u."); }  // SETITEMS, STOP

 private:
  void global(std::string_view name);
  void ordered_dict() {
    global("collections.OrderedDict");
    text_ += ")R";  // EMPTY_TUPLE, REDUCE
  }
  void text(std::string_view value);
  void integer(std::uint64_t value);

  std::string text_;
};

/// PyTorch's name of the storage for safetensors' name of an element type; empty if PyTorch has none.
std::string_view storage_of(std::string_view dtype);

}  // namespace pickle

/// Writes the weights as a state dict for Python's `torch.load(path)`, also with weights_only=True, its default. It is
/// durable as write_safetensors is, with the same `each`: called twice, in the same order.
///   write_pt("best.pt", [&](auto&& f) { LibTorch::each_weight(model, f); });
void write_pt(std::filesystem::path const& path, EachWeight each, std::uint64_t wide = zip::elsewhere);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/pt_writer.ipp>
#endif
