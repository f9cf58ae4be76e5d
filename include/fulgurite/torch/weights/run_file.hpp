#pragma once
// A checkpoint of a LibTorch model, read: its weights, and the state of the run.

#include <filesystem>
#include <string>
#include <utility>

#include <fulgurite/checkpoint/assembly.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/state_memory.hpp>
#include <fulgurite/torch/weights/load_weights.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// What a fit goes on from. Making one reads the state and checks the file's layout; an Error where it is damaged.
class RunFile {
 public:
  using Saver = StateSaver;
  using Memory = StateMemory;

  explicit RunFile(std::filesystem::path const& path) : file_(path), tree_(run_state_if_any(file_)) {}

  /// Into a model built as the saved one, all of them or none. A model that the strategy has not converted yet takes
  /// them in the precision that it is in.
  template <class Model>
  void load_weights(Model& model) const {
    libtorch::load_weights(model, file_, {.convert = true});
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
    auto const each_shape = [&](auto&& f) {
      each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
        f(name, element_name(tensor.scalar_type(), name), tensor.sizes().vec());
      });
    };
    return assembly_difference(file_, tree_, each_shape, fold);
  }

  /// All of the state, to be looked into; empty where the file holds weights alone.
  ArchiveNode const& state() const { return tree_; }

 private:
  SafetensorsFile file_;
  ArchiveNode tree_;
};

}  // namespace fulgurite::libtorch
