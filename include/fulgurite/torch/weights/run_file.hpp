#pragma once
// A checkpoint of a LibTorch model, read: its weights, and the state of the run.

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <variant>

#include <fulgurite/checkpoint/assembly.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/checkpoint/state_memory.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/weights/load_weights.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// What a fit goes on from, or whose weights an evaluation has: these may be of a file of Python's, too, which its name
/// says (see is_pt_name). Making one reads the state and checks the file's layout; an Error where it is damaged.
class RunFile {
 public:
  using Saver = StateSaver;
  using Memory = StateMemory;

  explicit RunFile(std::filesystem::path const& path) {
    if (is_pt_name(path) && is_zip(path)) {  // a ModelCheckpoint's own files may have such an ending, too
      file_.emplace<PtFile>(path);
    } else {
      tree_ = run_state_if_any(file_.emplace<SafetensorsFile>(path));
    }
  }

  /// Into a model built as the saved one, all of them or none. A model that the strategy has not converted yet takes
  /// them in the precision that it is in.
  template <class Model>
  void load_weights(Model& model) const {
    if (auto const* const ours = std::get_if<SafetensorsFile>(&file_))
      libtorch::load_weights(model, *ours, {.convert = true});
    else libtorch::load_weights(model, std::get<PtFile>(file_), {.convert = true});
  }
  /// fold(archive): all of the state that it visits, or nothing.
  template <class Fold>
  void load(Fold&& fold) const {
    load_state(tree_, fold);
  }
  /// The same for a fold that visits everything: what neither it nor a fold before it reads does not fit.
  template <class Fold>
  void load_whole(Fold&& fold) const {
    load_state(tree_, fold, Unread::refused);
  }

  /// In which parts a program differs from the one that wrote the file; `fold(archive)` saves its list of parts.
  template <class Model, class Fold>
  std::string difference(Model& model, Fold&& fold) const {
    auto const* const ours = std::get_if<SafetensorsFile>(&file_);
    if (ours == nullptr) return {};
    auto const each_shape = [&](auto&& f) {
      each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
        f(name, element_name(tensor.scalar_type(), name), tensor.sizes().vec());
      });
    };
    return assembly_difference(*ours, tree_, each_shape, fold);
  }

  /// All of the state, to be looked into; empty where the file holds weights alone.
  ArchiveNode const& state() const { return tree_; }

 private:
  FULGURITE_COLD static bool is_zip(std::filesystem::path const& path) {
    std::array<char, 4> first{};
    std::ifstream(path, std::ios::binary).read(first.data(), first.size());
    return first == std::array{'P', 'K', '\3', '\4'};
  }

  std::variant<std::monostate, SafetensorsFile, PtFile> file_{};
  ArchiveNode tree_{};
};

}  // namespace fulgurite::libtorch
