#pragma once
// What a tape may touch beside its batch: the parameters, gradients and buffers of one model, and whether they are still what they were.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <fulgurite/torch/averaging.hpp>
#include <fulgurite/torch/capture/frozen.hpp>

namespace fulgurite::libtorch::capture {

/// Switches of LibTorch that decide which operators a step calls.
struct Modes {
  explicit Modes(at::DeviceType type) : autocast(at::autocast::is_autocast_enabled(type)), cast(at::autocast::get_autocast_dtype(type)) {}
  bool graph = c10::GradMode::is_enabled();
  bool inference = c10::InferenceMode::is_enabled();
  bool autocast;
  at::ScalarType cast;
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool onednn = at::globalContext().userEnabledMkldnn();
  bool flash = at::globalContext().userEnabledFlashSDP(), efficient = at::globalContext().userEnabledMemEfficientSDP();
  c10::ScalarType floating = c10::get_default_dtype_as_scalartype();
  friend bool operator==(Modes const&, Modes const&) = default;
};

/// One tensor of the model: the handle, where its memory is, and what makes autograd treat it as it does.
class Watched {
 public:
  explicit Watched(at::Tensor tensor) : tensor_(std::move(tensor)), copy_(frozen(tensor_)), data_(tensor_.data_ptr()), hooks_(hooks(tensor_)) {}

  bool unchanged() const {
    return tensor_.unsafeGetTensorImpl()->has_storage() && storage_of(tensor_) == storage_of(copy_) && tensor_.const_data_ptr() == data_ &&
           same_layout(tensor_, copy_) && tensor_.requires_grad() == copy_.requires_grad() && hooks(tensor_) == hooks_;
  }
  at::Tensor const& tensor() const { return tensor_; }

 private:
  /// Hooks of C++ stand in a list behind one hook; one that is removed leaves an empty place.
  struct Hooks {
    std::size_t count = 0, listed = 0;
    std::ptrdiff_t removed = 0;
    void const* after = nullptr;
    friend bool operator==(Hooks const&, Hooks const&) = default;
  };
  static Hooks hooks(at::Tensor const& tensor) {
    auto const* meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (!meta) return {};
    Hooks found{.count = meta->hooks_.size(), .after = meta->post_acc_grad_hooks_.get()};
    if (auto const& list = meta->cpp_hooks_list_) {
      found.listed = list->size();
      found.removed = std::count(list->begin(), list->end(), nullptr);
    }
    return found;
  }

  at::Tensor tensor_, copy_;
  void* data_;
  Hooks hooks_;
};

/// The model when a step was recorded.
class World {
 public:
  explicit World(torch::nn::Module& model, at::Device device = at::kCPU) : device_(device), modes_(device.type()) {
    for (auto const& parameter : distinct(model.parameters())) {
      add(parameter);
      parameters_.emplace_back(parameter, parameter.grad());
      if (parameter.grad().defined()) add(parameter.grad());
    }
    buffers_ = distinct(model.buffers());
    for (auto const& buffer : buffers_) add(buffer);
    modules_.emplace_back(&model, model.is_training());
    for (auto const& module : model.modules(false)) {
      owned_.push_back(module);
      modules_.emplace_back(module.get(), module->is_training());
    }
  }

  /// A tensor that cannot be watched: the model stays eager.
  std::string const& refusal() const { return refusal_; }

  /// Asked before each replay: whether all of it is where it was, and nothing was switched.
  bool unchanged() const {
    if (!(Modes(device_.type()) == modes_)) return false;
    for (auto const& watched : watched_)
      if (!watched.unchanged()) return false;
    for (auto const& [parameter, gradient] : parameters_)
      if (!parameter.grad().is_same(gradient)) return false;
    for (auto const& [module, training] : modules_)
      if (module->is_training() != training) return false;
    return true;
  }

  /// Whether the model consists of what it did: slower to ask, and not asked before each replay.
  bool is_of(torch::nn::Module const& model) const {
    auto const parameters = distinct(model.parameters()), buffers = distinct(model.buffers());
    auto const modules = model.modules(false);
    auto const same = [](at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); };
    return std::equal(parameters.begin(), parameters.end(), parameters_.begin(), parameters_.end(), [&](auto const& a, auto const& b) { return same(a, b.first); }) &&
           std::equal(buffers.begin(), buffers.end(), buffers_.begin(), buffers_.end(), same) && modules == owned_;
  }

  /// The number of this memory; nullopt: it is none of the model's.
  std::optional<std::size_t> number(Storage storage) const {
    auto const found = numbers_.find(storage);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  /// f(tensor) for each parameter, gradient and buffer.
  template <class F>
  void each_tensor(F&& f) const {
    for (auto const& watched : watched_) f(watched.tensor());
  }

  /// All bytes, one piece of memory after another: whole ones, since a call may write a part that belongs to no tensor (an arena's clearing).
  std::vector<char> bytes() const {
    std::size_t size = 0;
    for (auto const& storage : storages_) size += storage.nbytes();
    std::vector<char> all(size);
    auto* to = all.data();
    for (auto const& storage : storages_) {
      if (auto const n = storage.nbytes()) std::memcpy(to, storage.data(), n);
      to += storage.nbytes();
    }
    return all;
  }
  void restore(std::vector<char> const& all) const {
    auto const* from = all.data();
    for (auto const& storage : storages_) {
      if (auto const n = storage.nbytes()) std::memcpy(storage.mutable_data(), from, n);
      from += storage.nbytes();
    }
  }

 private:
  void add(at::Tensor const& tensor) {
    if (!is_plain(tensor, device_) || !tensor.is_non_overlapping_and_dense()) {
      refusal_ = "the model has a tensor that is not a dense real one of " + (device_.is_cpu() ? "the CPU" : device_.str());
      return;
    }
    watched_.emplace_back(tensor);
    if (numbers_.emplace(storage_of(tensor), numbers_.size()).second) storages_.push_back(tensor.storage());
  }

  at::Device device_;
  Modes modes_;
  std::vector<Watched> watched_;
  std::vector<std::pair<at::Tensor, at::Tensor>> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::shared_ptr<torch::nn::Module>> owned_;
  std::vector<std::pair<torch::nn::Module const*, bool>> modules_;
  std::unordered_map<Storage, std::size_t> numbers_;
  std::vector<at::Storage> storages_;
  std::string refusal_;
};

}  // namespace fulgurite::libtorch::capture
