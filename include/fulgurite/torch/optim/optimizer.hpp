#pragma once
// LibTorch's own optimizers, with the interface that the loops use.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/optimizer.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/torch/weights/weights.hpp>

// The whole state of a torch::optim optimizer, saved to an archive and loaded: the options of its groups, and the state
// of each parameter. Parameters have no names here, so each is identified by its group and position.

// LibTorch's six optimizers. Each has a type of its own for the options of a group, and one for the state of a
// parameter.
#define FULGURITE_TORCH_OPTIMIZERS(ROW) ROW(Adagrad) ROW(Adam) ROW(AdamW) ROW(LBFGS) ROW(RMSprop) ROW(SGD)

namespace torch::optim {
#define FULGURITE_ROW(X)                                                                                               \
  class X;                                                                                                             \
  struct X##Options;                                                                                                   \
  struct X##ParamState;
FULGURITE_TORCH_OPTIMIZERS(FULGURITE_ROW)
#undef FULGURITE_ROW
}  // namespace torch::optim

namespace fulgurite {
namespace libtorch {

/// The two types of an optimizer; void for a class that is not LibTorch's own.
template <class X>
struct TypesOf {
  using Options = void;
  using ParamState = void;
};
#define FULGURITE_ROW(X)                                                                                               \
  template <>                                                                                                          \
  struct TypesOf<torch::optim::X> {                                                                                    \
    using Options = torch::optim::X##Options;                                                                          \
    using ParamState = torch::optim::X##ParamState;                                                                    \
  };
FULGURITE_TORCH_OPTIMIZERS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// True for LibTorch's six classes, whose fields are known.
template <class X>
concept KnownOptimizer = !std::is_void_v<typename TypesOf<X>::ParamState>;

/// The options that the program has given to each group.
using GivenOptions = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;

/// Saves or loads a KnownOptimizer; see TorchOptimizer::state.
template <class X, class Archive>
void optimizer_state(X& optimizer, GivenOptions const& given, Archive& archive);

#define FULGURITE_ROW(X)                                                                                               \
  FULGURITE_EXTERN(void optimizer_state(torch::optim::X&, GivenOptions const&, StateSaver&));                          \
  FULGURITE_EXTERN(void optimizer_state(torch::optim::X&, GivenOptions const&, StateLoader&));
FULGURITE_TORCH_OPTIMIZERS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// Takes the step of one of LibTorch's own optimizers in one pass over the memory of each parameter, with the bits of
/// `X::step`, which calls several operators for each. Returns false and changes nothing where that is not possible, so
/// that the caller takes the optimizer's own step: where a state is missing, as before the first step of most; for
/// parameters, gradients and states that are not on the CPU, are not of type float or double, or lie in memory in
/// another order; while a strategy records operators; on processors other than x86. A profiler of operators sees none.
template <class X>
bool step_in_one_pass(X& optimizer);
FULGURITE_EXTERN(bool step_in_one_pass(torch::optim::Adagrad&));
FULGURITE_EXTERN(bool step_in_one_pass(torch::optim::Adam&));
FULGURITE_EXTERN(bool step_in_one_pass(torch::optim::AdamW&));
FULGURITE_EXTERN(bool step_in_one_pass(torch::optim::RMSprop&));
FULGURITE_EXTERN(bool step_in_one_pass(torch::optim::SGD&));

/// A base of TorchOptimizer that makes it Stateless if the user's class X declares itself Stateless.
template <class X>
struct MayForget {};
template <DeclaredStateless X>
  requires(!KnownOptimizer<X> && !Stateful<X, ArchiveProbe>)
struct MayForget<X> {
  using Stateless = typename X::Stateless;
};

/// The parts of TorchOptimizer that do not depend on the class of the optimizer.
class TorchGroups {
 public:
  TorchGroups();
  FULGURITE_MOVES(TorchGroups);

  /// Records the options that the program has given to groups added since the last call.
  void note_options(torch::optim::Optimizer const& optimizer);
  GivenOptions const& given() const { return given_; }
  /// The parameters of all groups in one list, which is rebuilt only if they are others than before.
  std::vector<at::Tensor>& parameters(torch::optim::Optimizer const& optimizer);
  void zero_grad(torch::optim::Optimizer const& optimizer);
  void add_group(torch::optim::Optimizer& optimizer, std::string_view name, std::vector<at::Tensor> const& added,
                 double lr);

