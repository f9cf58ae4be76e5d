#pragma once
// Loads what optimizer_state.hpp has saved of a torch::optim optimizer: all is read and compared before anything
// changes.

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

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/torch/optim/optimizer_fields.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// How many parameters each group has.
template <class X>
std::vector<std::size_t> group_sizes(X const& optimizer) {
  std::vector<std::size_t> sizes;
  for (auto const& group : optimizer.param_groups()) sizes.push_back(group.params().size());
  return sizes;
}

/// The options that the program has given to each group.
using GivenOptions = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;
/// Those of one group. One that was added behind our back has its present ones.
template <class Options, class X>
Options const& given_to(GivenOptions const& given, X const& optimizer, std::size_t group) {
  auto const& all = group < given.size() ? *given[group] : optimizer.param_groups()[group].options();
  return static_cast<Options const&>(all);
}

/// What was saved of an optimizer, read and compared with one before a bit of that is changed.
template <KnownOptimizer X>
class OptimizerReader {
  using Options = typename OptionsOf<X>::type;
  using State = typename ParamStateOf<X>::type;
  static constexpr bool is_lbfgs = requires(State& state) { state.old_dirs(); };

 public:
  /// Throws an Error that names everything that differs.
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

  /// Makes it the state of the optimizer. A parameter that had no state when it was saved has none from now on.
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
    if constexpr (is_lbfgs) {  // LibTorch takes these lengths on trust
      auto const past = state.old_dirs().size();
      auto const longest = static_cast<std::size_t>(std::max<std::int64_t>(0, options.history_size()));
      if (state.old_stps().size() != past || state.ro().size() != past)
        return differs(where_ + " has lists of old steps whose lengths do not agree");
      for (auto* list : {&state.old_dirs(), &state.old_stps(), &state.ro()})
        while (list->size() > longest) list->pop_front();
      if (state.al() && state.al()->size() < longest) state.al(std::nullopt);  // it is filled anew in each step
    }
  }

  /// LibTorch steps with tensors that some options need and would be undefined.
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

  /// A new tensor with the saved numbers, where the parameter is.
  at::Tensor tensor(std::string_view name, SavedTensor const& saved, at::Tensor const& parameter) {
    if (!saved) return {};
    auto const refused = [&](at::ScalarType type, std::vector<std::int64_t> const& shape) {
      differs(where_ + "." + std::string(name) + " is " + saved.description() + ", here " +
              std::string(element_name(type, name)) + " " + shape_text(shape));
      return at::Tensor();
    };
    at::Tensor made;
    if constexpr (is_lbfgs) {  // keeps vectors of all parameters together, and single numbers, which may be whole
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

  // What is trained on must not be made in inference mode, where a load may fall.
  c10::InferenceMode const no_inference_{false};
  at::NoGradGuard const no_graph_ = {};
  X* optimizer_;
  GivenOptions const& given_;
  std::string where_, differences_;
  std::vector<Options> options_;
  std::vector<std::pair<void*, std::unique_ptr<State>>> states_;
};

}  // namespace fulgurite::libtorch
