#pragma once
// What the loops, which do not know LibTorch, need from a tensor library, implemented with LibTorch. Each part has a
// header of its own.

#include <concepts>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/optim/clip.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>
#include <fulgurite/torch/weights/averaging.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>
#include <fulgurite/torch/weights/summary.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace torch::jit {
struct Module;
}

namespace fulgurite::libtorch {

// The loss scale of Fp16Mixed. It keeps small gradients above the smallest float16; a step whose gradients overflow is
// skipped.

/// Computes like torch.amp.GradScaler. Everything stays on the device; only `finite()` makes the host wait in a step.
/// With several optimizers, call unscale, finite and step for each of them, then update once.
///
/// A graph of a step may contain `unscale` and `update`, with an `on`: where that is false in a replay, gradients and
/// scale keep every bit.
template <class Precision>
class Scaler {
 public:
  Scaler(Precision const& precision, at::Device device)
      : precision_(precision),
        scale_(at::full({1}, precision.init_scale, at::TensorOptions(device).dtype(at::kFloat))),
        good_steps_(at::zeros({1}, at::TensorOptions(device).dtype(at::kInt))),
        found_(at::zeros({1}, scale_.options())),
        found_any_(at::zeros({1}, scale_.options())) {}

  /// The gradient that backward starts with: scale * factor, in the type and shape of the loss, so that the loss itself
  /// is never multiplied. There is one tensor for each factor and kind of loss. Its value follows the scale, so that a
  /// captured step can read the same tensor each time.
  at::Tensor seed(at::Tensor const& loss, double factor) {
    require_scalar(loss);
    for (auto const& made : seeds_)
      if (made.factor == factor && same_kind(made.seed, loss)) return made.seed;
    at::NoGradGuard const no_graph;
    auto const& made = seeds_.emplace_back(Seed{factor, at::empty_like(loss.detach())});
    follow(made);
    return made.seed;
  }

  /// Divides the gradients by the scale and records whether one of them was infinite or not a number.
  void unscale(auto const& parameters, at::Tensor const& on = {}) {
    Gradients const gradients(parameters);
    found_.zero_();
    if (gradients->empty()) return;
    auto inverse = scale_.to(at::kDouble).reciprocal_().to(at::kFloat);  // in double, like GradScaler
    if (on.defined()) inverse = at::where(on, inverse, at::ones_like(inverse));
    if (gradients.on_one_device()) {
      at::_amp_foreach_non_finite_check_and_unscale_(*gradients, found_, inverse);
    } else {
      for (auto& gradient : *gradients) {
        auto elsewhere = at::zeros({1}, found_.options().device(gradient.device()));
        at::_amp_foreach_non_finite_check_and_unscale_(gradient, elsewhere, inverse.to(gradient.device()));
        found_.copy_(at::maximum(found_, elsewhere.to(found_.device())));
      }
    }
    at::maximum_out(found_any_, found_any_, found_);
  }

  /// True if the gradients that were unscaled last may be used for a step. Waits for the device.
  bool finite() const { return read(found_) == 0.0; }
  /// The same on the device: not 0 if they may not.
  at::Tensor const& found() const { return found_; }

  /// Call this once per step: reduces the scale after an overflow, and increases it after `growth_interval` good steps
  /// in a row.
  void update(at::Tensor const& on = {}) {
    at::NoGradGuard const no_graph;
    auto scale = on.defined() ? scale_.clone() : scale_, good_steps = on.defined() ? good_steps_.clone() : good_steps_;
    at::_amp_update_scale_(scale, good_steps, found_any_, precision_.growth_factor, precision_.backoff_factor,
                           precision_.growth_interval);
    if (on.defined()) {
      at::where_out(scale_, on, scale, scale_);
      at::where_out(good_steps_, on, good_steps, good_steps_);
    }
    found_any_.zero_();
    seeds_follow(0);
  }

  /// The number of seeds so far; and the change of those from this number on to the present scale, for seeds that were
  /// made after the graph that has updated the scale.
  std::size_t seeds() const { return seeds_.size(); }
  void seeds_follow(std::size_t first) const {
    at::NoGradGuard const no_graph;
    for (; first < seeds_.size(); ++first) follow(seeds_[first]);
  }

