#pragma once
// Chain: a sequence of layers that the compiler knows. It is a torch::nn::Sequential with checked shapes and no type
// erasure.

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/chain/layers.hpp>
#include <fulgurite/torch/chain/shapes.hpp>

namespace fulgurite {
namespace chain {

// LibTorch's module for each type of layer. It holds, initialises and saves the layer's parameters, and computes.

/// A tag for a layer type, by which overloads of `build` are chosen.
template <class L>
using Tag = std::type_identity<L>;

/// Makes a LibTorch module with these options.
template <class Impl>
std::shared_ptr<Impl> make(auto const&... options) {
  return std::make_shared<Impl>(options...);
}

/// Height and width in the form that LibTorch's options take.
inline auto both(Size2 size) { return torch::ExpandingArray<2>({size.height, size.width}); }

/// A user's own layer.
template <class L>
  requires requires { typename L::Module; }
auto build(Tag<L>) {
  return make<typename L::Module>();
}

// clang-format off
// Templates, so that a program that includes this header makes no module of a layer that it does not use.
template <std::same_as<Identity> L> auto build(Tag<L>) { return make<torch::nn::IdentityImpl>(); }
template <std::same_as<ReLU> L> auto build(Tag<L>) { return make<torch::nn::ReLUImpl>(); }
template <std::same_as<GELU> L> auto build(Tag<L>) { return make<torch::nn::GELUImpl>(); }
template <std::same_as<Tanh> L> auto build(Tag<L>) { return make<torch::nn::TanhImpl>(); }
template <std::same_as<Sigmoid> L> auto build(Tag<L>) { return make<torch::nn::SigmoidImpl>(); }
template <std::same_as<SiLU> L> auto build(Tag<L>) { return make<torch::nn::SiLUImpl>(); }
template <std::same_as<Mish> L> auto build(Tag<L>) { return make<torch::nn::MishImpl>(); }
template <std::same_as<Softplus> L> auto build(Tag<L>) { return make<torch::nn::SoftplusImpl>(); }
template <std::same_as<Flatten> L> auto build(Tag<L>) { return make<torch::nn::FlattenImpl>(); }
template <auto A> auto build(Tag<ELU<A>>) { return make<torch::nn::ELUImpl>(torch::nn::ELUOptions().alpha(A)); }
template <int D> auto build(Tag<Softmax<D>>) { return make<torch::nn::SoftmaxImpl>(torch::nn::SoftmaxOptions(D)); }
template <auto P> auto build(Tag<Dropout<P>>) { return make<torch::nn::DropoutImpl>(P); }
template <auto P> auto build(Tag<Dropout2d<P>>) { return make<torch::nn::Dropout2dImpl>(P); }
// clang-format on
template <auto A>
auto build(Tag<LeakyReLU<A>>) {
  return make<torch::nn::LeakyReLUImpl>(torch::nn::LeakyReLUOptions().negative_slope(A));
}
template <int D>
auto build(Tag<LogSoftmax<D>>) {
  return make<torch::nn::LogSoftmaxImpl>(torch::nn::LogSoftmaxOptions(D));
}
template <Extent I, Extent O, bool B>
auto build(Tag<Linear<I, O, B>>) {
  return make<torch::nn::LinearImpl>(torch::nn::LinearOptions(I, O).bias(B));
}
template <Extent N, Extent F>
auto build(Tag<Embedding<N, F>>) {
  return make<torch::nn::EmbeddingImpl>(torch::nn::EmbeddingOptions(N, F));
}
template <Extent... E>
auto build(Tag<LayerNorm<E...>>) {
  return make<torch::nn::LayerNormImpl>(torch::nn::LayerNormOptions({E...}));
}
template <Size2 O>
auto build(Tag<AdaptiveAvgPool2d<O>>) {
  return make<torch::nn::AdaptiveAvgPool2dImpl>(torch::nn::AdaptiveAvgPool2dOptions({O.height, O.width}));
}

template <Extent I, Extent O, Extent K, Conv1dOptions Given>
auto build(Tag<Conv1d<I, O, K, Given>>) {
  auto options = torch::nn::Conv1dOptions(I, O, K).stride(Given.stride).padding(Given.padding);
  options.dilation(Given.dilation).groups(Given.groups).bias(Given.bias);
  return make<torch::nn::Conv1dImpl>(options);
}
template <Extent I, Extent O, Size2 K, Conv2dOptions Given>
auto build(Tag<Conv2d<I, O, K, Given>>) {
  auto options = torch::nn::Conv2dOptions(I, O, both(K)).stride(both(Given.stride)).padding(both(Given.padding));
  options.dilation(both(Given.dilation)).groups(Given.groups).bias(Given.bias);
  return make<torch::nn::Conv2dImpl>(options);
}

template <Size2 K, Pool2dOptions Given>
auto build(Tag<MaxPool2d<K, Given>>) {
  auto const options = torch::nn::MaxPool2dOptions(both(K)).stride(both(MaxPool2d<K, Given>::stride));
  return make<torch::nn::MaxPool2dImpl>(torch::nn::MaxPool2dOptions(options).padding(both(Given.padding)));
}
template <Size2 K, Pool2dOptions Given>
auto build(Tag<AvgPool2d<K, Given>>) {
  auto const options = torch::nn::AvgPool2dOptions(both(K)).stride(both(AvgPool2d<K, Given>::stride));
  return make<torch::nn::AvgPool2dImpl>(torch::nn::AvgPool2dOptions(options).padding(both(Given.padding)));
}

/// The module of a BatchNorm1d or BatchNorm2d over F features.
template <class Impl, Extent F, BatchNormOptions Given>
auto batch_norm() {
  auto options = torch::nn::BatchNormOptions(F).eps(Given.eps).momentum(Given.momentum);
  return make<Impl>(options.affine(Given.affine).track_running_stats(Given.track_running_stats));
}
template <Extent F, BatchNormOptions Given>
auto build(Tag<BatchNorm1d<F, Given>>) {
  return batch_norm<torch::nn::BatchNorm1dImpl, F, Given>();
}
template <Extent F, BatchNormOptions Given>
auto build(Tag<BatchNorm2d<F, Given>>) {
  return batch_norm<torch::nn::BatchNorm2dImpl, F, Given>();
}

/// How a layer is made and called: the type of its module, `make()`, and `forward(module, x)`.
template <class L>
struct Parts {
  using Module = typename decltype(build(Tag<L>{}))::element_type;
  static auto make() { return build(Tag<L>{}); }
  static at::Tensor forward(Module& module, at::Tensor x) { return module.forward(std::move(x)); }
};
template <class... Layers>
struct Parts<Chain<Layers...>> {
  using Module = Chain<Layers...>;
  static auto make() { return std::make_shared<Module>(); }
  static at::Tensor forward(Module& module, at::Tensor x) { return module.forward(std::move(x)); }
};
template <class Branch>
struct Parts<Residual<Branch>> {
  using Module = typename Parts<Branch>::Module;
  static auto make() { return Parts<Branch>::make(); }
  static at::Tensor forward(Module& module, at::Tensor x) {
    auto const branch = Parts<Branch>::forward(module, x);
    return x + branch;
  }
};

/// The layers that have a module: all except Input. The list is empty if the layers do not fit, so that one mistake
/// causes one error.
template <class Seen, class... Rest>
struct Held {
  using type = Seen;
};
template <class... Seen, class L, class... Rest>
struct Held<List<Seen...>, L, Rest...>
    : Held<std::conditional_t<is_input<L>, List<Seen...>, List<Seen..., L>>, Rest...> {};

template <class Layers>
struct Modules;
template <class... Layers>
struct Modules<List<Layers...>> {
  using type = std::tuple<std::shared_ptr<typename Parts<Layers>::Module>...>;

