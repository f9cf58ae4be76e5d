#pragma once
// Parts of models: activation checkpointing, which keeps only the inputs of a block and runs it a second time in
// backward, and a Linear that computes as PyTorch does in Python.

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/core/Device.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/custom_class.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/rng.hpp>

namespace fulgurite::libtorch {

/// The type that autocast used for one kind of device on this thread when the object was made; nothing if it was off.
class AutocastAsNow {
 public:
  explicit AutocastAsNow(at::DeviceType device);

  /// Until the scope ends, autocast for the device on this thread is as it was then.
  class Scope : Pinned {
   public:
    explicit Scope(AutocastAsNow const& then);
    ~Scope();

   private:
    at::DeviceType device_;
    bool switched_off_ = false;
    std::optional<AutocastScope> on_;
  };

 private:
  at::DeviceType device_;
  std::optional<at::ScalarType> type_;
};

/// Inputs of a block with undefined ones at their places: `defined` says which of them are given.
std::vector<at::Tensor> with_undefined(std::vector<bool> const& defined, at::TensorList given);

/// A block, and everything besides its inputs that determines its result.
template <class Block>
struct Rerun : torch::CustomClassHolder {
  Block block;
  std::vector<bool> defined;  ///< for each input; a node takes no others
  RngState random;
  AutocastAsNow cpu{at::kCPU};
  std::optional<AutocastAsNow> accelerator;

  Rerun(Block&& its, std::vector<bool> which) : block(std::forward<Block>(its)), defined(std::move(which)) {
    if (auto const kind = at::getAccelerator()) accelerator.emplace(*kind);
  }
  /// Runs `what(block)` with a graph, under the conditions of the block's first run; restores random numbers and
  /// buffers afterwards.
  void again(auto&& what) {
    RngScope const after;
    BuffersKept const buffers(block);
    random.restore();
    AutocastAsNow::Scope const on_cpu(cpu);
    std::optional<AutocastAsNow::Scope> on_accelerator;
    if (accelerator) on_accelerator.emplace(*accelerator);
    at::AutoGradMode const graph(true);
    what(block);
  }
};

/// The node of the graph that represents a whole block.
template <class Block, std::size_t Inputs>
struct CheckpointedBlock : torch::autograd::Function<CheckpointedBlock<Block, Inputs>> {
  using List = torch::autograd::variable_list;
  using Kept = Rerun<Block>;

  static at::Tensor call(auto& block, List const& inputs) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) -> at::Tensor {
      if constexpr (requires { block->forward(inputs[I]...); }) return block->forward(inputs[I]...);
      else if constexpr (requires { block.forward(inputs[I]...); }) return block.forward(inputs[I]...);
      else return block(inputs[I]...);
    }(std::make_index_sequence<Inputs>{});
  }

  static at::Tensor forward(torch::autograd::AutogradContext* context, c10::intrusive_ptr<Kept> const& kept,
                            at::Tensor const& /*asks_for_gradients*/, at::TensorList inputs) {
    context->saved_data["block"] = c10::IValue::make_capsule(kept);
    context->save_for_backward(inputs.vec());
    return call(kept->block, with_undefined(kept->defined, inputs));
  }

  static List backward(torch::autograd::AutogradContext* context, List const& gradients) {
    refuse_what_would_be_lost();
    auto const kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["block"].toCapsule());
    List inputs;
    for (auto const& input : context->get_saved_variables())
      inputs.push_back(input.detach().requires_grad_(input.requires_grad()));
    // Buffers must not be restored before backward has read the results of the second run.
    kept->again([&](auto& block) {
      auto const result = call(block, with_undefined(kept->defined, inputs));
      if (result.requires_grad()) torch::autograd::backward({result}, {gradients.front()});
    });
    List all(2);  // the block and the tensor that requires gradients have no gradient
    for (auto const& input : inputs) all.push_back(input.grad());
    return all;
  }

 private:
  static void refuse_what_would_be_lost() {
    if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid())
      throw Error("fulgurite.checkpointed.some_gradients",
                  "torch::autograd::grad would pass by the parameters inside checkpointed(block, ...): call "
                  "backward() on the loss, or the block itself where gradients are asked for by name");
    if (at::GradMode::is_enabled())
      throw Error("fulgurite.checkpointed.second_gradients",
                  "backward with create_graph = true asks checkpointed(block, ...) for gradients of gradients, which "
                  "a block that is computed again does not have: call the block itself");
  }
};

}  // namespace fulgurite::libtorch

