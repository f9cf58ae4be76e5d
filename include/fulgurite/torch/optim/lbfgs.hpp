#pragma once
// torch::optim::LBFGS with its parameters and gradients in flat buffers.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>
#include <torch/optim/lbfgs.h>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>
#include <fulgurite/torch/weights/averaging.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::optim {

// What torch::optim::LBFGS has learnt of the curvature, in an archive and back.

/// As an archive holds it. Before the first step all of it is empty.
struct SavedLBFGS {
  long func_evals = 0, n_iter = 0;
  double t = 0, prev_loss = 0;
  std::vector<SavedTensor> last = {};  ///< d, H_diag, prev_flat_grad
  std::vector<SavedTensor> old_dirs = {}, old_stps = {}, ro = {};
  void state(auto& archive) {
    archive("func_evals", func_evals)("n_iter", n_iter)("t", t)("prev_loss", prev_loss)("last", last)(
        "old_dirs", old_dirs)("old_stps", old_stps)("ro", ro);
  }
};

/// f(name, tensor) for each that there is, under torch.optim's names; of lists the oldest comes first.
template <class F>
void each_lbfgs_tensor(torch::optim::LBFGSParamState const& state, F&& f) {
  auto const one = [&](std::string const& name, at::Tensor const& tensor) {
    if (tensor.defined()) f(name, tensor);
  };
  one("d", state.d());
  one("H_diag", state.H_diag());
  one("prev_flat_grad", state.prev_flat_grad());
  auto const many = [&](std::string const& name, std::deque<at::Tensor> const& tensors) {
    for (std::size_t i = 0; i != tensors.size(); ++i) one(name + "." + std::to_string(i), tensors[i]);
  };
  many("old_dirs", state.old_dirs());
  many("old_stps", state.old_stps());
  many("ro", state.ro());
}

/// Copies of its tensors.
FULGURITE_BULK SavedLBFGS saved_lbfgs(torch::optim::LBFGSParamState const& now) {
  SavedLBFGS to;
  to.func_evals = now.func_evals();
  to.n_iter = now.n_iter();
  to.t = now.t();
  to.prev_loss = now.prev_loss();
  if (now.d().defined())
    for (auto const& tensor : {now.d(), now.H_diag(), now.prev_flat_grad()}) to.last.push_back(libtorch::saved(tensor));
  auto const many = [](std::vector<SavedTensor>& list, std::deque<at::Tensor> const& tensors) {
    for (auto const& tensor : tensors) list.push_back(libtorch::saved(tensor));
  };
  many(to.old_dirs, now.old_dirs());
  many(to.old_stps, now.old_stps());
  many(to.ro, now.ro());
  return to;
}

