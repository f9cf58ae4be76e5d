#pragma once
// The bodies of torch/optim/optimizer.hpp.

#if defined(FULGURITE_COMPILED)
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>
#include <fulgurite/torch/optim/rules.hpp>

namespace fulgurite::libtorch {

// The options of LibTorch's optimizers, and what they keep of a parameter, in the order in which files have them. Each
// optimizer has some of them.
// clang-format off
#define FULGURITE_OPTIONS(ROW)                                                                                         \
  ROW(lr) ROW(momentum) ROW(dampening) ROW(nesterov) ROW(betas) ROW(eps) ROW(weight_decay) ROW(amsgrad) ROW(alpha)     \
  ROW(centered) ROW(lr_decay) ROW(initial_accumulator_value) ROW(max_iter) ROW(max_eval) ROW(tolerance_grad)           \
  ROW(tolerance_change) ROW(history_size) ROW(line_search_fn)
#define FULGURITE_FIELDS(ROW)                                                                                          \
  ROW(step) ROW(momentum_buffer) ROW(exp_avg) ROW(exp_avg_sq) ROW(max_exp_avg_sq) ROW(square_avg) ROW(grad_avg)        \
  ROW(sum) ROW(func_evals) ROW(n_iter) ROW(t) ROW(prev_loss) ROW(d) ROW(H_diag) ROW(prev_flat_grad) ROW(old_dirs)      \
  ROW(old_stps) ROW(ro) ROW(al)
// clang-format on

/// Calls `f(name, given_value, current_value&)` for each option of a parameter group.
template <class Options, class F>
void each_option(Options const& given, Options& now, F&& f) {
#define FULGURITE_ROW(name)                                                                                            \
  if constexpr (requires { now.name(); }) f(#name, given.name(), now.name());
  FULGURITE_OPTIONS(FULGURITE_ROW)
#undef FULGURITE_ROW
}

/// Saves or loads the options of a group. Learning rates and momenta are state, since schedules change them.
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

/// Calls `f(name, value&)` for each part of a parameter's state: numbers, tensors, and LBFGS's lists of tensors.
template <class State, class F>
void each_kept(State& all, F&& f) {
#define FULGURITE_ROW(name)                                                                                            \
  if constexpr (requires { all.name(); }) f(#name, all.name());
  FULGURITE_FIELDS(FULGURITE_ROW)
#undef FULGURITE_ROW
}

// Loads the saved state of a torch::optim optimizer: everything is read and compared before anything changes.

/// The number of parameters in each group.
template <class X>
std::vector<std::size_t> group_sizes(X const& optimizer) {
  std::vector<std::size_t> sizes;
  for (auto const& group : optimizer.param_groups()) sizes.push_back(group.params().size());
  return sizes;
}

/// The given options of a group. For a group that was added without our knowledge: its current options.
template <class Options, class X>
Options const& given_to(GivenOptions const& given, X const& optimizer, std::size_t group) {
  auto const& all = group < given.size() ? *given[group] : optimizer.param_groups()[group].options();
  return static_cast<Options const&>(all);
}

/// The saved state of an optimizer, read and compared with the current one before anything changes.
template <class X>
class OptimizerReader {
  using Options = typename TypesOf<X>::Options;
  using State = typename TypesOf<X>::ParamState;
  static constexpr bool is_lbfgs = requires(State& state) { state.old_dirs(); };

 public:
  /// Throws an Error that names everything that differs.
  OptimizerReader(X& optimizer, GivenOptions const& given, auto& archive) : optimizer_(&optimizer), given_(given) {
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

  /// Replaces the optimizer's state. A parameter without saved state has none afterwards.
  void commit() {
    auto& all = optimizer_->state();
    for (auto& [parameter, state] : states_)
      if (state) all[parameter] = std::move(state);
      else all.erase(parameter);
    for (std::size_t g = 0; g != options_.size(); ++g)
      static_cast<Options&>(optimizer_->param_groups()[g].options()) = std::move(options_[g]);
  }

 private:
  void read_group(std::size_t g, auto& from) {
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

  void read_state(at::Tensor const& parameter, Options const& options, State& state, auto& from) {
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
      if (state.al() && state.al()->size() < longest) state.al(std::nullopt);  // each step refills it
    }
  }

  /// Some options need tensors in LibTorch's step that would be undefined; a state without them is an Error.
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
    if constexpr (is_lbfgs) {  // LBFGS keeps vectors for all parameters together, and single numbers, which may be
                               // integers
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

  void differs(std::string const& how) { append_item(differences_, how, "; "); }
  void refuse_what_differs() const {
    if (!differences_.empty())
      throw Error("fulgurite.optimizer.state",
                  "the saved state is not of this " + std::string(type_name<X>()) + ": " + differences_ +
                      ". Groups, parameters and their order must be those of the optimizer that was saved");
  }
  static std::string said(std::vector<std::size_t> const& sizes) {
    return shape_text(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  }

  // A load may run in inference mode, but tensors made in it cannot be trained on.
  c10::InferenceMode const no_inference_{false};
  at::NoGradGuard const no_graph_ = {};
  X* optimizer_;
  GivenOptions const& given_;
  std::string where_, differences_;
  std::vector<Options> options_;
  std::vector<std::pair<void*, std::unique_ptr<State>>> states_;
};

/// A field in the form that an archive takes: tensors become handles, pairs arrays.
FULGURITE_BULK_BODY SavedTensor archived(at::Tensor const& value) {
  if (value.defined() && value.layout() != at::kStrided)
    throw Error("fulgurite.optimizer.state", "an optimizer keeps a sparse tensor, as SGD with momentum does of sparse "
                                             "gradients, which no file can hold: use dense gradients or no momentum");
  return TensorState<at::Tensor>::save(value);
}
template <class List>
  requires std::is_same_v<typename List::value_type, at::Tensor>
std::vector<SavedTensor> archived(List const& values) {
  std::vector<SavedTensor> all;
  for (auto const& value : values) all.push_back(archived(value));
  return all;
}
FULGURITE_BULK_BODY std::optional<std::vector<SavedTensor>>
archived(std::optional<std::vector<at::Tensor>> const& values) {
  if (!values) return std::nullopt;
  return archived(*values);
}
template <class T>
  requires(std::is_arithmetic_v<T> || is_optional<T>)
T const& archived(T const& value) {
  return value;
}

template <class X, class Archive>
void save_optimizer(X const& optimizer, GivenOptions const& given, Archive& archive) {
  using Options = typename TypesOf<X>::Options;
  using State = typename TypesOf<X>::ParamState;
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

template <class X, class Archive>
void optimizer_state(X& optimizer, GivenOptions const& given, Archive& archive) {
  if constexpr (Archive::loading) OptimizerReader<X>(optimizer, given, archive).commit();
  else save_optimizer(optimizer, given, archive);
}

#define FULGURITE_ROW(X)                                                                                               \
  FULGURITE_INSTANTIATE(void optimizer_state(torch::optim::X&, GivenOptions const&, StateSaver&));                     \
  FULGURITE_INSTANTIATE(void optimizer_state(torch::optim::X&, GivenOptions const&, StateLoader&));
FULGURITE_TORCH_OPTIMIZERS(FULGURITE_ROW)
#undef FULGURITE_ROW

FULGURITE_BULK_BODY TorchGroups::TorchGroups() = default;
FULGURITE_MOVES_BODY(TorchGroups);

FULGURITE_BODY void TorchGroups::note_options(torch::optim::Optimizer const& optimizer) {
  auto const& groups = optimizer.param_groups();
  while (given_.size() < groups.size()) given_.push_back(groups[given_.size()].options().clone());
}

FULGURITE_BULK_BODY std::vector<at::Tensor>& TorchGroups::parameters(torch::optim::Optimizer const& optimizer) {
  std::size_t count = 0, known = 0;
  for (auto const& group : optimizer.param_groups())
    for (auto const& parameter : group.params()) {
      known += count < parameters_.size() && parameters_[count].is_same(parameter);
      ++count;
    }
  if (count != known || count != parameters_.size()) {
    parameters_.clear();
    parameters_.reserve(count);
    for (auto const& group : optimizer.param_groups())
      parameters_.insert(parameters_.end(), group.params().begin(), group.params().end());
  }
  return parameters_;
}

FULGURITE_BULK_BODY void TorchGroups::zero_grad(torch::optim::Optimizer const& optimizer) {
  for (auto& parameter : parameters(optimizer))
    if (auto& gradient = parameter.mutable_grad(); gradient.defined()) gradient.reset();
}

FULGURITE_BODY void TorchGroups::add_group(torch::optim::Optimizer& optimizer, std::string_view name,
                                           std::vector<at::Tensor> const& added, double lr) {
  auto all = parameters(optimizer);
  all.insert(all.end(), added.begin(), added.end());
  if (listed_twice(all).defined()) refuse_listed_twice(name, {});
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(added));
  auto& groups = optimizer.param_groups();
  groups.back().set_options(groups.front().options().clone());
  groups.back().options().set_lr(lr);
  note_options(optimizer);
}

// The steps of LibTorch's own optimizers by the rules of ours.

/// The options of a group as those of a rule, which have the same names.
template <class Options>
Options options_of_rule(auto const& given) {
  Options ours;
  auto const set = [](auto& option, auto const& value) {
    if constexpr (requires { option = value; }) option = value;
    else std::tie(option[0], option[1]) = value;  // the betas
  };
#define FULGURITE_ROW(name)                                                                                            \
  if constexpr (requires { ours.name; }) set(ours.name, given.name());
  FULGURITE_OPTIONS(FULGURITE_ROW)
#undef FULGURITE_ROW
#undef FULGURITE_OPTIONS
#undef FULGURITE_FIELDS
  return ours;
}

/// One of LibTorch's optimizers as an update rule: the states of a parameter in the rule's order. `writes`: how often
/// LibTorch's step writes to the parameter, which counts its version. SGD writes to `parameter.data()`, which has a
/// version of its own.
template <class X>
struct AsRule;

template <class OurOptions, bool Decoupled>
struct AdamAsRule {
  using Rule = optim::rule::Adam<OurOptions, Decoupled>;
  static int writes(OurOptions const& options) { return Decoupled && options.weight_decay != 0 ? 2 : 1; }
  static std::array<at::Tensor*, 3> states(auto& of) { return {&of.exp_avg(), &of.exp_avg_sq(), &of.max_exp_avg_sq()}; }
};
template <>
struct AsRule<torch::optim::Adam> : AdamAsRule<optim::AdamOptions, false> {};
template <>
struct AsRule<torch::optim::AdamW> : AdamAsRule<optim::AdamWOptions, true> {};

template <>
struct AsRule<torch::optim::RMSprop> {
  using Rule = optim::rule::RMSprop;
  static int writes(optim::RMSpropOptions const&) { return 1; }
  static std::array<at::Tensor*, 3> states(auto& of) {
    return {&of.square_avg(), &of.momentum_buffer(), &of.grad_avg()};
  }
};

template <>
struct AsRule<torch::optim::Adagrad> {
  using Rule = optim::rule::Adagrad;
  static int writes(optim::AdagradOptions const&) { return 1; }
  static std::array<at::Tensor*, 1> states(auto& of) { return {&of.sum()}; }
};

template <>
struct AsRule<torch::optim::SGD> {
  using Rule = optim::rule::SGD;
  static int writes(optim::SGDOptions const&) { return 0; }
  static std::array<at::Tensor*, 1> states(auto& of) { return {&of.momentum_buffer()}; }
};

/// True if the tensor's numbers are in the order of the parameter's in the CPU's memory, without gaps, as they are:
/// neither negated nor conjugated when they are read, and no zeros without memory.
FULGURITE_BULK_BODY bool in_one_order(at::Tensor const& one, at::Tensor const& parameter) {
  return one.defined() && one.is_cpu() && one.layout() == at::kStrided && !one.is_neg() && !one.is_conj() &&
         !one._is_zerotensor() && one.scalar_type() == parameter.scalar_type() && one.is_non_overlapping_and_dense() &&
         one.sizes() == parameter.sizes() &&
         (one.strides() == parameter.strides() || (one.is_contiguous() && parameter.is_contiguous()));
}

#if defined(__x86_64__)
/// Updates a part of a parameter. Blocks are read and written in whole portions of 64 bytes; what is left beside them
/// is updated in copies.
template <class T, std::size_t N, class Rule>
void update_part(Rule const& rule, std::array<T*, 2 + N> const& memory, std::size_t begin, std::size_t end) {
  constexpr std::size_t portion = 64 / sizeof(T);
  auto const update = [&](std::array<T*, 2 + N> const& at, std::size_t size) {
    std::array<T*, N> states;
    std::copy(at.begin() + 2, at.end(), states.begin());
    as_libtorch_rounds<T, N>(rule, at[0], at[1], false, states, size);
  };
  auto const from = [&](std::size_t first) {
    auto moved = memory;
    for (auto& data : moved)
      if (data != nullptr) data += first;
    return moved;
  };
  auto const rest = (end - begin) % portion;
  if (end - begin != rest) update(from(begin), end - begin - rest);
  if (rest == 0) return;
  auto const last = from(end - rest);
  std::array<std::array<T, portion>, 2 + N> copies = {};
  std::array<T*, 2 + N> at = {};
  for (std::size_t i = 0; i != last.size(); ++i)
    if (last[i] != nullptr) std::copy_n(last[i], rest, at[i] = copies[i].data());
  update(at, portion);
  for (std::size_t i = 0; i != last.size(); ++i)
    if (i != 1 && last[i] != nullptr) std::copy_n(at[i], rest, last[i]);
}

template <class T, std::size_t N, class Rule>
void update_parameter(Rule const& rule, std::array<at::Tensor const*, 2 + N> const& tensors) {
  std::array<T*, 2 + N> memory = {};
  for (std::size_t i = 0; i != tensors.size(); ++i)
    if (tensors[i] != nullptr) memory[i] = static_cast<T*>(tensors[i]->mutable_data_ptr());
  in_parts(tensors[0]->numel(), [&](std::int64_t begin, std::int64_t end) {
    update_part<T, N>(rule, memory, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}
#endif

template <class X>
bool step_in_one_pass([[maybe_unused]] X& optimizer) {
#if defined(__x86_64__)
  using As = AsRule<X>;
  using Rule = typename As::Rule;
  using State = typename TypesOf<X>::ParamState;
  constexpr auto states = Rule::states.size();
  using Tensors = std::array<at::Tensor const*, 2 + states>;
  if (c10::impl::tls_is_dispatch_key_included(recording_key)) return false;

  // Nothing is written before all parameters were found to be fit for it.
  struct Update {
    typename Rule::Options options;
    State* state;     // null if the parameter has none
    Tensors tensors;  // null where the rule needs none
  };
  std::vector<Update> updates;
  for (auto const& group : optimizer.param_groups()) {
    auto const options =
        options_of_rule<typename Rule::Options>(static_cast<typename TypesOf<X>::Options const&>(group.options()));
    auto const needed = Rule::initial(options);
    for (auto const& parameter : group.params()) {
      auto const& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      auto const type = parameter.scalar_type();
      if (type != at::kFloat && type != at::kDouble) return false;
      auto const found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      auto* const state = found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
      auto& update = updates.emplace_back(Update{options, state, {&parameter, &gradient}});
      for (std::size_t s = 0; s != states; ++s) {
        if (!needed[s]) continue;
        if (state == nullptr) return false;
        update.tensors[2 + s] = As::states(*state)[s];
      }
      for (auto const* const tensor : update.tensors)
        if (tensor != nullptr && !in_one_order(*tensor, parameter)) return false;
      if (parameter.is_alias_of(gradient)) return false;
    }
  }

  for (auto const& [options, state, tensors] : updates) {
    long steps = 1;  // of a rule that counts none, the first step is LibTorch's
    if constexpr (requires { state->step(); }) {
      steps = static_cast<long>(state->step());
      state->step(steps + 1);
    }
    Rule const rule(options, steps);
    if (tensors[0]->scalar_type() == at::kFloat) update_parameter<float, states>(rule, tensors);
    else update_parameter<double, states>(rule, tensors);
    for (int write = 0; write != As::writes(options); ++write) tensors[0]->unsafeGetTensorImpl()->bump_version();
  }
  return true;
#else
  return false;
#endif
}
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::Adagrad&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::Adam&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::AdamW&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::RMSprop&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::SGD&));

FULGURITE_BODY void require_moves(long moves) {
  if (!std::in_range<unsigned>(moves))  // LibTorch's count of them
    throw Error("fulgurite.checkpoint.state_entry",
                "the saved scheduler of a torch_schedule has made " + std::to_string(moves) +
                    " moves, which no scheduler of LibTorch can: the file is damaged");
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

FULGURITE_BULK_BODY void Toggle::untoggle() noexcept {
  if (others_.empty()) return;
  for (auto& [parameter, required] : others_) parameter.set_requires_grad(required);
  others_.clear();
  std::erase(libtorch::flags_to_restore(), &others_);
}

}  // namespace fulgurite