  /// Waits for the device.
  double scale() const { return read(scale_); }

  /// The scale and the number of good steps in a row. Gradients that were unscaled in an unfinished step are ignored
  /// after loading: that step is run again, or never.
  void state(auto& archive) {
    double now = scale();
    std::int64_t good = good_steps_.item<std::int64_t>();
    archive("scale", now)("good_steps", good);
    archive.option("init_scale", precision_.init_scale).option("growth_factor", precision_.growth_factor);
    archive.option("backoff_factor", precision_.backoff_factor);
    archive.option("growth_interval", precision_.growth_interval);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      scale_.fill_(now);
      good_steps_.fill_(good);
      found_.zero_();
      found_any_.zero_();
      seeds_follow(0);
    }
  }

 private:
  struct Seed {
    double factor;
    at::Tensor seed;
  };
  void follow(Seed const& made) const { made.seed.copy_(scale_.mul(made.factor).reshape(made.seed.sizes())); }

  Precision precision_;
  at::Tensor scale_;
  at::Tensor good_steps_;
  at::Tensor found_;
  at::Tensor found_any_;
  std::vector<Seed> seeds_;
};

// The part of LibTorch's Backend for gradients, and for numbers that are infinite or not a number.

/// A base of fulgurite::LibTorch.
struct OfGradients {
  using Value = at::Tensor;

  // Gradients: see clip.hpp.
  static bool no_gradients(auto const& parameters) {
    if constexpr (requires { parameters.no_gradients(); })  // defined even if not received
      return parameters.no_gradients();
    for (auto const& parameter : parameters)
      if (parameter.grad().defined()) return false;
    return true;
  }
  static void scale_gradients(auto const& parameters, double factor) { libtorch::scale_gradients(parameters, factor); }
  static Value clip_norm(auto const& parameters, double limit) { return libtorch::clip_norm(parameters, limit); }
  static void clip_value(auto const& parameters, double limit) { libtorch::clip_value(parameters, limit); }

  /// Sets whether optimizers with an arena may read large gradients in the memory in which backward made them.
  static void leave_gradients(auto& optimizers, bool leave) {
    each_of(optimizers, [&](auto& optimizer) {
      if constexpr (requires { optimizer.parameters().arena(); }) optimizer.parameters().arena().leave_gradients(leave);
    });
  }

  // Numbers that are infinite or not a number: see torch/optim/clip.hpp.
  static bool gradients_wait(auto const& parameters) { return libtorch::on_a_device(parameters); }
  static bool gradients_finite(auto const& parameters) { return libtorch::gradients_finite(parameters); }
  /// A check that uses what was found in large gradients when backward made them.
  using GradientLooks = libtorch::GradientLooks;
  static bool gradients_finite(auto const& parameters, SeenGradients const& seen) {
    return libtorch::gradients_finite(parameters, seen);
  }
  static bool weights_finite(auto const& parameters) { return libtorch::weights_finite(parameters); }
  static bool is_number(Value const& loss);
  static std::string buffer_with_nan(auto& model) { return libtorch::buffer_with_nan(libtorch::module_if_any(model)); }
  /// These add numbers that show whether all gradients, or weights, are finite.
  static void note_gradients(std::vector<Value>& noted, auto const& parameters) {
    libtorch::note_gradients(noted, parameters);
  }
  static void note_weights(std::vector<Value>& noted, auto const& parameters) {
    libtorch::note_weights(noted, parameters);
  }
  /// Replaces numbers by one that is finite if all of them are.
  static void condense(std::vector<Value>& noted) { libtorch::condense(noted); }

  /// The gradient of a parameter, undefined if it has none; and its setter, which uses the memory that an arena has for
  /// it. Setting an undefined gradient removes it.
  static Value gradient(Value const& parameter) { return parameter.grad(); }
  static void set_gradient(Value const& parameter, Value const& gradient);
  /// What a file holds of a gradient: the gradient itself, or the rows of a sparse one and where they are. A row may
  /// occur several times: their order decides the last bits of a sum.
  struct Parts {
    Value values, indices;  ///< indices are undefined for a dense gradient
  };
  static Parts parts(Value const& gradient);
  static Value sparse(Parts const& parts, Value const& parameter);
};

