#pragma once
// How large the objects of LibTorch's own layers are, so that a changed option of one is noticed.

#include <cstddef>
#include <typeindex>
#include <unordered_map>

#include <torch/nn/modules.h>

namespace fulgurite::libtorch::capture {

template <class... Layers>
std::unordered_map<std::type_index, std::size_t> sizes_of() {
  return {{typeid(Layers), sizeof(Layers)}...};
}

/// The size of the whole object if its class is exactly one of LibTorch's layers. 0 for every other class, which may
/// have members that nobody knows.
inline std::size_t size_of_known(torch::nn::Module const& module) {
  using namespace torch::nn;
  static auto const sizes =
      sizes_of<LinearImpl, BilinearImpl, IdentityImpl, FlattenImpl, UnflattenImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl,
               ConvTranspose1dImpl, ConvTranspose2dImpl, ConvTranspose3dImpl, DropoutImpl, Dropout2dImpl, Dropout3dImpl,
               AlphaDropoutImpl, FeatureAlphaDropoutImpl, BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl,
               InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl, LayerNormImpl, GroupNormImpl,
               LocalResponseNormImpl, CrossMapLRN2dImpl, EmbeddingImpl, EmbeddingBagImpl, RNNImpl, LSTMImpl, GRUImpl,
               RNNCellImpl, LSTMCellImpl, GRUCellImpl, ELUImpl, SELUImpl, HardshrinkImpl, HardtanhImpl, LeakyReLUImpl,
               LogSigmoidImpl, SoftmaxImpl, SoftminImpl, LogSoftmaxImpl, PReLUImpl, ReLUImpl, ReLU6Impl, RReLUImpl,
               CELUImpl, GLUImpl, GELUImpl, SiLUImpl, MishImpl, SigmoidImpl, SoftplusImpl, SoftshrinkImpl, SoftsignImpl,
               TanhImpl, TanhshrinkImpl, ThresholdImpl, MultiheadAttentionImpl, TransformerEncoderLayerImpl,
               TransformerDecoderLayerImpl, TransformerEncoderImpl, TransformerDecoderImpl, TransformerImpl,
               AvgPool1dImpl, AvgPool2dImpl, AvgPool3dImpl, MaxPool1dImpl, MaxPool2dImpl, MaxPool3dImpl,
               AdaptiveAvgPool1dImpl, AdaptiveAvgPool2dImpl, AdaptiveMaxPool1dImpl, AdaptiveMaxPool2dImpl, UpsampleImpl,
               PixelShuffleImpl, ZeroPad2dImpl, ReflectionPad2dImpl, ReplicationPad2dImpl, SequentialImpl,
               ModuleListImpl, ModuleDictImpl, ParameterListImpl, ParameterDictImpl, CrossEntropyLossImpl, NLLLossImpl,
               MSELossImpl, L1LossImpl, SmoothL1LossImpl, HuberLossImpl, BCELossImpl, BCEWithLogitsLossImpl,
               KLDivLossImpl, CosineEmbeddingLossImpl, TripletMarginLossImpl>();
  auto const found = sizes.find(typeid(module));
  return found == sizes.end() ? 0 : found->second;
}

}  // namespace fulgurite::libtorch::capture
