#pragma once
// Puts a model back to what it was when its steps were recorded, to check replays after which it was changed.

#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

/// While this lives, the switches and numbers of the model are what they were. Only so can replays before a change be
/// told from wrong ones.
class Earlier {
 public:
  Earlier(World const& world, torch::nn::Module const& model, std::vector<char> const& host)
      : world_(world), of_model_(world.is_of(model)), now_(world.switches()) {
    if (!of_model_) return;
    numbers_.emplace(world.host(), host);
    world_.set(world_.recorded());
    reached_ = numbers_->whole() && world_.unchanged();
  }
  ~Earlier() {
    numbers_.reset();
    if (of_model_) world_.set(stays_ ? world_.recorded() : now_);
  }
  Earlier(Earlier const&) = delete;
  Earlier& operator=(Earlier const&) = delete;

  /// Whether the model is what it was. It is not if it has other tensors or modules, if the memory or the hooks of a
  /// tensor are others, or if LibTorch's switches are.
  bool reached() const { return reached_; }
  /// At the end the switches stay as they were: the fit goes back to that time.
  void stay() { stays_ = true; }

 private:
  World const& world_;
  bool of_model_;
  World::Switches now_;
  std::optional<HostBytes::Earlier> numbers_ = std::nullopt;
  bool reached_ = false, stays_ = false;
};

}  // namespace fulgurite::libtorch::capture
