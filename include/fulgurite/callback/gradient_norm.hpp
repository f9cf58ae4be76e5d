#pragma once
// Sends the norms of all gradients to the loggers.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite {

/// Which norm.
struct GradientNormOptions {
  double norm_type = 2.0;  ///< the p of the p-norm, above 0; infinity means the largest magnitude
};

/// Sends norms of gradients to the loggers, Lightning's track_grad_norm: `GradientNorm{{.norm_type = 2.0}}`. At each
/// step that is also logged, before clipping, there is one number for each parameter of the optimizer,
/// `grad_2.0_norm/<name>`, and one over all, `grad_2.0_norm_total`; a second optimizer's total is
/// `grad_2.0_norm_total-1`. It reads the device once a logged step.
class GradientNorm {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_before_optimizer_step>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;  ///< after those who change gradients
  static constexpr bool needs_logger = true;
  static constexpr bool reads_whole_model = true;
  static constexpr std::string_view reads = "gradients";

  constexpr explicit GradientNorm(GradientNormOptions options = {}) : options_(options) { check(options.norm_type); }

  void on_train_start() { last_.clear(); }
  void on_before_optimizer_step(auto& optimizer, auto& ctx) {
    long const every = ctx.options().log_every_n_steps;
    long const step = ctx.logged_steps();
    if (every == 0 || (step + 1) % every != 0) return;
    std::size_t const position = position_of(optimizer, ctx);
    // An optimizer may run its closure several times a step. The first gradients are those of the batch.
    if (last_.size() <= position) last_.resize(position + 1, -1);
    if (last_[position] == step) return;
    last_[position] = step;

    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    auto norms = Backend::gradient_norms(ctx.model(), optimizer, options_.norm_type);
    if (norms.empty()) return;
    name_all(norms, options_.norm_type);
    std::vector<Scalar> row;
    if (position != 0) norms.back().first += "-" + std::to_string(position);
    for (auto const& [name, value] : norms) row.push_back({name, value});
    ctx.log_scalars(std::span<Scalar const>(row));
  }

  /// Error [fulgurite.callback.gradient_norm_type] unless a norm of that type exists.
  static constexpr void check(double norm_type) {
    if (!(norm_type > 0))
      throw Error("fulgurite.callback.gradient_norm_type",
                  "GradientNorm: a norm_type is above 0, or infinity: leave the callback out where no norm is wanted");
  }
  /// Turns names of parameters, with the total last, into Lightning's keys.
  FULGURITE_COLD static void name_all(std::vector<std::pair<std::string, double>>& norms, double norm_type) {
    std::string const prefix = "grad_" + type_text(norm_type) + "_norm";
    for (auto& [name, value] : norms) name = prefix + (&name == &norms.back().first ? "_total" : "/" + name);
  }

 private:
  static std::size_t position_of(auto& optimizer, auto& ctx) {
    std::size_t found = 0;
    ctx.each_optimizer([&](std::size_t at, auto& one) {
      if (static_cast<void const*>(&one) == static_cast<void const*>(&optimizer)) found = at;
    });
    return found;
  }

  // The number as Python prints it: "2.0", "0.5", "inf".
  static std::string type_text(double type) {
    std::string const shortest = report::exact(type);
    return shortest.find_first_not_of("0123456789") == std::string::npos ? shortest + ".0" : shortest;
  }

  GradientNormOptions options_;
  std::vector<long> last_{};  ///< for each optimizer, the logged step of its last row
};

}  // namespace fulgurite
