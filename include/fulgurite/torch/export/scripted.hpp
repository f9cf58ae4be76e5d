#pragma once
// A TorchScript file as a model, or as a part of one: trained, frozen, saved and summarized like any other.

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

/// A module of TorchScript, which Python's torch.jit or export_torchscript has made, as a torch::nn::Module. Its
/// parameters and buffers are those of the file, by their names there, and so are its modules: optimizers, checkpoints,
/// summaries, freeze and to() see what they see of any other.
///
///     A part:         std::shared_ptr<Scripted> body = register_module("body", std::make_shared<Scripted>("body.pt"));
///     Or the model:   struct Net : Scripted { using Scripted::Scripted; auto training_step(auto const& batch) { ... }
///     };
///
/// train() and eval() reach what was scripted in Python. A trace, which is what export_torchscript writes, computes as
/// in eval mode in either, so that dropout is off in it.
class Scripted : public torch::nn::Module {
 public:
  /// Loads a file. Throws [fulgurite.scripted.file] if LibTorch cannot.
  explicit Scripted(std::filesystem::path const& file, at::Device device = at::kCPU);
  /// Takes a module that was loaded, or made, otherwise. It keeps its tensors, and others who have it share them.
  explicit Scripted(torch::jit::Module module);

  /// Calls forward, which has to return a tensor, or throws [fulgurite.scripted.result].
  template <class... Inputs>
  at::Tensor forward(Inputs const&... inputs) {
    return tensor(call({c10::IValue(inputs)...}));
  }
  /// Calls a method that takes or returns whatever TorchScript knows.
  c10::IValue call(std::vector<c10::IValue> inputs, std::string const& method = "forward");

  void train(bool on = true) override;

  /// The module itself, as to save it by script().save("net.pt").
  torch::jit::Module const& script() const { return module_; }

 private:
  /// The parts that were made so far: one that has two names is one here, too.
  using Parts = std::unordered_map<void const*, std::shared_ptr<Scripted>>;
  Scripted(torch::jit::Module module, Parts& parts);
  void take(Parts& parts);
  static at::Tensor tensor(c10::IValue const& result);

  torch::jit::Module module_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/export/scripted.ipp>
#endif
