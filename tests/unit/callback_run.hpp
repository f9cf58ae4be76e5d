#pragma once
// A run on toy tensors whose metrics follow a script, whose clock stands still until told, and whose checkpoints are
// real files.

#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/loop/trainer.hpp>

#include "checkpoint_folder.hpp"
#include "toy.hpp"

// In a namespace, since other tests of the same program may use the same words.
namespace probe {

/// What each Backend::save wrote, in order.
inline std::vector<std::string> saved_files;

struct SavingBackend : toy::Backend {
  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model& model, State&& state,
                   std::span<fulgurite::Hyperparameter const> hyperparameters = {}) {
    fulgurite::save_run_file(path, [&](auto&& f) { each_weight(model, f); }, state, hyperparameters);
    saved_files.push_back(path.filename().string());
  }
  template <class Model>
  static void each_weight(Model& model, auto&& f) {
    for (std::size_t i = 0; auto const& weight : weights(model)) {
      double const value = weight.value();
      f(std::to_string(i++), fulgurite::WeightView{"F64", {}, std::as_bytes(std::span(&value, 1))});
    }
  }
  using Background = fulgurite::BackgroundWriter;
  template <class Model, class State>
  static void image(fulgurite::RunImage& into, Model& model, State&& state,
                    std::span<fulgurite::Hyperparameter const> hyperparameters) {
    into.take([&](auto&& f) { each_weight(model, f); }, state, hyperparameters);
  }

  class RunFile {
   public:
    explicit RunFile(std::filesystem::path const& path) : file_(path), tree_(fulgurite::run_state_if_any(file_)) {}
    template <class Model>
    void load_weights(Model& model) const {
      for (std::size_t i = 0; auto& weight : weights(model)) {
        double value = 0;
        file_.read(*file_.find(std::to_string(i++)), std::as_writable_bytes(std::span(&value, 1)));
        weight.set(value);
      }
    }
    template <class Fold>
    void load(Fold&& fold) const {
      fulgurite::load_state(tree_, fold);
    }
    template <class Fold>
    void load_whole(Fold&& fold) const {
      fulgurite::load_state(tree_, fold, fulgurite::Unread::refused);
    }

    template <class Model, class Fold>
    std::string difference(Model& model, Fold&& fold) const {
      auto const each_shape = [&](auto&& f) {
        each_weight(model, [&](auto const& name, auto const& view) { f(name, view.dtype, view.shape); });
      };
      return fulgurite::assembly_difference(file_, tree_, each_shape, fold);
    }

    fulgurite::ArchiveNode const& state() const { return tree_; }

   private:
    fulgurite::SafetensorsFile file_;
    fulgurite::ArchiveNode tree_;
  };
};
struct SavingDevice : toy::Device {
  using Backend = SavingBackend;
};

/// Seconds that pass only when a test says so.
inline double fake_seconds = 0;
inline long clock_looks = 0;
inline fulgurite::TrainerOptions::Clock::time_point fake_now() {
  ++clock_looks;
  return fulgurite::TrainerOptions::Clock::time_point(
      std::chrono::duration_cast<fulgurite::TrainerOptions::Clock::duration>(
          std::chrono::duration<double>(fake_seconds)));
}

/// `vl` of epoch e is script[e] (the last one goes on); NaN is logged as such, a missing value is not logged.
struct Scripted {
  static constexpr fulgurite::Metric<"loss"> loss{.prog_bar = true};
  static constexpr fulgurite::Metric<"vl"> vl{.prog_bar = true};
  static constexpr fulgurite::Metric<"missing"> missing{};
  static constexpr fulgurite::Metric<"val/acc"> acc{};
  using Metrics = fulgurite::MetricList<loss, vl, missing, acc>;

  std::vector<double> script = {1};
  toy::Tensor p = toy::Tensor::parameter(0.0);
  double seconds_per_batch = 0;
  long fails_at = -1;
  bool fails_in_validation = false;
  double momentum = 0;
  long batches = 0;
  int epochs = 0;

  toy::Tensor training_step(double batch, auto& ctx) {
    fake_seconds += seconds_per_batch;
    if (batches++ == fails_at) throw fulgurite::Error("fulgurite.test.step", "a step failed");
    ctx.log(loss, batch);
    epochs = ctx.current_epoch() + 1;
    return -p;
  }
  void validation_step(double, auto& ctx) {
    if (fails_in_validation) throw std::runtime_error("the disk was away");
    fake_seconds += seconds_per_batch;
    auto const at = std::min(static_cast<std::size_t>(ctx.current_epoch()), script.size() - 1);
    ctx.log(vl, script[at]);
    ctx.log(acc, 0.25);
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .momentum = momentum}; }
};

/// Does something at the start of each batch, such as what a fit does that goes back: it loads the state of an earlier
/// step into a callback.
struct AtBatch {
  using Stateless = fulgurite::ByChoice;
  std::function<void(long)> then = nullptr;  ///< of the steps so far
  void on_train_batch_start(auto& ctx) { then(ctx.global_step()); }
};

inline fulgurite::TrainerOptions quick(int epochs) {
  return {.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 1, .now = &fake_now};
}

/// A fit of `batches` batches an epoch with one validation batch. A trainer does not move, so this one is its own.
template <class... Cs>
using ScriptedTrainer = fulgurite::Trainer<Scripted, SavingDevice, fulgurite::Float32, fulgurite::Automatic, Cs...>;
template <class... Cs>
struct Fitted : ScriptedTrainer<Cs...> {
  Fitted(Scripted& model, fulgurite::TrainerOptions options, int batches, Cs... callbacks)
      : ScriptedTrainer<Cs...>(std::move(options), SavingDevice{}, fulgurite::Float32{}, fulgurite::Automatic{},
                               std::move(callbacks)...) {
    saved_files.clear();
    this->fit(model, toy::batches(batches), toy::batches(1));
  }
};
template <class... Cs>
Fitted<Cs...> fitted(Scripted& model, fulgurite::TrainerOptions options, int batches, Cs... callbacks) {
  return Fitted<Cs...>(model, std::move(options), batches, std::move(callbacks)...);
}

}  // namespace probe
using namespace probe;