 private:
  GivenOptions given_;
  std::vector<at::Tensor> parameters_;
};

/// Makes a LibTorch scheduler for a LibTorch optimizer. It is on the heap, since it can be neither assigned nor
/// default-constructed.
template <class Factory>
class MadeScheduler {
 public:
  using Made = std::remove_cvref_t<std::invoke_result_t<Factory&, torch::optim::Optimizer&>>;

  explicit MadeScheduler(Factory factory) : factory_(std::move(factory)) {}
  void attach(torch::optim::Optimizer& optimizer) {
    optimizer_ = &optimizer;
    again();
  }
  void again() {
    if (optimizer_) made_.reset(new Made(factory_(*optimizer_)));
  }
  Made* operator->() const { return made_.get(); }
  explicit operator bool() const { return made_ != nullptr; }

 private:
  Factory factory_;
  torch::optim::Optimizer* optimizer_ = nullptr;
  std::unique_ptr<Made> made_;
};

}  // namespace libtorch

/// Holds a torch::optim::X, moved in as configure_optimizers returned it. Its own members are reachable by `->`:
/// `optimizer->defaults()`.
///
/// Beware of options of a parameter group given to X's constructor. LibTorch up to 2.11 takes them as a whole: what the
/// group does not set has the class's default, not the optimizer-wide value (its weight_decay is lost). Later versions
/// merge, and drop a value that happens to equal the class's default (lr(1e-3) of Adam). The library cannot detect
/// either case. To avoid both, set what differs on the constructed optimizer:
///
///     torch::optim::Adam adam({body->parameters(), head->parameters()},
///                             torch::optim::AdamOptions(1e-4).weight_decay(0.1));
///     adam.param_groups()[1].options().set_lr(1e-3);
template <std::derived_from<torch::optim::Optimizer> X>
class TorchOptimizer : public libtorch::MayForget<X> {
  using Options = typename libtorch::TypesOf<X>::Options;
  static constexpr bool has_betas = requires(Options& all) { all.betas(); };
  static constexpr bool has_momentum = requires(Options& all) { all.momentum(); };

 public:
  static constexpr bool needs_closure = std::is_base_of_v<torch::optim::LBFGS, X>;
  static constexpr bool stable_gradients = false;  ///< gradients are dropped and allocated again, at other addresses
  static constexpr std::string_view name() { return type_name<X>(); }
  static std::string kind() { return (libtorch::KnownOptimizer<X> ? "torch::optim::" : "") + std::string(name()); }

  explicit TorchOptimizer(X&& optimizer) : optimizer_(std::move(optimizer)) { all_.note_options(optimizer_); }

  /// Drops the gradients. LibTorch's own zero_grad detaches each first, which throws for a gradient that is a view of a
  /// communication bucket.
  void zero_grad() { all_.zero_grad(optimizer_); }

  /// Takes a step; where it can, in one pass over memory with the bits of `X::step`: see step_in_one_pass.
  void step()
    requires(!needs_closure)
  {
    if constexpr (libtorch::KnownOptimizer<X>)
      if (libtorch::step_in_one_pass(optimizer_)) return;
    optimizer_.step();
  }
  /// Takes a step. The closure clears the gradients, runs backward and returns the loss; the optimizer may call it
  /// several times. Returns the first loss.
  at::Tensor step(auto&& closure)
    requires needs_closure
  {
    return optimizer_.step(std::ref(closure));
  }

  std::size_t groups() const { return optimizer_.param_groups().size(); }
  double lr(std::size_t group) const { return optimizer_.param_groups().at(group).options().get_lr(); }
  void set_lr(std::size_t group, double value) { optimizer_.param_groups().at(group).options().set_lr(value); }

