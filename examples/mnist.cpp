// Trains a small convolutional network on handwritten digits: with a schedule, early stopping, a command line and a
// checkpoint of the best epoch.
//   mnist --data FOLDER     MNIST's files; without it, as `tools/dev run` calls it, what lies in data/
// Prints the best validation accuracy, and that of a new model that loads the checkpoint: they are the same.

#include <cmath>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/adam.h>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/defaults.hpp>
#include <fulgurite/schedule/schedule.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Cnn : nn::Module {
  static constexpr Metric<"train/loss"> train_loss{.prog_bar = true};
  static constexpr Metric<"val/loss"> val_loss{};
  static constexpr Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = MetricList<train_loss, val_loss, val_accuracy>;

  long side;  // of the images, in pixels: 28, or 8 for the small ones
  explicit Cnn(long pixels) : side(pixels) {}

  nn::Sequential body = register_module(
      "body",
      nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::BatchNorm2d(16), nn::MaxPool2d(2),
                     nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)), nn::BatchNorm2d(32),
                     nn::MaxPool2d(2), nn::ReLU(), nn::Flatten(), nn::Dropout(0.25),
                     nn::Linear(32 * (side / 4) * (side / 4), 128), nn::ReLU(), nn::Dropout(0.5), nn::Linear(128, 10)));
  torch::Tensor forward(torch::Tensor const& pixels) { return body->forward(pixels); }

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = F::cross_entropy(forward(batch.data), batch.target);
    ctx.log(train_loss, loss);
    return loss;
  }
  void validation_step(auto const& batch, auto& ctx) {
    auto logits = forward(batch.data);
    ctx.log(val_loss, F::cross_entropy(logits, batch.target));
    ctx.log(val_accuracy, (logits.argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers(auto& ctx) {  // the rate falls to 6 % of itself
    double const factor = std::pow(0.06, 1.0 / *ctx.options().max_epochs);
    return scheduled(torch::optim::Adam(parameters(), 2e-3), schedule::Exponential{factor});
  }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a small convolutional network on handwritten digits.");
  bool const fast = arguments.flag("--fast", "ten batches, to see that everything works");
  int const asked = arguments.value("--epochs", 0, "passes over the training images; 0: 8, and 30 over the small ones");
  long const batch_size = arguments.value("--batch-size", 64L, "images in a batch");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the split, the order and the dropout");
  int const threads = arguments.value("--threads", 1, "of the CPU");
  auto const device = arguments.value<std::string>("--device", "auto", "cpu, cuda, cuda:1 or auto");
  auto const out =
      arguments.value<std::string>("--out", ".", "folder under which lightning_logs gets metrics and weights");
  example::DigitSource const source(arguments);
  arguments.done();
  SingleDevice const strategy{NamedDevice{device}};

  torch::set_num_threads(threads);
  torch::manual_seed(seed);
  auto digits = source.load({.batch_size = batch_size, .seed = seed});
  int const usual = digits.side == 28 ? 8 : 30, epochs = fast ? 1 : asked > 0 ? asked : usual;
  bool const measured = !fast && epochs == usual && batch_size == 64;  // what to expect of others is not known
  if (measured)
    std::fprintf(stderr, "expect a validation accuracy of %s after %d epochs\n", digits.expected.c_str(), epochs);
  Cnn model(digits.side);
  auto trainer = make_trainer<Cnn>(
      TrainerOptions{.max_epochs = epochs, .limit_train_batches = fast ? Limit{10} : Limit{}, .default_root_dir = out},
      strategy, LearningRateMonitor{}, EarlyStopping{Cnn::val_loss, {.patience = 3}},
      ModelCheckpoint{Cnn::val_accuracy, {.mode = Mode::max}}, Signals{});  // after Ctrl-C, the next run can resume
  trainer.fit(model, digits.module);

  auto const best = trainer.outcome();
  Cnn reloaded(digits.side);
  load_weights(reloaded, best.best_file);
  trainer.validate(reloaded, digits.module);
  double const again = trainer.value(Cnn::val_accuracy).value();
  std::string const expected = measured ? ", expected " + digits.expected : "";
  std::printf("validation accuracy %.2f %%%s; a new model with the weights of %s: %.2f %%, %s\n",
              100 * *best.best_value, expected.c_str(), best.best_file.c_str(), 100 * again,
              again == *best.best_value ? "exactly the same" : "NOT THE SAME");
  if (again != *best.best_value) throw std::runtime_error("the best file does not hold the best weights");
} catch (std::exception const& error) { return example::failed(error); }
