#pragma once
// The whole state of a torch::optim optimizer, saved to an archive and loaded: the options of its groups, and the state
// of each parameter. Parameters have no names here, so each is identified by its group and position.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <torch/optim/optimizer.h>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace torch::optim {

// Momentum and weight decay of LibTorch's optimizers, whose options have six types.

class Adagrad;
class Adam;
class AdamW;
class LBFGS;
class RMSprop;
class SGD;
struct AdagradOptions;
struct AdamOptions;
struct AdamWOptions;
struct LBFGSOptions;
struct RMSpropOptions;
struct SGDOptions;
}  // namespace torch::optim

namespace fulgurite::libtorch {

/// The type of an optimizer's options; void for a class that is not LibTorch's own.
template <class X>
struct OptionsOf {
  using type = void;
};
#define FULGURITE_OPTIONS(X)                                                                                           \
  template <>                                                                                                          \
  struct OptionsOf<torch::optim::X> {                                                                                  \
    using type = torch::optim::X##Options;                                                                             \
  };
FULGURITE_OPTIONS(Adagrad)
FULGURITE_OPTIONS(Adam)
FULGURITE_OPTIONS(AdamW)
FULGURITE_OPTIONS(LBFGS)
FULGURITE_OPTIONS(RMSprop)
FULGURITE_OPTIONS(SGD)
#undef FULGURITE_OPTIONS

/// Calls `f(options)` for a parameter group if the type of its options is known.
template <class X, class F>
std::optional<double> of_options(X const& optimizer, std::size_t group, F&& f) {
  using Options = typename OptionsOf<X>::type;
  if constexpr (std::is_void_v<Options>) return std::nullopt;
  else return f(static_cast<Options const&>(optimizer.param_groups().at(group).options()));
}

/// The momentum of a parameter group, or the first beta of Adam; nullopt if the class has neither.
template <class X>
std::optional<double> momentum(X const& optimizer, std::size_t group) {
  return of_options(optimizer, group, [](auto const& options) -> std::optional<double> {
    if constexpr (requires { options.betas(); }) return std::get<0>(options.betas());
    else if constexpr (requires { options.momentum(); }) return options.momentum();
    else return std::nullopt;
  });
}

/// True if the optimizer's class has a momentum or betas.
template <class X>
concept HasMomentum = requires(typename OptionsOf<X>::type& options) { options.betas(); } ||
                      requires(typename OptionsOf<X>::type& options) { options.momentum(); };

/// Sets the value that `momentum` reads.
template <HasMomentum X>
void set_momentum(X& optimizer, std::size_t group, double value) {
  auto& options = static_cast<typename OptionsOf<X>::type&>(optimizer.param_groups().at(group).options());
  if constexpr (requires { options.betas(); }) std::get<0>(options.betas()) = value;
  else options.momentum() = value;
}

template <class X>
std::optional<double> weight_decay(X const& optimizer, std::size_t group) {
  return of_options(optimizer, group, [](auto const& options) -> std::optional<double> {
    if constexpr (requires { options.weight_decay(); }) return options.weight_decay();
    else return std::nullopt;
  });
}

}  // namespace fulgurite::libtorch

namespace torch::optim {

// The fields of LibTorch's parameter states and group options, under LibTorch's own names: six classes, each with its
// own type for both.

struct AdagradParamState;
struct AdamParamState;
struct AdamWParamState;
struct LBFGSParamState;
struct RMSpropParamState;
struct SGDParamState;
}  // namespace torch::optim

