#pragma once
// What the loops, which do not know LibTorch, need from a tensor library, answered with LibTorch. Each part of the
// answer has a header of its own.

#include <concepts>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/checkpoint/background_writer.hpp>
#include <fulgurite/metric/keeps.hpp>
#include <fulgurite/torch/data/move.hpp>
#include <fulgurite/torch/data/time_slices.hpp>
#include <fulgurite/torch/device/apart.hpp>
#include <fulgurite/torch/device/autocast.hpp>
#include <fulgurite/torch/device/backend_gradients.hpp>
#include <fulgurite/torch/device/backend_models.hpp>
#include <fulgurite/torch/device/device_stats.hpp>
#include <fulgurite/torch/device/factory_watch.hpp>
#include <fulgurite/torch/device/memory.hpp>
#include <fulgurite/torch/device/modes.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/device/scaler.hpp>
#include <fulgurite/torch/device/shared_switches.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/optim/listed_once.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>
#include <fulgurite/torch/optim/toggle.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>
#include <fulgurite/torch/weights/finetuning.hpp>
#include <fulgurite/torch/weights/run_file.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

namespace metric {
template <Definition D>
class Meter;  // torch/metric/meter.hpp, for programs that declare a metric with a definition
}  // namespace metric

/// The Backend of every strategy that computes with LibTorch. All members are static; what has to be undone is returned
/// as an object that undoes it in its destructor.
struct LibTorch : libtorch::Finetuning, libtorch::OfGradients, libtorch::OfModels {
  using Value = at::Tensor;
  template <class T>
  static constexpr bool is_value = libtorch::TensorLike<T>;
  template <class D>
  using Meter = metric::Meter<D>;
  using Tally = at::Tensor;  ///< what an update of a meter adds
  template <class Precision>
  using Scaler = libtorch::Scaler<Precision>;

  /// Whether the model derives from torch::nn::Module without `public`: its parameters, modes and device would be out
  /// of reach.
  template <class Model>
  static constexpr bool hides_base =
      std::is_base_of_v<torch::nn::Module, Model> && !std::derived_from<Model, torch::nn::Module>;

  // Values: see value.hpp.
  static Value keep(Value const& value) { return libtorch::keep(value); }
  static bool reading_waits(Value const& value) { return libtorch::reading_waits(value); }
  static double read(Value const& value) { return libtorch::read(value); }
  static void read_all(std::span<Value const> values, std::span<double> into) { libtorch::read_all(values, into); }
  static void require_graph(Value const& loss) { libtorch::require_graph(loss); }
  static Value seed(Value const& loss, double factor) { return libtorch::seed(loss, factor); }
  static Value scaled(Value const& loss, double factor) { return libtorch::scaled(loss, factor); }
  static Value detached(Value const& loss, double factor) { return libtorch::detached(loss, factor); }

  // Batches: see walk.hpp and move.hpp.
  template <class B>
  static long batch_size(B const& batch) {
    return libtorch::batch_extent(batch);
  }
  /// Whether the batch holds any tensor. Asked where its size is 0.
  template <class B>
  static bool holds_tensor(B const& batch) {
    bool holds = false;
    libtorch::each_tensor(batch, [&](at::Tensor const& tensor) { holds = holds || tensor.defined(); });
    return holds;
  }
  template <class B, class F>
  static void each_tensor(B const& batch, F&& f) {
    libtorch::each_tensor(batch, f);
  }
  template <class B, class Precision>
  static decltype(auto) convert_input(B&& batch, Precision const& precision) {
    return libtorch::convert_input(std::forward<B>(batch), precision);
  }

  // The device: see device_stats.hpp.
  static auto device_stats(at::Device device) { return libtorch::device_stats(device); }
  static void synchronize(at::Device device) { libtorch::synchronize(device); }

  // Memory: see memory.hpp.
  static bool out_of_memory(std::exception const& error) { return libtorch::out_of_memory(error); }
  static void free_caches(at::Device device) { libtorch::free_caches(device); }
  static void restart_peak_memory(at::Device device) { libtorch::restart_peak_memory(device); }
  static std::optional<double> peak_memory(at::Device device) { return libtorch::peak_memory(device); }