namespace fulgurite {

/// Activation checkpointing: runs `block(inputs...)`, or its `forward`, without keeping intermediate results; backward
/// computes them again. Use it for blocks that need much memory and are cheap to compute, such as the layers of a
/// transformer: `x = checkpointed(layer, x);`. Memory is reduced to the inputs of the blocks, and a step takes about a
/// third longer. Result and gradients have the same bits as without it: the second run draws the same random numbers,
/// computes in the same precision, and does not change a module's buffers.
///
/// `block`: a module, or a function of tensors that returns a tensor. A module (or a pointer to one) is referenced and
/// must live until backward; anything else is copied, and what a lambda captures by reference must live as long.
/// `inputs`: tensors, of which some may be undefined. Without a graph, as in validation, it just calls the block.
///
/// In a captured fit, the steps of a block that draws random numbers are not replayed; a warning says so once. Throws
/// [fulgurite.checkpointed.some_gradients] for torch::autograd::grad, and [fulgurite.checkpointed.second_gradients] for
/// create_graph.
///
/// Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
template <class Block, std::same_as<at::Tensor>... Inputs>
at::Tensor checkpointed(Block&& block, Inputs const&... inputs) {
  using Plain = std::remove_reference_t<Block>;
  using Held = std::conditional_t<std::is_lvalue_reference_v<Block> && std::derived_from<Plain, torch::nn::Module>,
                                  Plain&, std::remove_cv_t<Plain>>;
  using Node = libtorch::CheckpointedBlock<Held, sizeof...(Inputs)>;
  if (!at::GradMode::is_enabled()) return Node::call(block, {inputs...});
  // Parameters inside of the block require gradients even if no input does.
  auto const asks = at::empty({0}, at::TensorOptions(at::kFloat)).requires_grad_(!(inputs.requires_grad() || ...));
  Held held(std::forward<Block>(block));
  auto const kept =
      c10::make_intrusive<libtorch::Rerun<Held>>(std::forward<Held>(held), std::vector<bool>{inputs.defined()...});
  std::vector<at::Tensor> given{inputs...};
  std::erase_if(given, [](at::Tensor const& input) { return !input.defined(); });
  return Node::apply(kept, asks, at::TensorList(given));
}

}  // namespace fulgurite

namespace fulgurite::modules {

/// The module that `modules::Linear` holds.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  explicit LinearImpl(torch::nn::LinearImpl const& other) : torch::nn::LinearImpl(other) {}

  at::Tensor forward(at::Tensor const& input);

  /// LibTorch's own would make a torch::nn::Linear, since that is the class that it was written for.
  std::shared_ptr<torch::nn::Module> clone(std::optional<at::Device> const& device = std::nullopt) const override;
};

/// A torch::nn::Linear that calls at::linear, as torch.nn.Linear does in Python. LibTorch's own class multiplies and
/// then adds the bias wherever the input is not a matrix: another pass over the whole result, forward and backward,
/// which a transformer pays for in each of its layers. at::linear makes one matrix of a contiguous input of any
/// dimensions, and adds the bias inside the product.
///
/// Options, initial weights to the bit, names of parameters, checkpoints and `as<torch::nn::Linear>()` are those of
/// torch::nn::Linear, so one may take the place of the other:
///
///     modules::Linear head = register_module("head", modules::Linear(128, 10));
///
/// Results for matrices have the same bits; those for more dimensions may differ in the last ones.
TORCH_MODULE(Linear);

}  // namespace fulgurite::modules

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/modules.ipp>
#endif
