#pragma once
// Large gradients of a tape, each looked at right after its last write, while it is in the cache: see GradientLooks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/memory.hpp>
#include <fulgurite/torch/capture/out_form.hpp>
#include <fulgurite/torch/capture/tape_product.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>
#include <fulgurite/torch/native/small_call.hpp>
#include <fulgurite/torch/optim/gradient_looks.hpp>

namespace fulgurite::libtorch::capture {

/// One look. Where the last write is 0 + x it is done here, too, a stretch at a time that stays in the first cache.
struct TapeLook {
  std::shared_ptr<SeenGradients> seen;
  at::Tensor gradient, added = {};  ///< the parameter's own handle; x, or undefined
  bool finite = true;

  void run() {
    auto const size = static_cast<std::size_t>(gradient.numel());
    if (gradient.scalar_type() == at::kFloat) run<float>(size);
    else run<double>(size);
  }
  /// When the versions have moved as the recorded step moves them.
  void tell() const {
    if (seen->looks()) seen->note(gradient, finite);
  }

 private:
  static constexpr std::size_t stretch = 4096;

  template <class T>
  void run(std::size_t size) {
    auto* const to = static_cast<T*>(gradient.mutable_data_ptr());
    auto const* const from = added.defined() ? static_cast<T const*>(added.const_data_ptr()) : nullptr;
    bool const looks = seen->looks();
    finite = true;
    if (!from) return void(finite = !looks || all_finite(to, size));
    for (std::size_t i = 0; i < size; i += stretch) {
      auto const length = std::min(stretch, size - i);
      Memory::zero_plus(to + i, from + i, static_cast<std::int64_t>(length));
      if (looks) finite = all_finite(to + i, length) && finite;
    }
  }
};

/// f(tensor) for each tensor that a step of a tape may read or write.
template <class What, class F>
void each_tensor_of_step(What const& what, F f) {
  if (auto const* call = std::get_if<TapeStep>(&what)) {
    each_tensor_of(call->in, f);
    for (auto const& result : call->adopted) f(result.into);
  } else if (auto const* product = std::get_if<Product>(&what)) {
    for (auto const* tensor : {&product->a, &product->b, &product->c, &product->start})
      if (tensor->defined()) f(*tensor);
  } else if (auto const* small = std::get_if<native::SmallCall>(&what)) {
    for (auto const* tensors : {&small->in, &small->out})
      for (auto const& tensor : *tensors) f(tensor);
  } else if (auto const* memory = std::get_if<Memory>(&what)) {
    for (auto const& tensor : memory->tensors) f(tensor);
  } else {
    auto const& look = std::get<TapeLook>(what);
    f(look.gradient);
    if (look.added.defined()) f(look.added);
  }
}

/// The last of the steps that may write to this memory; nullopt: none does.
template <class Steps>
std::optional<std::size_t> last_to_touch(Steps const& steps, at::Tensor const& memory) {
  auto const mine = span_of(memory);
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i != steps.size(); ++i)
    each_tensor_of_step(steps[i].what, [&](at::Tensor const& tensor) {
      if (storage_of(tensor) != storage_of(memory)) return;
      auto const other = span_of(tensor);
      if (other.begin < mine.end && mine.begin < other.end) last = i;
    });
  return last;
}

/// Puts a look behind the last write to each large gradient of these parameters.
template <class Steps>
void add_looks(Steps& steps, std::vector<at::Tensor> const& parameters) {
  using Entry = typename Steps::value_type;
  for (auto const& parameter : parameters) {
    auto const& gradient = parameter.grad();
    auto seen = GradientLooks::seen_of(parameter);
    if (!seen || !gradient.defined() || !gradient.is_non_overlapping_and_dense() ||
        (gradient.scalar_type() != at::kFloat && gradient.scalar_type() != at::kDouble))
      continue;
    auto const last = last_to_touch(steps, gradient);
    if (!last) continue;
    TapeLook look{std::move(seen), gradient};
    auto const* const memory = std::get_if<Memory>(&steps[*last].what);
    if (memory && memory->kind == Memory::Kind::zero_plus && span_of(memory->tensors[0]) == span_of(gradient)) {
      look.added = memory->tensors[1];
      steps[*last].what = std::move(look);
    } else {
      steps.insert(std::next(steps.begin(), static_cast<std::ptrdiff_t>(*last) + 1), Entry{std::move(look), {}});
    }
  }
}

}  // namespace fulgurite::libtorch::capture