// The part of LibTorch's Backend for the tensors of a model: averages of weights, batch norms, parameters by name,
// summaries.

/// A base of fulgurite::LibTorch.
struct OfModels {
  using Value = at::Tensor;

  /// Makes the weights and buffers float64, where they are.
  static void widen(auto& model) { libtorch::relocate(libtorch::module_if_any(model), std::nullopt, at::kDouble); }

  // Averages of weights: see averaging.hpp.
  static std::vector<Value> weights(auto& model) { return libtorch::weights(libtorch::module_if_any(model)); }
  static std::vector<Value> buffers(auto& model) { return libtorch::buffers(libtorch::module_if_any(model)); }
  /// The names of weights and buffers, in their order.
  static std::vector<std::string> weight_names(auto& model) {
    return libtorch::weight_names(libtorch::module_if_any(model));
  }
  /// What is switched off in a model, or which modules are in eval mode, and their setters: see weights.hpp.
  static Switches switches(torch::nn::Module& model) { return libtorch::switches(model); }
  static void set_switches(torch::nn::Module& model, Switches const& off) { libtorch::set_switches(model, off); }
  static std::vector<std::string> eval_modules(torch::nn::Module& model) { return libtorch::eval_modules(model); }
  static void set_modes(torch::nn::Module& model, std::vector<std::string> const& eval_modules) {
    libtorch::set_modes(model, eval_modules);
  }
  static bool averages(Value const& value) { return libtorch::averages(value); }
  static Value clone(Value const& value) { return libtorch::clone(value); }
  static std::vector<Value> clones(std::span<Value const> values) { return libtorch::clones(values); }
  static void copy_into(Value& to, Value const& from) { libtorch::copy_into(to, from); }
  static void copy_into(std::span<Value const> to, std::span<Value const> from) { libtorch::copy_into(to, from); }
  static void lerp_into(Value& average, Value const& value, double t);
  static void lerp_into(std::span<Value> averages, std::span<Value const> values, double t);
  static SavedTensor saved(Value const& value) { return libtorch::saved(value); }
  static void restore(Value& to, SavedTensor const& from);
  /// Throws an Error unless the saved tensor fits; and the restoration of many tensors, which does not fail.
  static void require_fit(Value const& to, SavedTensor const& from) { libtorch::require_average(to, from); }
  static void restore(std::span<Value const> to, std::span<SavedTensor const> from) { libtorch::restore(to, from); }
  /// A new tensor from saved bytes, on the device of another one.
  static Value made_from(SavedTensor const& from, Value const& beside);
  static bool has_batch_norm(auto& model) { return libtorch::has_batch_norm(model); }
  [[nodiscard]] static auto reset_batch_norm(auto& model) { return libtorch::reset_batch_norm(model); }
  static std::vector<SavedTensor> norm_statistics(auto& model) { return libtorch::norm_statistics(model); }
  static void restore_norm_statistics(auto& model, std::span<SavedTensor const> from) {
    libtorch::restore_norm_statistics(model, from);
  }

  // Parameters, their gradients' norms and masks over them: see torch/weights/weights.hpp, torch/optim/clip.hpp,
  // torch/weights/averaging.hpp.
  static auto named_parameters(auto& model) { return libtorch::named_parameters(model); }
  static auto gradient_norms(auto& model, auto& optimizer, double type) {
    return libtorch::gradient_norms(model, optimizer, type);
  }
  static auto masks(auto& model, PruningChoice const& choice) { return libtorch::masks(model, choice); }

  static auto summarize(auto const& model, int max_depth) { return libtorch::summarize(model, max_depth); }
  /// Adds the results of a run with the model's example input, if it has one.
  template <class Model>
  static void run_example(Model& model, std::vector<report::ModelRow>& rows) {
    if constexpr (libtorch::HasExample<Model>) libtorch::run_example(model, rows);
  }
};

}  // namespace fulgurite::libtorch

