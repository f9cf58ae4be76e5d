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
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>
#include <torch/optim/lbfgs.h>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/weights/averaging.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::optim {

// torch::optim::LBFGS's curvature estimate, saved to an archive and loaded.

/// The archived form. Everything is empty before the first step.
struct SavedLBFGS {
  long func_evals = 0, n_iter = 0;
  double t = 0, prev_loss = 0;
  std::vector<SavedTensor> last = {};  ///< d, H_diag, prev_flat_grad
  std::vector<SavedTensor> old_dirs = {}, old_stps = {}, ro = {};
  void state(auto& archive);
};

/// Calls `f(name, tensor)` for each existing tensor, under torch.optim's names; lists begin with the oldest entry.
void each_lbfgs_tensor(torch::optim::LBFGSParamState const& state, auto&& f) {
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

/// Copies the state's tensors.
SavedLBFGS saved_lbfgs(torch::optim::LBFGSParamState const& now);

/// Converts to torch::optim's state for these parameters. Throws [fulgurite.optim.state_mismatch] if the saved state
/// belongs to other parameters, or cannot have been written by an optimizer.
std::unique_ptr<torch::optim::LBFGSParamState>
lbfgs_state(SavedLBFGS const& from, std::vector<at::Tensor> const& parameters, std::int64_t history_size);

/// Options of optim::LBFGS, with the names and defaults of torch.optim.LBFGS.
struct LBFGSOptions {
  double lr = 1;                                             ///< the learning rate
  std::int64_t max_iter = 20;                                ///< iterations in a step
  std::optional<std::int64_t> max_eval = std::nullopt;       ///< default 5/4 of max_iter
  double tolerance_grad = 1e-7;                              ///< a step ends when no element of the gradient is larger
  double tolerance_change = 1e-9;                            ///< a step ends when loss and parameters change by less
  std::int64_t history_size = 100;                           ///< updates from which the curvature is estimated
  std::optional<std::string> line_search_fn = std::nullopt;  ///< "strong_wolfe", or nullopt for no line search

  void state(auto& archive);
};

/// torch::optim::LBFGS with its parameters and gradients in an arena, so that clearing and clipping are one operation,
/// and gradients keep their addresses (`stable_gradients`). Use it as `optim::LBFGS(*this, {.max_iter = 4})`. It has
/// one group. Its curvature estimate covers all parameters together, in their current type and on their current device:
/// to(device) does not move it.
class LBFGS {
 public:
  using Options = LBFGSOptions;
  static constexpr bool needs_closure = true;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return "LBFGS"; }
  static constexpr std::string_view kind() { return "fulgurite::optim::LBFGS"; }

  explicit LBFGS(torch::nn::Module const& module, Options const& options = {}) : LBFGS(module.parameters(), options) {}
  explicit LBFGS(std::vector<at::Tensor> const& parameters, Options const& options = {});
  /// Takes a learning rate only.
  template <ModuleOrTensors From, NoOptionsOf<Options> Rate>
  LBFGS(From const& from, Rate const& lr) : LBFGS(from, with_rate<Options>(lr)) {}
  FULGURITE_OPTIM_OPTIONS(LBFGS);

  void zero_grad() { arena_->zero_grad(); }

  /// Takes a step. The closure clears the gradients, runs backward and returns the loss; it is called as often as the
  /// method needs. Returns the first loss.
  at::Tensor step(auto&& closure) {
    arena_->look();
    return optimizer_.step(std::ref(closure));
  }

  std::size_t groups() const { return 1; }
  double lr(std::size_t group) const;
  void set_lr(std::size_t group, double value);
  std::optional<double> momentum(std::size_t) const { return std::nullopt; }
  std::optional<double> weight_decay(std::size_t) const { return std::nullopt; }
  void add_group(std::vector<at::Tensor> const&, double) {
    throw Error("fulgurite.optimizer.one_group",
                "LBFGS has one parameter group, so none can be added: use another optimizer");
  }

  libtorch::ArenaParameters parameters() { return libtorch::ArenaParameters(*arena_); }

  /// The number of iterations and, under torch.optim's names, d, H_diag, prev_flat_grad and, oldest first, old_dirs.0,
  /// old_stps.0, ro.0 and so on. It has no tensors before the first step.
  ParameterState state() const;

  /// Saves or loads the state. Loading needs parameters of the same count and type, in the same order; if something
  /// differs it throws an Error and changes nothing.
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
  static Options const& checked(Options const& o);
  static torch::optim::LBFGSOptions theirs(Options const& o);
  static std::vector<at::Tensor> distinct(std::vector<at::Tensor> const& parameters);

  /// LibTorch keeps the state under the first parameter.
  torch::optim::LBFGSParamState const* torch_state() const;
  void load(Options const& options, SavedLBFGS const& from);

  std::unique_ptr<libtorch::Arena> arena_;  ///< on the heap: ranges of parameters point to it
  Options options_;
  torch::optim::LBFGS optimizer_;
};

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/lbfgs.ipp>
#endif
