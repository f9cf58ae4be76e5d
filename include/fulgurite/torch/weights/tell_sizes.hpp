#pragma once
// Modules in C++ have no hooks, so a module of your own says itself what went in and out.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite {

namespace libtorch {

FULGURITE_COLD std::string sizes_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i != sizes.size(); ++i) (text += i == 0 ? "" : ", ") += std::to_string(sizes[i]);
  return text + "]";
}
/// The sizes of all tensors in some values.
template <class... Ts>
std::string all_sizes(Ts const&... values) {
  std::string text;
  auto const add = [&](at::Tensor const& tensor) {
    if (!text.empty()) text += ", ";
    text += sizes_text(tensor.sizes());
  };
  (each_tensor(values, add), ...);
  return text;
}

/// Who wants to know, in this thread.
class SizeListener {
 public:
  virtual void hear(torch::nn::Module const& module, std::string in, std::string out) = 0;
  static SizeListener*& current() {
    static thread_local SizeListener* one = nullptr;
    return one;
  }

 protected:
  ~SizeListener() = default;
};

}  // namespace libtorch

/// In `forward` of a module of your own, so that the model's summary has its sizes, which are a `?` without:
///   torch::Tensor forward(torch::Tensor x) { return fulgurite::tell_sizes(*this, body->forward(x), x); }
/// Returns `out`. While no summary is made it looks at a pointer, and does nothing else.
template <class Out, class... In>
Out tell_sizes(torch::nn::Module const& module, Out out, In const&... in) {
  if (auto* const listener = libtorch::SizeListener::current()) [[unlikely]]
    listener->hear(module, libtorch::all_sizes(in...), libtorch::all_sizes(out));
  return out;
}

}  // namespace fulgurite