namespace fulgurite {

namespace metric {
template <Definition D>
class Meter;  // torch/metric/meter.hpp, for programs that declare a metric with a definition
}  // namespace metric

/// The Backend of every strategy that computes with LibTorch. All members are static; scopes are objects whose
/// destructor restores the previous state.
struct LibTorch : libtorch::Finetuning, libtorch::OfGradients, libtorch::OfModels {
  using Value = at::Tensor;
  template <class T>
  static constexpr bool is_value = libtorch::TensorLike<T>;
  template <class D>
  using Meter = metric::Meter<D>;
  using Tally = at::Tensor;  ///< the result of a tally, which a meter adds
  template <class Precision>
  using Scaler = libtorch::Scaler<Precision>;

  /// True if the model derives non-publicly from torch::nn::Module: its parameters, modes and device would be
  /// inaccessible.
  template <class Model>
  static constexpr bool hides_base =
      std::is_base_of_v<torch::nn::Module, Model> && !std::derived_from<Model, torch::nn::Module>;

  /// True if the model derives from torch::jit::Module, which has no base in common with torch::nn::Module.
  template <class Model>
  static constexpr bool is_script = std::is_base_of_v<torch::jit::Module, Model>;

  // Values: see value.hpp.
  static Value keep(Value const& value) { return libtorch::keep(value); }
  static bool reading_waits(Value const& value) { return libtorch::reading_waits(value); }
  static double read(Value const& value) { return libtorch::read(value); }
  static void read_all(std::span<Value const> values, std::span<double> into) { libtorch::read_all(values, into); }
  static void require_graph(Value const& loss) { libtorch::require_graph(loss); }
  using UntrainedLeaves = libtorch::UntrainedLeaves;
  static Value seed(Value const& loss, double factor) { return libtorch::seed(loss, factor); }
  static Value scaled(Value const& loss, double factor) { return libtorch::scaled(loss, factor); }
  static Value detached(Value const& loss, double factor) { return libtorch::detached(loss, factor); }

  // Batches: see walk.hpp and torch/data/walk.hpp.
  static long batch_size(auto const& batch) { return libtorch::batch_extent(batch); }
  /// True if the batch holds any tensor. Used if its size is 0.
  static bool holds_tensor(auto const& batch) {
    bool holds = false;
    libtorch::each_tensor(batch, [&](at::Tensor const& tensor) { holds = holds || tensor.defined(); });
    return holds;
  }
  static void each_tensor(auto const& batch, auto&& f) { libtorch::each_tensor(batch, f); }
  template <class B, class Precision>
  static decltype(auto) convert_input(B&& batch, Precision const& precision) {
    return libtorch::convert_input(std::forward<B>(batch), precision);
  }

  // The device: see internals.hpp.
  static auto device_stats(at::Device device) { return libtorch::device_stats(device); }
  static void synchronize(at::Device device) { libtorch::synchronize(device); }

  // Memory: see internals.hpp.
  static bool out_of_memory(std::exception const& error) { return libtorch::out_of_memory(error); }
  static void free_caches(at::Device device) { libtorch::free_caches(device); }
  static void restart_peak_memory(at::Device device) { libtorch::restart_peak_memory(device); }
  static std::optional<double> peak_memory(at::Device device) { return libtorch::peak_memory(device); }

  // Truncated back-propagation: see torch/data/walk.hpp.
  static auto time_slices(auto const& batch, long length) { return libtorch::time_slices(batch, length); }
  template <class Hidden>
  static Hidden detached_state(Hidden const& hidden) {
    return libtorch::detached_state(hidden);
  }