  /// Adds a parameter group with this learning rate and otherwise the options of the first group. Throws an Error for
  /// LBFGS, which has only one group, and for a parameter that the optimizer already has.
  void add_group(std::vector<at::Tensor> const& parameters, double lr) {
    if constexpr (needs_closure) {
      throw Error("fulgurite.optimizer.one_group",
                  "LBFGS has one parameter group, so none can be added: use another optimizer");
    } else {
      all_.add_group(optimizer_, name(), parameters, lr);
      // Adagrad allocates the state of its parameters when it is constructed, and cannot update a parameter without it.
      if constexpr (std::derived_from<X, torch::optim::Adagrad>)
        for (auto const& parameter : parameters) {
          auto state = std::make_unique<torch::optim::AdagradParamState>();
          state->step(0);
          state->sum(at::full_like(parameter.detach(), static_cast<torch::optim::AdagradOptions&>(
                                                           optimizer_.param_groups().front().options())
                                                           .initial_accumulator_value()));
          optimizer_.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
        }
    }
  }

  /// The momentum of a group, or the first beta of Adam; nullopt if the class has neither.
  std::optional<double> momentum(std::size_t group) const {
    if constexpr (has_betas) return std::get<0>(options(group).betas());
    else if constexpr (has_momentum) return options(group).momentum();
    else return std::nullopt;
  }
  void set_momentum(std::size_t group, double value)
    requires(has_betas || has_momentum)
  {
    if constexpr (has_betas) std::get<0>(options(group).betas()) = value;
    else options(group).momentum() = value;
  }
  std::optional<double> weight_decay(std::size_t group) const {
    if constexpr (requires(Options const& all) { all.weight_decay(); }) return options(group).weight_decay();
    else return std::nullopt;
  }

  /// Saves and loads the optimizer's whole state: the options of each group, and the state of each parameter by its
  /// group and position. Loading needs the same class, groups and shapes; else it throws an Error
  /// [fulgurite.optimizer.state] that names all differences, and changes nothing. Options that this program set
  /// differently from the one that saved keep this program's values; learning rates and momenta, which schedules
  /// change, are loaded. A class of your own that derives from LibTorch's must have a `state(archive)` of its own, or
  /// declare itself Stateless.
  template <class Archive>
    requires(libtorch::KnownOptimizer<X> || Stateful<X, Archive>)
  void state(Archive& archive) {
    if constexpr (libtorch::KnownOptimizer<X>) libtorch::optimizer_state(optimizer_, all_.given(), archive);
    else optimizer_.state(archive);
  }

  std::vector<at::Tensor> const& parameters() { return all_.parameters(optimizer_); }

  X* operator->() { return &optimizer_; }
  X const* operator->() const { return &optimizer_; }
  X& raw() { return optimizer_; }
  X const& raw() const { return optimizer_; }

 private:
  auto const& options(std::size_t group) const {
    return static_cast<Options const&>(optimizer_.param_groups().at(group).options());
  }
  auto& options(std::size_t group) { return static_cast<Options&>(optimizer_.param_groups().at(group).options()); }

  X optimizer_;
  libtorch::TorchGroups all_;
};

// LibTorch's own schedulers used as a schedule. Their state cannot be read, so a checkpoint keeps the moves that they
// made.

namespace libtorch {
/// Throws [fulgurite.checkpoint.state_entry] for a number of moves in a file that no scheduler of LibTorch can make.
void require_moves(long moves);

/// An optimizer that holds one of LibTorch's: LibTorch's schedulers move no other.
template <class O>
concept HoldsTorch = requires(O& optimizer) { static_cast<torch::optim::Optimizer&>(optimizer.raw()); };
}  // namespace libtorch

/// The return type of `torch_schedule`.
template <class Factory>
class TorchSchedule {
 public:
  static constexpr bool sets_rates = true, replays_moves = true;
  template <class O>
  static constexpr bool can_move = libtorch::HoldsTorch<O>;

  explicit TorchSchedule(Factory factory) : scheduler_(std::move(factory)) {}
  void attach(auto& optimizer) { scheduler_.attach(optimizer.raw()); }
  void move(auto&) {
    scheduler_->step();
    ++moves_;
  }

  /// Loading moves a new scheduler as often as the saved one was moved. It begins at the initial learning rates, which
  /// the caller has set.
  void state(auto& archive) {
    archive("moves", moves_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      libtorch::require_moves(moves_);
      scheduler_.again();
      for (long move = 0; scheduler_ && move != moves_; ++move) scheduler_->step();
    }
  }

