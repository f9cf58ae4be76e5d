#pragma once
// LibTorch's module for each type of layer. It holds the layer's parameters, initialises and saves them, and computes.

#include <memory>
#include <type_traits>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include <fulgurite/torch/chain/layers.hpp>

namespace fulgurite::chain {

/// Names a layer in a call of `build`, which overloads choose by.
template <class L>
using Tag = std::type_identity<L>;

/// A module of LibTorch, made with these options.
template <class Impl>
std::shared_ptr<Impl> make(auto const&... options) {
  return std::make_shared<Impl>(options...);
}

/// Height and width as LibTorch's options take them.
inline torch::ExpandingArray<2> both(Size2 size) { return torch::ExpandingArray<2>({size.height, size.width}); }

/// A layer of the user's own.
template <class L>
  requires requires { typename L::Module; }
auto build(Tag<L>) {
  return make<typename L::Module>();
}

// clang-format off
inline auto build(Tag<Identity>) { return make<torch::nn::IdentityImpl>(); }
inline auto build(Tag<ReLU>) { return make<torch::nn::ReLUImpl>(); }
inline auto build(Tag<GELU>) { return make<torch::nn::GELUImpl>(); }
inline auto build(Tag<Tanh>) { return make<torch::nn::TanhImpl>(); }
inline auto build(Tag<Sigmoid>) { return make<torch::nn::SigmoidImpl>(); }
inline auto build(Tag<SiLU>) { return make<torch::nn::SiLUImpl>(); }
inline auto build(Tag<Mish>) { return make<torch::nn::MishImpl>(); }
inline auto build(Tag<Softplus>) { return make<torch::nn::SoftplusImpl>(); }
inline auto build(Tag<Flatten>) { return make<torch::nn::FlattenImpl>(); }
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

}  // namespace fulgurite::chain