  // Scopes: see internals.hpp, internals.hpp, rng.hpp, value.hpp, torch/optim/optimizer.hpp.
  [[nodiscard]] static auto autocast(auto const& precision, at::Device device) {
    return libtorch::autocast(precision, device);
  }
  /// Returns an object that, while it lives, detects tensors that are made without naming a type and therefore do not
  /// have the type of the precision: see value.hpp.
  template <class Precision>
  [[nodiscard]] static auto watch_factories(Precision const&, libtorch::FactoryWatch::Report report) {
    return libtorch::FactoryWatch(libtorch::scalar_type(Precision::parameters), std::move(report));
  }
  /// The name of the loss's type if it differs from the type of the precision; otherwise empty.
  template <class Precision>
  static std::string other_type(Value const& loss, Precision const&) {
    auto const type = libtorch::scalar_type(Precision::parameters);
    return !loss.defined() || loss.scalar_type() == type ? std::string()
                                                         : std::string(c10::toString(loss.scalar_type()));
  }
  [[nodiscard]] static auto no_grad(bool inference = false) { return libtorch::NoGradScope(inference); }
  [[nodiscard]] static auto inference() { return libtorch::NoGradScope(true); }
  [[nodiscard]] static auto evaluating(auto& model, bool now = true) { return libtorch::evaluating(model, now); }
  /// Seeds all default generators.
  static void seed(std::uint64_t seed) { at::manual_seed(seed); }
  [[nodiscard]] static auto isolated_rng() { return libtorch::RngScope(); }
  [[nodiscard]] static auto rng_state() { return libtorch::RngState(); }
  /// Threads with their own random numbers and cores: see rng.hpp.
  using Apart = libtorch::Apart;
  [[nodiscard]] static auto anomaly(bool on) { return libtorch::AnomalyScope(on); }
  [[nodiscard]] static auto algorithms(bool deterministic, std::optional<bool> benchmark) {
    return libtorch::AlgorithmScope(deterministic, benchmark);
  }
  [[nodiscard]] static auto toggled(auto& optimizer, auto& all) { return Toggle(optimizer, all); }

  /// Adapts a torch::optim optimizer to the interface that the loops drive; an optimizer that already has it is
  /// returned as it is.
  template <class O>
    requires(!std::is_lvalue_reference_v<O>)
  static auto adopt(O&& optimizer) {
    if constexpr (std::derived_from<O, torch::optim::Optimizer>) return TorchOptimizer<O>(std::move(optimizer));
    else return O(std::move(optimizer));
  }

  /// The result of configure_optimizers. If an optimizer has a tensor in two groups, the Error names the tensor.
  static auto made_optimizers(auto& model, auto const& make) { return libtorch::made_with_names(model, make); }
  /// Throws fulgurite.optimizer.twice if an optimizer would step a tensor twice.
  static void check_optimizers(auto& model, auto& optimizers) {
    each_of(optimizers, [&](auto& optimizer) { libtorch::require_listed_once(model, optimizer); });
  }

  // The whole model: see weights.hpp, summary.hpp.
  /// Throws fulgurite.checkpoint.element_type if a file cannot hold one of its weights.
  static void check_kept(auto& model) { libtorch::require_kept(libtorch::module_if_any(model)); }
  static void each_weight(auto& model, TakeWeight f) { libtorch::each_weight(model, f); }
  static void save(std::filesystem::path const& path, auto& model, FunctionRef<void(StateSaver&)> state,
                   std::span<Hyperparameter const> hyperparameters = {}) {
    libtorch::save(path, libtorch::module_if_any(model), state, hyperparameters);
  }
  /// Saves to memory, from which another thread writes the file.
  using Background = BackgroundWriter;
  static void image(RunImage& into, auto& model, FunctionRef<void(StateSaver&)> state,
                    std::span<Hyperparameter const> hyperparameters) {
    libtorch::save(into, libtorch::module_if_any(model), state, hyperparameters);
  }
  using RunFile = libtorch::RunFile;
  static void load_weights(auto& model, auto const& file) { libtorch::load_weights(model, file); }
};

namespace loop {
FULGURITE_EXTERN(void finish<LibTorch>(FilesUnderWay<LibTorch>&, HeldFiles&, Due const&));
FULGURITE_EXTERN(void fold_gradients<LibTorch>(std::span<at::Tensor const>, std::vector<bool>&, StateSaver&));
FULGURITE_EXTERN(void fold_gradients<LibTorch>(std::span<at::Tensor const>, std::vector<bool>&, StateLoader&));
}  // namespace loop
FULGURITE_EXTERN(class BoardEntries<LibTorch>);
FULGURITE_EXTERN(void BoardEntries<LibTorch>::state(Cells, std::span<std::string_view const>, StateSaver&));
FULGURITE_EXTERN(void BoardEntries<LibTorch>::state(Cells, std::span<std::string_view const>, StateLoader&));

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/backend.ipp>
#endif