/// The state as torch::optim takes it, for these parameters. Error [fulgurite.optim.state_mismatch] where it is of
/// others, or no optimizer can have written it.
FULGURITE_BULK std::unique_ptr<torch::optim::LBFGSParamState>
lbfgs_state(SavedLBFGS const& from, std::vector<at::Tensor> const& parameters, std::int64_t history_size) {
  auto const past = from.old_dirs.size();
  if (from.old_stps.size() != past || from.ro.size() != past)  // LibTorch takes these lengths on trust
    throw Error("fulgurite.optim.state_mismatch",
                "the saved state of LBFGS has lists of old steps whose lengths do not agree: the file was changed "
                "since it was written");
  auto state = std::make_unique<torch::optim::LBFGSParamState>();
  std::int64_t count = 0;
  auto type = parameters.front().scalar_type();
  for (auto const& parameter : parameters) {
    count += parameter.numel();
    type = c10::promoteTypes(type, parameter.scalar_type());
  }
  auto const tensor = [&](SavedTensor const& value, bool vector) {
    for (auto const& known : libtorch::element_names) {
      bool const fits = value.dtype() == known.name &&
                        (vector ? known.type == type && value.shape() == std::vector{count} : value.shape().empty());
      if (!fits) continue;  // a number may be whole: H_diag begins as one
      auto made = at::empty(value.shape(), parameters.front().options().requires_grad(false).dtype(known.type));
      libtorch::restore(made, value);
      return made;
    }
    throw Error("fulgurite.optim.state_mismatch", "the saved state is of another LBFGS: it has a tensor " +
                                                      value.description() + ", the parameters here are " +
                                                      std::to_string(count) +
                                                      " numbers together; they must be those it was saved with");
  };
  auto const many = [&](std::vector<SavedTensor> const& values, bool vectors) {
    std::deque<at::Tensor> all;
    for (auto const& value : values) all.push_back(tensor(value, vectors));
    while (all.size() > static_cast<std::size_t>(history_size))
      all.pop_front();  // the oldest; another option than then
    return all;
  };
  state->func_evals(from.func_evals).n_iter(from.n_iter).t(from.t).prev_loss(from.prev_loss);
  if (from.last.size() == 3)
    state->d(tensor(from.last[0], true)).H_diag(tensor(from.last[1], false)).prev_flat_grad(tensor(from.last[2], true));
  state->old_dirs(many(from.old_dirs, true)).old_stps(many(from.old_stps, true)).ro(many(from.ro, false));
  return state;
}

/// Options of optim::LBFGS, with the names and defaults of torch.optim.LBFGS.
struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;                           ///< evaluations of the closure in a step, but for line searches
  std::optional<std::int64_t> max_eval = std::nullopt;  ///< 5/4 of max_iter
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;
  std::optional<std::string> line_search_fn = std::nullopt;  ///< "strong_wolfe", or none

  void state(auto& archive) {
    archive("lr", lr).option("max_iter", max_iter).option("max_eval", max_eval);
    archive.option("tolerance_grad", tolerance_grad).option("tolerance_change", tolerance_change);
    archive.option("history_size", history_size).option("line_search_fn", line_search_fn);
  }
};