namespace fulgurite::libtorch {

/// The type of an optimizer's state for one parameter; void for a class that is not LibTorch's own.
template <class X>
struct ParamStateOf {
  using type = void;
};
#define FULGURITE_PARAM_STATE(X)                                                                                       \
  template <>                                                                                                          \
  struct ParamStateOf<torch::optim::X> {                                                                               \
    using type = torch::optim::X##ParamState;                                                                          \
  };
FULGURITE_PARAM_STATE(Adagrad)
FULGURITE_PARAM_STATE(Adam)
FULGURITE_PARAM_STATE(AdamW)
FULGURITE_PARAM_STATE(LBFGS)
FULGURITE_PARAM_STATE(RMSprop)
FULGURITE_PARAM_STATE(SGD)
#undef FULGURITE_PARAM_STATE

/// True for LibTorch's six classes, whose fields are known.
template <class X>
concept KnownOptimizer = !std::is_void_v<typename ParamStateOf<X>::type>;

#define FULGURITE_FIELD(name)                                                                                          \
  if constexpr (requires { all.name(); }) f(#name, all.name())

#define FULGURITE_OPTION(name)                                                                                         \
  if constexpr (requires { now.name(); }) f(#name, given.name(), now.name())

/// Calls `f(name, given_value, current_value&)` for each option of a parameter group.
template <class Options, class F>
void each_option(Options const& given, Options& now, F&& f) {
  FULGURITE_OPTION(lr);
  FULGURITE_OPTION(momentum);
  FULGURITE_OPTION(dampening);
  FULGURITE_OPTION(nesterov);
  FULGURITE_OPTION(betas);
  FULGURITE_OPTION(eps);
  FULGURITE_OPTION(weight_decay);
  FULGURITE_OPTION(amsgrad);
  FULGURITE_OPTION(alpha);
  FULGURITE_OPTION(centered);
  FULGURITE_OPTION(lr_decay);
  FULGURITE_OPTION(initial_accumulator_value);
  FULGURITE_OPTION(max_iter);
  FULGURITE_OPTION(max_eval);
  FULGURITE_OPTION(tolerance_grad);
  FULGURITE_OPTION(tolerance_change);
  FULGURITE_OPTION(history_size);
  FULGURITE_OPTION(line_search_fn);
}
#undef FULGURITE_OPTION

/// Saves or loads the options of a group. Learning rates and momenta count as state, since schedules change them.
template <class Options, class Archive>
void fold_options(Options const& given, Options& now, Archive& archive) {
  each_option(given, now, [&]<class V>(std::string_view name, V const& before, V& value) {
    if constexpr (std::is_same_v<V, std::tuple<double, double>>) {
      auto [first, second] = value;
      archive("beta1", first).option("beta2", std::get<1>(before), second);
      value = {first, second};
    } else if (name == "lr" || name == "momentum") {
      archive(name, value);
    } else {
      archive.option(name, before, value);
    }
  });
}

/// Calls `f(name, value&)` for everything in a parameter's state: numbers, tensors, and LBFGS's lists of tensors.
template <class State, class F>
void each_kept(State& all, F&& f) {
  FULGURITE_FIELD(step);
  FULGURITE_FIELD(momentum_buffer);
  FULGURITE_FIELD(exp_avg);
  FULGURITE_FIELD(exp_avg_sq);
  FULGURITE_FIELD(max_exp_avg_sq);
  FULGURITE_FIELD(square_avg);
  FULGURITE_FIELD(grad_avg);
  FULGURITE_FIELD(sum);
  FULGURITE_FIELD(func_evals);
  FULGURITE_FIELD(n_iter);
  FULGURITE_FIELD(t);
  FULGURITE_FIELD(prev_loss);
  FULGURITE_FIELD(d);
  FULGURITE_FIELD(H_diag);
  FULGURITE_FIELD(prev_flat_grad);
  FULGURITE_FIELD(old_dirs);
  FULGURITE_FIELD(old_stps);
  FULGURITE_FIELD(ro);
  FULGURITE_FIELD(al);
}
#undef FULGURITE_FIELD

// Loads the state of a torch::optim optimizer: everything is read and compared before anything changes.

/// The number of parameters in each group.
template <class X>
std::vector<std::size_t> group_sizes(X const& optimizer) {
  std::vector<std::size_t> sizes;
  for (auto const& group : optimizer.param_groups()) sizes.push_back(group.params().size());
  return sizes;
}

/// The options that the program has given to each group.
using GivenOptions = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;
/// The given options of one group, or its current options if it was added without our knowledge.
template <class Options, class X>
Options const& given_to(GivenOptions const& given, X const& optimizer, std::size_t group) {
  auto const& all = group < given.size() ? *given[group] : optimizer.param_groups()[group].options();
  return static_cast<Options const&>(all);
}

/// The saved state of an optimizer, read and compared with an optimizer before that is changed.
template <class X>
class OptimizerReader {
  using Options = typename OptionsOf<X>::type;
  using State = typename ParamStateOf<X>::type;
  static constexpr bool is_lbfgs = requires(State& state) { state.old_dirs(); };

 public:
  /// Throws an Error that names all differences.
  template <class Archive>
  OptimizerReader(X& optimizer, GivenOptions const& given, Archive& archive) : optimizer_(&optimizer), given_(given) {
    std::string name;
    std::vector<std::size_t> sizes;
    archive("class", name)("parameters", sizes);
    if (name != type_name<X>()) differs("it was saved by " + name);
    if (auto const here = group_sizes(optimizer); sizes != here)
      differs("it has " + said(sizes) + " parameters by group, here there are " + said(here));
    refuse_what_differs();
    for (std::size_t g = 0; g != sizes.size(); ++g)
      archive.child("group." + std::to_string(g), [&](auto& from) { read_group(g, from); });
    refuse_what_differs();
  }

  /// Makes the saved state the optimizer's. A parameter that had no state when it was saved has none afterwards.
  void commit() {
    auto& all = optimizer_->state();
    for (auto& [parameter, state] : states_)
      if (state) all[parameter] = std::move(state);
      else all.erase(parameter);
    for (std::size_t g = 0; g != options_.size(); ++g)
      static_cast<Options&>(optimizer_->param_groups()[g].options()) = std::move(options_[g]);
  }

 private:
  template <class Archive>
  void read_group(std::size_t g, Archive& from) {
    auto const& group = optimizer_->param_groups()[g];
    auto& options = options_.emplace_back(static_cast<Options const&>(group.options()));
    auto const& given = given_to<Options>(given_, *optimizer_, g);
    fold_options(given, options, from);
    for (std::size_t p = 0; p != group.params().size(); ++p)
      from.child("param." + std::to_string(p), [&](auto& one) {
        auto const& parameter = group.params()[p];
        where_ = "group." + std::to_string(g) + ".param." + std::to_string(p);
        std::vector<std::int64_t> shape;
        bool has_state = false;
        one("shape", shape)("has_state", has_state);
        if (shape != parameter.sizes().vec())
          return differs(where_ + " has shape " + shape_text(shape) + ", here " + shape_text(parameter.sizes()));
        auto state = has_state ? std::make_unique<State>() : nullptr;
        if (state) {
          read_state(parameter, options, *state, one);
          refuse_lacking(given, *state);
        }
        states_.emplace_back(parameter.unsafeGetTensorImpl(), std::move(state));
      });
  }

  template <class Archive>
  void read_state(at::Tensor const& parameter, Options const& options, State& state, Archive& from) {
    each_kept(state, [&]<class V>(std::string_view name, V& value) {
      auto const made = [&](SavedTensor const& saved) { return tensor(name, saved, parameter); };
      if constexpr (std::is_same_v<V, at::Tensor>) {
        SavedTensor saved;
        from.tensor(name, saved);
        value = made(saved);
      } else if constexpr (std::is_same_v<V, std::optional<std::vector<at::Tensor>>>) {
        std::optional<std::vector<SavedTensor>> saved;
        from(name, saved);
        if (!saved) return;
        value.emplace();
        for (auto const& one : *saved) value->push_back(made(one));
      } else if constexpr (std::is_same_v<V, std::deque<at::Tensor>>) {
        std::vector<SavedTensor> saved;
        from(name, saved);
        for (auto const& one : saved) value.push_back(made(one));
      } else {
        from(name, value);
      }
    });
    if constexpr (is_lbfgs) {  // LibTorch does not check these lengths
      auto const past = state.old_dirs().size();
      auto const longest = static_cast<std::size_t>(std::max<std::int64_t>(0, options.history_size()));
      if (state.old_stps().size() != past || state.ro().size() != past)
        return differs(where_ + " has lists of old steps whose lengths do not agree");
      for (auto* list : {&state.old_dirs(), &state.old_stps(), &state.ro()})
        while (list->size() > longest) list->pop_front();
      if (state.al() && state.al()->size() < longest) state.al(std::nullopt);  // each step fills it again
    }
  }

  /// Refuses a state without tensors that the options need: LibTorch would use undefined tensors.
  void refuse_lacking([[maybe_unused]] Options const& given, State const& state) {
    auto const needs = [&](char const* option, char const* name) {
      differs(where_ + " has no " + name + ", which the program's option " + option + " needs");
    };
    if constexpr (requires { given.amsgrad(); })
      if (given.amsgrad() && !state.max_exp_avg_sq().defined()) needs("amsgrad", "max_exp_avg_sq");
    if constexpr (requires { given.centered(); }) {
      if (given.centered() && !state.grad_avg().defined()) needs("centered", "grad_avg");
      if (given.momentum() > 0 && !state.momentum_buffer().defined()) needs("momentum", "momentum_buffer");
    }
  }

  /// A new tensor with the saved numbers, on the parameter's device.
  at::Tensor tensor(std::string_view name, SavedTensor const& saved, at::Tensor const& parameter) {
    if (!saved) return {};
    auto const refused = [&](at::ScalarType type, std::vector<std::int64_t> const& shape) {
      differs(where_ + "." + std::string(name) + " is " + saved.description() + ", here " +
              std::string(element_name(type, name)) + " " + shape_text(shape));
      return at::Tensor();
    };
    at::Tensor made;
    if constexpr (is_lbfgs) {  // keeps vectors over all parameters, and numbers that may be of an integer type
      bool const vector = name != "H_diag" && name != "ro" && name != "al";
      std::int64_t count = 0;
      auto type = parameter.scalar_type();
      for (auto const& each : optimizer_->param_groups().front().params()) {
        count += each.numel();
        type = c10::promoteTypes(type, each.scalar_type());
      }
      for (auto const& known : element_names)
        if (saved.dtype() == known.name && (!vector || known.type == type))
          made = at::empty(saved.shape(), parameter.options().requires_grad(false).dtype(known.type));
      auto const wanted = vector ? std::vector{count} : std::vector<std::int64_t>{};
      if (!made.defined() || saved.shape() != wanted) return refused(type, wanted);
    } else {
      made = at::empty_like(parameter.detach());
      if (!fits(made, saved)) return refused(parameter.scalar_type(), parameter.sizes().vec());
    }
    restore(made, saved);
    return made;
  }

  void differs(std::string const& how) { (differences_ += differences_.empty() ? "" : "; ") += how; }
  void refuse_what_differs() const {
    if (!differences_.empty())
      throw Error("fulgurite.optimizer.state",
                  "the saved state is not of this " + std::string(type_name<X>()) + ": " + differences_ +
                      ". Groups, parameters and their order must be those of the optimizer that was saved");
  }
  static std::string said(std::vector<std::size_t> const& sizes) {
    return shape_text(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  }

  // Tensors made in inference mode, in which a load may happen, cannot be trained on.
  c10::InferenceMode const no_inference_{false};
  at::NoGradGuard const no_graph_ = {};
  X* optimizer_;
  GivenOptions const& given_;
  std::string where_, differences_;
  std::vector<Options> options_;
  std::vector<std::pair<void*, std::unique_ptr<State>>> states_;
};

/// A field in its archived form: tensors become handles, pairs become arrays.
SavedTensor archived(at::Tensor const& value);
template <class List>
  requires std::is_same_v<typename List::value_type, at::Tensor>
std::vector<SavedTensor> archived(List const& values) {
  std::vector<SavedTensor> all;
  for (auto const& value : values) all.push_back(archived(value));
  return all;
}
std::optional<std::vector<SavedTensor>> archived(std::optional<std::vector<at::Tensor>> const& values);
template <class T>
  requires(std::is_arithmetic_v<T> || is_optional<T>)
T const& archived(T const& value) {
  return value;
}

template <class X, class Archive>
void save_optimizer(X const& optimizer, GivenOptions const& given, Archive& archive) {
  using Options = typename OptionsOf<X>::type;
  using State = typename ParamStateOf<X>::type;
  archive("class", std::string(type_name<X>()))("parameters", group_sizes(optimizer));
  auto const each_into = [](auto& to) {
    return [&to](char const* name, auto const& value) { to(name, archived(value)); };
  };
  std::size_t g = 0;
  for (auto const& group : optimizer.param_groups())
    archive.child("group." + std::to_string(g), [&](auto& to) {
      Options now = static_cast<Options const&>(group.options());
      fold_options(given_to<Options>(given, optimizer, g), now, to);
      std::size_t p = 0;
      for (auto const& parameter : group.params())
        to.child("param." + std::to_string(p++), [&](auto& one) {
          auto const kept = optimizer.state().find(parameter.unsafeGetTensorImpl());
          bool const stepped = kept != optimizer.state().end();
          one("shape", parameter.sizes().vec())("has_state", stepped);
          if (stepped) each_kept(static_cast<State const&>(*kept->second), each_into(one));
        });
      ++g;
    });
}

/// Saves or loads a KnownOptimizer; see TorchOptimizer::state.
template <class X, class Archive>
void optimizer_state(X& optimizer, GivenOptions const& given, Archive& archive) {
  if constexpr (Archive::loading) OptimizerReader<X>(optimizer, given, archive).commit();
  else save_optimizer(optimizer, given, archive);
}

#define FULGURITE_OPTIMIZER_STATE(There, X)                                                                            \
  There(void optimizer_state(torch::optim::X&, GivenOptions const&, StateSaver&));                                     \
  There(void optimizer_state(torch::optim::X&, GivenOptions const&, StateLoader&))
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, Adagrad);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, Adam);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, AdamW);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, LBFGS);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, RMSprop);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, SGD);

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/optimizer_state.ipp>
#endif
