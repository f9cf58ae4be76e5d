#pragma once
// The bodies of torch/data/mnist.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/data/mnist.hpp>

namespace fulgurite::data {

FULGURITE_BODY std::string scale_text(std::optional<Standardization> const& scale) {
  return scale ? "normalised by mean " + std::to_string(scale->mean) + " and deviation " +
                     std::to_string(scale->deviation)
               : std::string("as they are, from 0 to 1");
}

FULGURITE_MADE(class MnistModule<>);
FULGURITE_MADE(void MnistModule<>::state(::fulgurite::StateSaver&));
FULGURITE_MADE(void MnistModule<>::state(::fulgurite::StateLoader&));
FULGURITE_MADE(MnistModule<> mnist(std::filesystem::path const&, MnistOptions, Untouched));
FULGURITE_MADE(TensorModule<> digits(DigitsOptions, Untouched));
FULGURITE_MADE(TensorModule<> digits8x8(std::filesystem::path const&, Digits8x8Options, Untouched));

}  // namespace fulgurite::data
