#pragma once
// A trained model leaves: its forward and its weights as a TorchScript file, for programs without this library, in
// C++ and in Python. Not in fulgurite.hpp, since few programs export and LibTorch's tracer costs them seconds.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/export/forward.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

/// How export_torchscript makes a file.
struct ExportOptions {
  /// The dimension in which batches differ, of each tensor of the example that is as long in it as the first one; the
  /// file then takes batches of any size. Without it, `std::nullopt`, the file takes batches of the example's size, as
  /// far as forward depends on it.
  std::optional<std::int64_t> batch_dim = 0;
};

namespace libtorch {

/// A model's forward, with the arguments in a list.
using Forward = FunctionRef<c10::IValue(std::vector<at::Tensor> const&)>;

/// The result of a forward as a value of TorchScript.
template <class Result>
c10::IValue script_value(Result&& result) {
  using R = std::remove_cvref_t<Result>;
  if constexpr (std::convertible_to<R, at::Tensor>) return at::Tensor(result);
  else if constexpr (exporting::Several<R>)
    return std::apply(
        [](auto&... parts) { return c10::ivalue::Tuple::create(std::vector<c10::IValue>{script_value(parts)...}); },
        result);
  else return std::vector<at::Tensor>(result.begin(), result.end());
}

/// The part of export_torchscript that is the same for any model.
void export_torchscript(torch::nn::Module& model, Forward forward, std::vector<at::Tensor> const& example,
                        std::filesystem::path const& file, ExportOptions const& options);

}  // namespace libtorch

/// Writes a model's forward and its weights as a TorchScript file, which torch::jit::load and Python's torch.jit.load
/// read. `example`: an input of forward, on the model's device, or a tuple of its inputs.
///
///     export_torchscript(net, torch::zeros({1, 784}), "net.pt");
///     export_torchscript(net, std::tuple{images, lengths}, "net.pt");
///
/// forward runs in eval mode without gradients and LibTorch's tracer records its operators; the model is left as it
/// was. Parameters and buffers have their names in the file. What forward decides by numbers of the host is recorded as
/// decided; numbers that follow from the batch's size, such as `x.size(0)`, are computed again in the file. Before the
/// file gets its name it is loaded and has to give the model's results, bit for bit, for the example and for batches
/// of other sizes. Throws an Error [fulgurite.export...] if the model cannot be exported so; the old file is unchanged
/// then.
template <class Net, class Example>
void export_torchscript(Net& net, Example const& example, std::filesystem::path const& file,
                        ExportOptions const& options = {}) {
  if constexpr (exporting::exportable<Net, Example, at::Tensor>()) {
    auto const forward = [&](std::vector<at::Tensor> const& inputs) {
      return libtorch::script_value(exporting::forward_of<Example>(net, inputs));
    };
    libtorch::export_torchscript(libtorch::module_of(net), forward, exporting::list_of<at::Tensor>(example), file,
                                 options);
  }
}

/// The same with the weights of a checkpoint, usually the best one, which the model has from then on:
///
///     export_torchscript_from(trainer.callback<ModelCheckpoint<...>>().best_model_path(), net, example, "best.pt");
void export_torchscript_from(std::filesystem::path const& checkpoint, auto& net, auto const& example,
                             std::filesystem::path const& file, ExportOptions const& options = {}) {
  load_weights(net, checkpoint);
  export_torchscript(net, example, file, options);
}
/// The same for a checkpoint that also has the state of a data module, such as means and categories, which `data` has
/// from then on: the programs that use the file need inputs that are encoded so.
template <class Net, Stateful<StateLoader> Data, class Example>
void export_torchscript_from(std::filesystem::path const& checkpoint, Net& net, Data& data, Example const& example,
                             std::filesystem::path const& file, ExportOptions const& options = {}) {
  load_weights(net, data, checkpoint);
  export_torchscript(net, example, file, options);
}

// A TorchScript file as a model, or as a part of one: trained, frozen, saved and summarized like any other.

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
#include <fulgurite/torch/export/torchscript.ipp>
#endif
