#pragma once
// What a recorded step may touch beside its batch: the parameters, gradients and buffers of one model; and whether they
// are still what they were.

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
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/host_bytes.hpp>
#include <fulgurite/torch/capture/watched.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::libtorch::capture {

/// Switches of LibTorch by which a step may call other operators.
struct Modes {
  explicit Modes(at::DeviceType type)
      : autocast(at::autocast::is_autocast_enabled(type)), cast(at::autocast::get_autocast_dtype(type)) {
    auto const& context = at::globalContext();
    deterministic = context.deterministicAlgorithms();
    onednn = context.userEnabledMkldnn();
    flash = context.userEnabledFlashSDP();
    efficient = context.userEnabledMemEfficientSDP();
  }
  bool graph = c10::GradMode::is_enabled();
  bool inference = c10::InferenceMode::is_enabled();
  bool autocast;
  at::ScalarType cast;
  bool deterministic, onednn, flash, efficient;
  c10::ScalarType floating = c10::get_default_dtype_as_scalartype();
  friend bool operator==(Modes const&, Modes const&) = default;
};

/// The model as it was when its first step was recorded.
class World {
 public:
  explicit World(torch::nn::Module& model, at::Device device = at::kCPU)
      : World(model, {&model, sizeof(torch::nn::Module)}, device) {}
  /// `object`: the model as an object of its own type, with all its members.
  World(torch::nn::Module& model, Object object, at::Device device)
      : device_(device), modes_(device.type()), host_(object, model) {
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
    recorded_ = switches();
  }

  /// Why no step of this model can be recorded: it has a tensor of a kind that cannot be watched. Empty: it has none.
  std::string const& refusal() const { return refusal_; }

  at::Device device() const { return device_; }

  /// Asked before each replay: whether all tensors are where they were, and nothing was switched.
  bool unchanged() const {
    if (!(Modes(device_.type()) == modes_)) return false;
    for (auto const& watched : watched_)
      if (!watched.unchanged()) return false;
    for (auto const& [module, training] : modules_)
      if (module->is_training() != training) return false;
    return true;
  }

  /// Whether the model still has the same parameters, buffers and modules. This takes too long to be asked before each
  /// replay.
  FULGURITE_BULK bool is_of(torch::nn::Module const& model) const {
    auto const parameters = distinct(model.parameters()), buffers = distinct(model.buffers());
    auto const modules = model.modules(false);
    auto const same = [](at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); };
    return std::equal(parameters.begin(), parameters.end(), parameters_.begin(), parameters_.end(),
                      [&](auto const& a, auto const& b) { return same(a, b.first); }) &&
           std::equal(buffers.begin(), buffers.end(), buffers_.begin(), buffers_.end(), same) && modules == owned_;
  }

  /// What a hook may switch on and off: which parameters need a gradient and where it is, and which modules are in
  /// train().
  struct Switches {
    std::vector<bool> needs_gradient = {}, trains = {};
    std::vector<at::Tensor> gradients = {};
  };
  FULGURITE_BULK Switches switches() const {
    Switches all;
    for (auto const& [parameter, gradient] : parameters_) {
      all.needs_gradient.push_back(parameter.requires_grad());
      all.gradients.push_back(parameter.grad());
    }
    for (auto const& [module, training] : modules_) all.trains.push_back(module->is_training());
    return all;
  }
  FULGURITE_BULK void set(Switches const& to) const {
    for (std::size_t i = 0; i != parameters_.size(); ++i) {
      auto const& parameter = parameters_[i].first;
      if (parameter.is_leaf()) parameter.set_requires_grad(to.needs_gradient[i]);
      if (!parameter.grad().is_same(to.gradients[i])) parameter.mutable_grad() = to.gradients[i];
    }
    for (std::size_t i = 0; i != modules_.size(); ++i)  // train() also sets a module's children, which come after it
      if (modules_[i].first->is_training() != to.trains[i]) modules_[i].first->train(to.trains[i]);
  }
  Switches const& recorded() const { return recorded_; }

  /// The numbers and handles that the model keeps beside its tensors.
  HostBytes& host() { return host_; }
  HostBytes const& host() const { return host_; }

  /// The number of this piece of memory; nullopt if it is none of the model's.
  std::optional<std::size_t> number(Storage storage) const {
    auto const found = numbers_.find(storage);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  /// f(tensor) for each parameter, gradient and buffer.
  template <class F>
  void each_tensor(F&& f) const {
    for (auto const& watched : watched_) f(watched.tensor());
  }

  /// All bytes of the model's tensors, one piece of memory after another. Pieces are taken whole, since a step may
  /// write to a part of one that belongs to no tensor, as when an arena is cleared.
  FULGURITE_BULK std::vector<char> bytes() const {
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
  FULGURITE_BULK void restore(std::vector<char> const& all) const {
    auto const* from = all.data();
    for (auto const& storage : storages_) {
      if (auto const n = storage.nbytes()) std::memcpy(storage.mutable_data(), from, n);
      from += storage.nbytes();
    }
  }

 private:
  FULGURITE_BULK void add(at::Tensor const& tensor) {
    if (!is_plain(tensor, device_) || !tensor.is_non_overlapping_and_dense()) {
      refusal_ = "the model has a tensor that is not a dense real one of " + name_of(device_);
      return;
    }
    watched_.emplace_back(tensor);
    if (numbers_.emplace(storage_of(tensor), numbers_.size()).second) storages_.push_back(tensor.storage());
  }

  at::Device device_;
  Modes modes_;
  HostBytes host_;
  std::vector<Watched> watched_;
  std::vector<std::pair<at::Tensor, at::Tensor>> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::shared_ptr<torch::nn::Module>> owned_;
  std::vector<std::pair<torch::nn::Module*, bool>> modules_;
  Switches recorded_;
  std::unordered_map<Storage, std::size_t> numbers_;
  std::vector<at::Storage> storages_;
  std::string refusal_;
};

/// What the user's code has changed since `host` was taken, as far as that can be seen.
FULGURITE_BULK std::string who_changed(World const& world, std::vector<char> const& host) {
  if (auto what = world.host().changed(host); !what.empty()) return what;
  std::string what = "training_step went by something that is no tensor, and that has changed: a member of the model "
                     "that changes all the time, a global";
  for (std::size_t i = 0; i != world.host().unseen().size(); ++i)
    what += (i == 0 ? ", or a member of '" : "', '") + world.host().unseen()[i];
  return what + (world.host().unseen().empty() ? "" : "', which cannot be looked into");
}

}  // namespace fulgurite::libtorch::capture
