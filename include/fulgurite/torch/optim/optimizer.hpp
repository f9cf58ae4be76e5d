#pragma once
// LibTorch's optimizers as they are, in the shape that the loops drive.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/optimizer.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/torch/optim/listed_once.hpp>
#include <fulgurite/torch/optim/optimizer_options.hpp>
#include <fulgurite/torch/optim/optimizer_state.hpp>

namespace torch::optim {
class LBFGS;
}

namespace fulgurite {

namespace libtorch {

/// A class of the user's own says for what holds it that its moments may be lost.
template <class X>
struct MayForget {};
template <DeclaredStateless X>
  requires(!KnownOptimizer<X> && !Stateful<X, ArchiveProbe>)
struct MayForget<X> {
  using Stateless = typename X::Stateless;
};

}  // namespace libtorch

/// Holds a torch::optim::X, moved in as configure_optimizers returned it. Its own members stay reachable:
/// `optimizer->defaults()`.
///
/// Mind the options of a parameter group given to the constructor. LibTorch up to 2.11 takes them whole: what the group
/// does not set is the class's default, not the optimizer-wide value (its weight_decay is lost). Later ones merge, and
/// drop a value that happens to equal the class's default (lr(1e-3) of Adam). Nothing that comes after can see either.
/// Both are avoided by setting what differs on the constructed optimizer:
///   torch::optim::Adam adam({body->parameters(), head->parameters()},
///   torch::optim::AdamOptions(1e-4).weight_decay(0.1)); adam.param_groups()[1].options().set_lr(1e-3);
template <std::derived_from<torch::optim::Optimizer> X>
class TorchOptimizer : public libtorch::MayForget<X> {
 public:
  static constexpr bool needs_closure = std::is_base_of_v<torch::optim::LBFGS, X>;
  static constexpr bool stable_gradients = false;  ///< gradients are dropped and made anew, at other addresses
  static constexpr std::string_view name() { return type_name<X>(); }
  static std::string kind() { return (libtorch::KnownOptimizer<X> ? "torch::optim::" : "") + std::string(name()); }

  explicit TorchOptimizer(X&& optimizer) : optimizer_(std::move(optimizer)) { note_options(); }

  /// Drops the gradients. LibTorch's own zero_grad detaches each first, which throws for a gradient that is a view of a
  /// communication bucket.
  void zero_grad() {
    for (auto& parameter : parameters_now())
      if (auto& gradient = parameter.mutable_grad(); gradient.defined()) gradient.reset();
  }

  void step()
    requires(!needs_closure)
  {
    optimizer_.step();
  }
  /// The closure clears the gradients, runs backward and returns the loss; the optimizer calls it as often as it likes.
  /// Returns the first loss.
  template <class Closure>
  at::Tensor step(Closure&& closure)
    requires needs_closure
  {
    return optimizer_.step(std::ref(closure));
  }

  std::size_t groups() const { return optimizer_.param_groups().size(); }
  double lr(std::size_t group) const { return optimizer_.param_groups().at(group).options().get_lr(); }
  void set_lr(std::size_t group, double value) { optimizer_.param_groups().at(group).options().set_lr(value); }

  /// Adds a parameter group with this rate; its other options are those of the first group. Throws an Error for LBFGS,
  /// which has one group only, and for a parameter that the optimizer has already.
  void add_group(std::vector<at::Tensor> const& parameters, double lr) {
    if constexpr (needs_closure) {
      throw Error("fulgurite.optimizer.one_group",
                  "LBFGS has one parameter group, so none can be added: use another optimizer");
    } else {
      auto all = parameters_now();
      all.insert(all.end(), parameters.begin(), parameters.end());
      if (libtorch::listed_twice(all).defined()) libtorch::refuse_listed_twice(name(), {});
      optimizer_.add_param_group(torch::optim::OptimizerParamGroup(parameters));
      auto& groups = optimizer_.param_groups();
      groups.back().set_options(groups.front().options().clone());
      set_lr(groups.size() - 1, lr);
      note_options();
      // Adagrad makes the state of its parameters when it is constructed, and cannot step a parameter without.
      if constexpr (std::derived_from<X, torch::optim::Adagrad>)
        for (auto const& parameter : parameters) {
          auto state = std::make_unique<torch::optim::AdagradParamState>();
          state->step(0);
          state->sum(at::full_like(
              parameter.detach(),
              static_cast<torch::optim::AdagradOptions&>(groups.front().options()).initial_accumulator_value()));
          optimizer_.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
        }
    }
  }

  /// The momentum of a group, or the first beta of Adam; nullopt if the class has neither.
  std::optional<double> momentum(std::size_t group) const { return libtorch::momentum(optimizer_, group); }
  void set_momentum(std::size_t group, double value)
    requires libtorch::HasMomentum<X>
  {
    libtorch::set_momentum(optimizer_, group, value);
  }
  std::optional<double> weight_decay(std::size_t group) const { return libtorch::weight_decay(optimizer_, group); }

  /// Saves and loads all that the optimizer knows: the options of each group and what is kept of each parameter, by its
  /// group and place. Loading needs the same class, groups and shapes; else it throws an Error
  /// [fulgurite.optimizer.state] that names all that differs, and nothing has changed. Options that the program gave
  /// otherwise than the one that saved stay the program's; rates and momenta, which schedules move, are loaded. A class
  /// of your own that derives from LibTorch's has a `state(archive)` of its own, or says that it is Stateless.
  template <class Archive>
    requires(libtorch::KnownOptimizer<X> || Stateful<X, Archive>)
  void state(Archive& archive) {
    if constexpr (libtorch::KnownOptimizer<X>) libtorch::optimizer_state(optimizer_, given_, archive);
    else optimizer_.state(archive);
  }

  /// The parameters of all groups in one list, which is made anew only after parameters were added.
  std::vector<at::Tensor> const& parameters() { return parameters_now(); }

  X* operator->() { return &optimizer_; }
  X const* operator->() const { return &optimizer_; }
  X& raw() { return optimizer_; }
  X const& raw() const { return optimizer_; }

 private:
  /// What the program has given to groups that were not there before.
  void note_options() {
    auto const& groups = optimizer_.param_groups();
    while (given_.size() < groups.size()) given_.push_back(groups[given_.size()].options().clone());
  }
  std::vector<at::Tensor>& parameters_now() {
    std::size_t count = 0;
    for (auto const& group : optimizer_.param_groups()) count += group.params().size();
    if (count != parameters_.size()) {
      parameters_.clear();
      parameters_.reserve(count);
      for (auto const& group : optimizer_.param_groups())
        parameters_.insert(parameters_.end(), group.params().begin(), group.params().end());
    }
    return parameters_;
  }

  X optimizer_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> given_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace fulgurite
