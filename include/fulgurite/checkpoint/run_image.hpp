#pragma once
// What a file of a run will hold, copied: it can be written while the run goes on.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/hyperparameters.hpp>

namespace fulgurite {

/// A copy of the weights and of the state of a run, in memory that is used again by the next copy.
class RunImage {
 public:
  /// Copies: the arguments are those of save_run_file.
  template <class Fold>
  void take(EachWeight each_weight, Fold&& fold, std::span<Hyperparameter const> hyperparameters) {
    begin(hyperparameters);
    StateSaver saver(tree_, {}, StateSaver::Tensors::borrowed);
    fold(saver);
    copy(each_weight);
  }

  /// Writes the file, durably. Any thread may; `take` and `rename` have to wait until it returns.
  FULGURITE_COLD void write(std::filesystem::path const& path) const {
    auto metadata = run_metadata(path, tree_, hyperparameters_, {}, safetensors::longest_header, [](auto const&) {});
    auto const each = [&](TakeWeight f) {
      for (std::size_t i = 0; auto const& part : parts_)
        f(std::string_view(part.name), WeightView{part.dtype, part.shape, std::span(memory_[i++])});
    };
    write_safetensors(path, std::move(metadata), each, Checksums::written, AddFingerprint{tree_});
  }

  /// The state says `to` wherever it said `from`: a file got another name after the copy was made.
  void rename(std::filesystem::path const& from, std::filesystem::path const& to) {
    if (!from.empty()) rename(tree_, from.native(), to.native());
  }

 private:
  struct Part {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };

  FULGURITE_COLD void begin(std::span<Hyperparameter const> hyperparameters) {
    parts_.clear();
    tree_ = {};
    hyperparameters_.assign(hyperparameters.begin(), hyperparameters.end());
  }
  FULGURITE_COLD void copy(EachWeight each_weight) {
    each_weight([&](std::string_view name, WeightView const& view) {
      refuse_state_name("a file of the run", name);
      add(std::string(name), std::string(view.dtype), view.shape, view.bytes);
    });
    copy_tensors();
  }

  FULGURITE_COLD void add(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                          std::span<std::byte const> bytes) {
    if (parts_.size() == memory_.size()) memory_.emplace_back();
    memory_[parts_.size()].assign(bytes.begin(), bytes.end());
    parts_.push_back({std::move(name), std::move(dtype), std::move(shape)});
  }

  /// The tree keeps the names of its tensors, and nothing of the tensors themselves.
  FULGURITE_COLD void copy_tensors() {
    each_tensor(tree_, [&](ArchiveTensor& one) {
      one.tensor.read([&](SavedTensor::Bytes bytes) {
        add(std::string(state_tensor_prefix) + one.name, one.tensor.dtype(), one.tensor.shape(), bytes);
      });
      one.tensor = {};
    });
  }
  FULGURITE_COLD static void rename(ArchiveNode& node, std::string const& from, std::string const& to) {
    if (auto* const text = std::get_if<std::string>(&node.value); text != nullptr && *text == from) *text = to;
    each_child(node, [&](ArchiveNode& child) { rename(child, from, to); });
  }

  ArchiveNode tree_ = {};
  std::vector<Hyperparameter> hyperparameters_{};
  std::vector<Part> parts_{};
  std::vector<std::vector<std::byte>> memory_{};  ///< of each part: what came at its place before had its size
};

}  // namespace fulgurite