/// `optim::LBFGS(*this, {.max_iter = 4})`: the steps are torch::optim::LBFGS's own. Parameters and gradients lie in an
/// arena, so that clearing and clipping are one operation, and gradients stay where they are (`stable_gradients`). One
/// group. What it has learnt of the curvature is of all parameters together, in their present type and place: it does
/// not move along with to(device).
class LBFGS {
 public:
  using Options = LBFGSOptions;
  static constexpr bool needs_closure = true;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return "LBFGS"; }
  static constexpr std::string_view kind() { return "fulgurite::optim::LBFGS"; }

  explicit LBFGS(torch::nn::Module const& module, Options const& options = {}) : LBFGS(module.parameters(), options) {}
  explicit LBFGS(std::vector<at::Tensor> const& parameters, Options const& options = {})
      : arena_(std::make_unique<libtorch::Arena>(0)),
        options_(checked(options)),
        optimizer_(distinct(parameters), theirs(options)) {
    arena_->add(distinct(parameters), 0, {});
  }

  /// Sets the gradients to zero, in place.
  void zero_grad() { arena_->zero_grad(); }

  /// The closure clears the gradients, runs backward and returns the loss; it is called as often as the method needs
  /// it. Returns the first loss.
  template <class Closure>
  at::Tensor step(Closure&& closure) {
    arena_->look();
    return optimizer_.step(std::ref(closure));
  }

  std::size_t groups() const { return 1; }
  double lr(std::size_t group) const { return optimizer_.param_groups().at(group).options().get_lr(); }
  void set_lr(std::size_t group, double value) { optimizer_.param_groups().at(group).options().set_lr(value); }
  std::optional<double> momentum(std::size_t) const { return std::nullopt; }
  std::optional<double> weight_decay(std::size_t) const { return std::nullopt; }
  void add_group(std::vector<at::Tensor> const&, double) {
    throw Error("fulgurite.optimizer.one_group",
                "LBFGS has one parameter group, so none can be added: use another optimizer");
  }

  libtorch::ArenaParameters parameters() { return libtorch::ArenaParameters(*arena_); }

  /// The number of iterations and, under torch.optim's names, d, H_diag, prev_flat_grad and, oldest first, old_dirs.0,
  /// old_stps.0, ro.0 and so on. Before the first step there is none of these.
  FULGURITE_BULK ParameterState state() const {
    ParameterState all;
    if (auto const* now = torch_state()) {
      all.step = now->n_iter();
      each_lbfgs_tensor(*now,
                        [&](std::string const& name, at::Tensor const& tensor) { all.tensors.emplace(name, tensor); });
    }
    return all;
  }

  /// Loading needs parameters of the same count and type, in the same order; if something differs it throws an Error,
  /// and nothing has changed.
  template <class Archive>
    requires requires { Archive::loading; }
  void state(Archive& archive) {
    Options options = options_;
    options.lr = lr(0);
    SavedLBFGS saved;
    if constexpr (!Archive::loading)
      if (auto const* now = torch_state()) saved = saved_lbfgs(*now);
    archive("options", options)("state", saved);
    if constexpr (Archive::loading) load(options, saved);
  }

 private:
  FULGURITE_BULK static Options const& checked(Options const& o) {
    require_option(o.lr >= 0, name(), "lr", o.lr);
    require_option(o.max_iter >= 1, name(), "max_iter (which is 1 or more)", static_cast<double>(o.max_iter));
    require_option(o.history_size >= 1, name(), "history_size (which is 1 or more)",
                   static_cast<double>(o.history_size));
    require_option(!o.line_search_fn || *o.line_search_fn == "strong_wolfe", name(),
                   "line_search_fn (which is strong_wolfe or none)", 0);
    return o;
  }
  FULGURITE_BULK static torch::optim::LBFGSOptions theirs(Options const& o) {
    return torch::optim::LBFGSOptions(o.lr)
        .max_iter(o.max_iter)
        .max_eval(o.max_eval ? o.max_eval : o.max_iter * 5 / 4)
        .tolerance_grad(o.tolerance_grad)
        .tolerance_change(o.tolerance_change)
        .history_size(o.history_size)
        .line_search_fn(o.line_search_fn);
  }
  static std::vector<at::Tensor> distinct(std::vector<at::Tensor> const& parameters) {
    if (parameters.empty())
      throw Error("fulgurite.optim.parameter", "LBFGS was given no parameters: hand it module->parameters()");
    return libtorch::distinct(parameters);
  }

  /// LibTorch keeps the state under the first parameter.
  FULGURITE_BULK torch::optim::LBFGSParamState const* torch_state() const {
    auto const& all = optimizer_.state();
    auto const found = all.find(optimizer_.param_groups().front().params().front().unsafeGetTensorImpl());
    return found == all.end() ? nullptr : static_cast<torch::optim::LBFGSParamState const*>(found->second.get());
  }
  FULGURITE_BULK void load(Options const& options, SavedLBFGS const& from) {
    c10::InferenceMode const no_inference(false);  // what is trained on must not be made in it
    checked(options);
    auto state = lbfgs_state(from, arena_->parameters(), options.history_size);
    auto& all = optimizer_.state();
    auto* const key = optimizer_.param_groups().front().params().front().unsafeGetTensorImpl();
    if (from.n_iter == 0 && from.func_evals == 0) all.erase(key);
    else all[key] = std::move(state);
    optimizer_.param_groups().front().set_options(std::make_unique<torch::optim::LBFGSOptions>(theirs(options)));
    options_ = options;
  }

  std::unique_ptr<libtorch::Arena> arena_;  ///< ranges of parameters point to it, the optimizer moves
  Options options_;
  torch::optim::LBFGS optimizer_;
};

}  // namespace fulgurite::optim
