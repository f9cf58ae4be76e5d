#pragma once
// Runs of the trainee in which callbacks change what happens: averages of weights, signals, what is found by trying
// out.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "words.hpp"

namespace fulgurite::test {

/// With a batch norm of LibTorch's. `still`: its weights stay as they are, so that what the norm sees depends on the
/// data alone.
template <class Net>
struct Averaged : Net {
  using Net::Net;
  auto training_step(auto const& batch) {
    auto const loss = Net::training_step(batch);
    return this->scene.words.number("--still", 0) ? loss * 0 : loss;
  }
  auto configure_optimizers() { return optim::SGD(this->parameters(), 0.125); }
};

/// The last line that a rank writes is the model after the pass for statistics.
template <class Net, class Strategy, class Batches>
void train_averaged(auto& scene, Strategy const& strategy, Batches batches) {
  torch::manual_seed(3);
  Averaged<Net> model(scene);
  auto train_on = data::of_this_rank(std::move(batches));
  auto trainer = make_trainer<Averaged<Net>>(
      TrainerOptions{.max_epochs = 2, .num_sanity_val_steps = 0, .default_root_dir = scene.words.text("--out")},
      strategy, Float32{}, Automatic{}, StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}},
      NoDefaults{});
  trainer.fit(model, train_on, NoValidation{});
  scene.write(model);
}

/// Logs a validation loss, by which early stopping decides.
template <class Net>
struct Watched : Net {
  static constexpr Metric<"val_loss"> val_loss{};
  using Metrics = MetricList<val_loss>;
  using Net::Net;
  double lr = 0.125;
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_loss, this->loss(typename Net::Batch{batch.data, batch.target}));
  }
  auto configure_optimizers() { return optim::SGD(this->parameters(), lr); }
};

/// Signals, and where `finds`: a rate that is found first, averages of weights, and a stop by the validation loss.
template <class Net, bool finds, class Strategy>
int train_watched(auto& scene, Strategy const& strategy) {
  auto const& words = scene.words;
  torch::manual_seed(7);
  auto const x = torch::randn({64, 4}), y = x.sum(1, true).sin();
  data::TensorLoader loader{x, y, {.batch_size = 4, .shuffle = true, .seed = 5}};
  data::TensorLoader held_out{x.narrow(0, 0, 24), y.narrow(0, 0, 24), {.batch_size = 4}};
  torch::manual_seed(3);
  using Model = Watched<Net>;
  Model model(scene);
  TrainerOptions const options{
      .max_epochs = finds ? 12 : 2, .num_sanity_val_steps = 0, .default_root_dir = words.text("--out")};
  auto const make = [&] {
    if constexpr (finds)
      return make_trainer<Model>(options, strategy, Float32{}, Automatic{},
                                 LearningRateFinder<Model>{{.search = {.num_training = 20}}},
                                 EMAWeightAveraging{{.decay = 0.5}},
                                 EarlyStopping{Model::val_loss, {.min_delta = 0.01, .patience = 1}}, NoDefaults{});
    else
      return make_trainer<Model>(options, strategy, Float32{}, Automatic{}, Signals{{.dirpath = words.text("--keeps")}},
                                 NoDefaults{});
  };
  auto trainer = make();
  try {
    trainer.fit(model, loader, held_out);
  } catch (Interrupted const& why) {
    std::fprintf(stderr, "%s\n", why.what());
    return why.exit_code();
  }
  std::printf("ended after %ld steps with lr %.17g\n", trainer.progress().global_step, model.lr);
  scene.write(model);
  return 0;
}

}  // namespace fulgurite::test