  static type make() {
    return type{Parts<Layers>::make()...};
  }  // braces evaluate in order, so random numbers are drawn in this order
  static at::Tensor forward(type const& all, at::Tensor x) {
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      ((x = Parts<Layers>::forward(*std::get<Is>(all), std::move(x))), ...);
    }(std::index_sequence_for<Layers...>{});
    return x;
  }
  static void each(type const& all, auto&& f) {
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      (f(*std::get<Is>(all),
         [module = std::get<Is>(all)](at::Tensor x) { return Parts<Layers>::forward(*module, std::move(x)); }),
       ...);
    }(std::index_sequence_for<Layers...>{});
  }
};

}  // namespace chain

/// A module that runs layers in sequence: `Chain<Linear<784, 256>, ReLU, Linear<256, 10>>`. Layers that do not fit each
/// other do not compile. A chain has the constants of ChainShape (parameter_count, flops, output_shape). Its parameters
/// are initialised and named like those of torch::nn::Sequential ("0.weight", "2.bias"), so either can read the other's
/// files; Input<...> does not count as a layer.
///
///     Part of a model:   Chain<Linear<784, 256>, ReLU, Linear<256, 10>> body{*this, "body"};    then body(x)
///     Or the model:      struct Net : Chain<Linear<784, 10>> { auto training_step(auto const& batch) { ... } };
///
/// Copies share their layers, like LibTorch's module holders. clone() is a deep copy; for a class derived from Chain it
/// throws fulgurite.chain.clone, since it would slice the object: override clone, or hold the chain as a member.
template <class... Layers>
class Chain : public torch::nn::Module, public chain::Constants<Layers...> {
  using Facts = chain::Constants<Layers...>;
  static_assert(sizeof(typename Facts::Said) != 0);
  using Modules = chain::Modules<typename std::conditional_t<Facts::sound, chain::Held<chain::List<>, Layers...>,
                                                             chain::Held<chain::List<>>>::type>;