 private:
  libtorch::MadeScheduler<Factory> scheduler_;
  long moves_ = 0;
};

/// Uses a torch::optim::LRScheduler as a schedule. The function receives the torch::optim::Optimizer:
///
///     return scheduled(torch::optim::SGD(parameters(), 0.1),
///                      torch_schedule([](auto& optimizer) { return torch::optim::StepLR(optimizer, 10, 0.5); }));
///
/// After a checkpoint is loaded, the scheduler is moved as often as it had been. LibTorch's StepLR lowers the rate one
/// move later than Python's does; schedule::Step matches Python's.
template <class Factory>
TorchSchedule<Factory> torch_schedule(Factory factory) {
  return TorchSchedule<Factory>(std::move(factory));
}

/// The return type of `torch_plateau`.
template <class M, class Factory>
class TorchPlateau {
 public:
  using Watches = MetricTypes<M>;
  static constexpr bool sets_rates = true, replays_moves = true;
  template <class O>
  static constexpr bool can_move = libtorch::HoldsTorch<O>;

  TorchPlateau(M metric, Factory factory, bool strict)
      : metric_(metric), scheduler_(std::move(factory)), strict_(strict) {}
  M metric() const { return metric_; }
  bool strict() const { return strict_; }
  void attach(auto& optimizer) { scheduler_.attach(optimizer.raw()); }
  void observe(double value, auto&) {
    seen_.push_back(static_cast<float>(value));
    scheduler_->step(seen_.back());
  }

  void state(auto& archive) {
    archive("seen", seen_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      scheduler_.again();
      if (scheduler_)
        for (float const value : seen_) scheduler_->step(value);
    }
  }

 private:
  [[no_unique_address]] M metric_;
  libtorch::MadeScheduler<Factory> scheduler_;
  std::vector<float> seen_;
  bool strict_;
};

/// Uses a torch::optim::ReduceLROnPlateauScheduler, which watches a metric:
///
///     torch_plateau(Net::val_loss,
///                   [](auto& optimizer) { return torch::optim::ReduceLROnPlateauScheduler(optimizer); })
///
/// A checkpoint holds every value that it has seen; schedule::ReduceOnPlateau needs only three numbers, and counts in
/// double.
template <class M, class Factory>
TorchPlateau<M, Factory> torch_plateau(M metric, Factory factory, bool strict = true) {
  return {metric, std::move(factory), strict};
}

// Trains one optimizer at a time: while it is toggled, the other optimizers' parameters receive no gradient.

/// Lightning's toggle_optimizer. `toggle` switches requires_grad off for the parameters of all optimizers, and restores
/// it for the chosen one's: frozen parameters stay frozen, shared ones stay on. `untoggle`, or the destructor, restores
/// the others. Parameters that are in no optimizer are not touched. A Toggle is restored by the thread that has toggled
/// it.
class Toggle : Pinned {
 public:
  Toggle() = default;
  /// Toggles `chosen`. `all`: a tuple of the optimizers, the chosen one among them.
  Toggle(auto& chosen, auto& all) : Toggle() {  // so that the destructor runs if `toggle` throws
    toggle(chosen, all);
  }
  ~Toggle() { untoggle(); }

  void toggle(auto& chosen, auto& all) {
    untoggle();
    auto const is_chosen = [&](auto& one) {
      return static_cast<void const*>(&one) == static_cast<void const*>(&chosen);
    };
    std::apply([&](auto&... one) { ((is_chosen(one) ? remember(one, own_) : remember(one, others_)), ...); }, all);
    if (others_.empty()) return own_.clear();
    libtorch::flags_to_restore().push_back(&others_);
    for (auto& [parameter, required] : others_) parameter.set_requires_grad(false);
    for (auto& [parameter, required] : own_) parameter.set_requires_grad(required);
    own_.clear();
  }

  void untoggle() noexcept;

 private:
  using Flags = libtorch::GradientFlags;

  static void remember(auto& optimizer, Flags& flags) {
    for (auto const& parameter : optimizer.parameters()) flags.emplace_back(parameter, parameter.requires_grad());
  }
  Flags own_;  ///< a member so that its capacity is reused
  Flags others_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/optimizer.ipp>
#endif