  // Truncated back-propagation: see time_slices.hpp.
  template <class B>
  static auto time_slices(B const& batch, long length) {
    return libtorch::time_slices(batch, length);
  }
  template <class Hidden>
  static Hidden detached_state(Hidden const& hidden) {
    return libtorch::detached_state(hidden);
  }

  // Scopes: see autocast.hpp, modes.hpp, rng.hpp, shared_switches.hpp, toggle.hpp.
  template <class Precision>
  [[nodiscard]] static auto autocast(Precision const& precision, at::Device device) {
    return libtorch::autocast(precision, device);
  }
  /// While the returned object lives, it looks for a tensor that is made without naming a type, and that therefore is
  /// not in the type of the precision: see factory_watch.hpp.
  template <class Precision>
  [[nodiscard]] static auto watch_factories(Precision const&, libtorch::FactoryWatch::Tell tell) {
    return libtorch::FactoryWatch(libtorch::scalar_type(Precision::parameters), std::move(tell));
  }
  /// The name of the loss's type where that is not the type of the precision; else empty.
  template <class Precision>
  static std::string other_type(Value const& loss, Precision const&) {
    auto const type = libtorch::scalar_type(Precision::parameters);
    return !loss.defined() || loss.scalar_type() == type ? std::string()
                                                         : std::string(c10::toString(loss.scalar_type()));
  }
  [[nodiscard]] static auto no_grad(bool inference = false) { return libtorch::NoGradScope(inference); }
  [[nodiscard]] static auto inference() { return libtorch::NoGradScope(true); }
  template <class Model>
  [[nodiscard]] static auto evaluating(Model& model, bool now = true) {
    return libtorch::evaluating(model, now);
  }
  /// Of all default generators.
  static void seed(std::uint64_t seed) { at::manual_seed(seed); }
  [[nodiscard]] static auto isolated_rng() { return libtorch::RngScope(); }
  [[nodiscard]] static auto rng_state() { return libtorch::RngState(); }
  /// Threads that draw and compute for themselves: see apart.hpp.
  using Apart = libtorch::Apart;
  [[nodiscard]] static auto anomaly(bool on) { return libtorch::AnomalyScope(on); }
  [[nodiscard]] static auto algorithms(bool deterministic, std::optional<bool> benchmark) {
    return libtorch::AlgorithmScope(deterministic, benchmark);
  }
  template <class Optimizer, class All>
  [[nodiscard]] static auto toggled(Optimizer& optimizer, All& all) {
    return Toggle(optimizer, all);
  }

  /// A torch::optim optimizer is moved into the shape that the loops drive; what already has that shape passes through.
  template <class O>
    requires(!std::is_lvalue_reference_v<O>)
  static auto adopt(O&& optimizer) {
    if constexpr (std::derived_from<O, torch::optim::Optimizer>) return TorchOptimizer<O>(std::move(optimizer));
    else return O(std::move(optimizer));
  }

  /// What configure_optimizers returns; a tensor in two groups of an optimizer is refused with its names.
  template <class Model, class Make>
  static auto made_optimizers(Model& model, Make const& make) {
    return libtorch::made_with_names(model, make);
  }
  /// Throws fulgurite.optimizer.twice where an optimizer would step a tensor twice.
  template <class Model, class Optimizers>
  static void check_optimizers(Model& model, Optimizers& optimizers) {
    each_of(optimizers, [&](auto& optimizer) { libtorch::require_listed_once(model, optimizer); });
  }

  // The model as a whole: see weights.hpp, summary.hpp.
  template <class Model, class F>
  static void each_weight(Model& model, F&& f) {
    libtorch::each_weight(model, f);
  }
  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model& model, State&& state,
                   std::span<Hyperparameter const> hyperparameters = {}) {
    libtorch::save(path, model, state, hyperparameters);
  }
  /// The same into memory, from which another thread writes it.
  using Background = BackgroundWriter;
  template <class Model, class State>
  static void image(RunImage& into, Model& model, State&& state, std::span<Hyperparameter const> hyperparameters) {
    into.take([&](auto&& f) { libtorch::each_weight(model, f); }, state, hyperparameters);
  }
  using RunFile = libtorch::RunFile;
  template <class Model, class File>
  static void load_weights(Model& model, File const& file) {
    libtorch::load_weights(model, file);
  }
};

}  // namespace fulgurite