 public:
  Chain() : Chain(Modules::make()) {}
  /// A chain without layers, like an empty holder of torch::nn: for a member that reset() assigns, `body =
  /// decltype(body)(*this, "body")`. Using it before throws fulgurite.chain.unassigned.
  explicit Chain(std::nullptr_t) {}
  /// Registers itself under this name in the model `parent`.
  Chain(torch::nn::Module& parent, std::string name) : Chain() {
    parent.register_module(std::move(name), std::make_shared<Chain>(*this));
  }

  at::Tensor forward(at::Tensor x) { return Modules::forward(layers(), std::move(x)); }
  at::Tensor operator()(at::Tensor x) { return Modules::forward(layers(), std::move(x)); }

  /// LibTorch's module of a layer, by index: `body.layer<0>().weight`.
  template <std::size_t I>
  auto& layer() const {
    return *std::get<I>(layers());
  }

  /// Calls `f(module, forward)` for each layer, in order; forward(x) is the layer's output for x.
  void each_layer(auto&& f) const { Modules::each(layers(), f); }

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = std::nullopt) const override {
    if (typeid(*this) != typeid(Chain))
      throw Error("fulgurite.chain.clone", "clone() of a class derived from Chain would leave that class out: override "
                                           "clone there, or make the chain a member");
    auto const copy = std::shared_ptr<Chain>(new Chain(std::apply(
        [&](auto const&... each) {
          return decltype(layers_){
              std::static_pointer_cast<std::remove_cvref_t<decltype(*each)>>(each->clone(device))...};
        },
        layers())));
    *copy->training_ = is_training();
    return copy;
  }
  /// All copies share one flag, so that a member of a model is in training mode when the model is.
  void train(bool on = true) override {
    *training_ = on;
    Module::train(on);
  }
  bool is_training() const noexcept override { return *training_; }

 private:
  explicit Chain(typename Modules::type layers) : layers_(std::move(layers)) {
    std::size_t index = 0;
    std::apply([&](auto const&... each) { (register_module(std::to_string(index++), each), ...); }, layers_);
  }
  auto const& layers() const {
    if constexpr (Facts::sound)
      if (!std::get<0>(layers_))
        throw Error("fulgurite.chain.unassigned",
                    "this Chain was made of nullptr and has no layers yet: assign it one, "
                    "as in reset(), before it is used");
    return layers_;
  }
  /// Used when clone() copies a model that contains this chain: copies the other chain's values in place, since copies
  /// of this chain share their layers.
  void clone_(torch::nn::Module& other, std::optional<torch::Device> const& device) override {
    auto const copy = std::dynamic_pointer_cast<Chain>(other.clone(device));
    assign(*copy, std::make_index_sequence<std::tuple_size_v<decltype(layers_)>>{});
  }
  template <std::size_t... Is>
  void assign(Chain const& other, std::index_sequence<Is...>) {
    (take(*std::get<Is>(layers_), *std::get<Is>(other.layers_)), ...);
    *training_ = *other.training_;
  }
  template <class Module>
  static void take(Module& mine, Module const& its) {
    if constexpr (chain::is_chain<Module>)
      mine.assign(its, std::make_index_sequence<std::tuple_size_v<decltype(its.layers_)>>{});
    else mine = its;
  }

  template <class...>
  friend class Chain;

  typename Modules::type layers_;
  std::shared_ptr<bool> training_ = std::make_shared<bool>(true);
};

}  // namespace fulgurite
