// Trains on handwritten digits with several processes: each has a part of every batch, and all have the same weights.
//   distributed --devices 2                                         starts the second process itself
//   torchrun --no-python --nproc-per-node=2 build/.../distributed   processes of a launcher
// Prints, from rank 0, the validation accuracy over the images of all processes.

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/defaults.hpp>
#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Mlp : nn::Module {
  static constexpr Metric<"val/accuracy"> accuracy{.prog_bar = true};
  using Metrics = MetricList<accuracy>;

  long side;  // of the images, in pixels
  explicit Mlp(long pixels) : side(pixels) {}
  nn::Sequential body = register_module(
      "body", nn::Sequential(nn::Flatten(), nn::Linear(side* side, 128), nn::ReLU(), nn::Linear(128, 10)));

  torch::Tensor training_step(auto const& batch) { return F::cross_entropy(body->forward(batch.data), batch.target); }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(accuracy, (body->forward(batch.data).argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return optim::Adam(*this, 1e-3); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains on handwritten digits with several processes.");
  bool const fast = arguments.flag("--fast", "one epoch of ten batches, to see that everything works");
  int const devices = arguments.value("--devices", 0, "processes on this machine; 0: as many as the launcher says");
  int const epochs = arguments.value("--epochs", 5, "passes over the training images");
  long const batch_size = arguments.value("--batch-size", 64L, "images in a batch of one process");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the split and the order");
  example::DigitSource const source(arguments);
  arguments.done();

  torch::manual_seed(seed);
  auto digits = source.load({.batch_size = batch_size, .seed = seed});
  DistributedDataParallel const strategy{.devices = devices};
  Mlp model(digits.side);
  auto trainer = make_trainer<Mlp>(
      TrainerOptions{.max_epochs = fast ? 1 : epochs, .limit_train_batches = fast ? Limit{10} : Limit{}}, strategy,
      Signals{});  // after Ctrl-C, the next run can resume
  trainer.fit(model, digits.module);
  if (strategy.rank() == 0)
    std::printf("validation accuracy %.2f %% with %d processes\n", 100 * trainer.value(Mlp::accuracy).value(),
                strategy.world());
} catch (std::exception const& error) { return example::failed(error); }
