// Finds a batch size and a learning rate for handwritten digits by trial runs, which leave no trace in the model, then
// trains with both.
//   tune --out tuned
// Prints both searches as tables and plots in text, and leaves plots (SVG) and tables (CSV) of them, and the curves of
// the training.

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Mlp : nn::Module {
  static constexpr Metric<"train/loss"> train_loss{.prog_bar = true};
  static constexpr Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = MetricList<train_loss, val_accuracy>;

  double lr = 1e-3;  // where tune::lr_find puts what it finds
  long pixels;       // of an image
  explicit Mlp(long side) : pixels(side * side) {}

  nn::Sequential body =
      register_module("body", nn::Sequential(nn::Linear(pixels, 256), nn::ReLU(), nn::Linear(256, 10)));
  torch::Tensor forward(torch::Tensor const& images) { return body->forward(images.flatten(1)); }

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = F::cross_entropy(forward(batch.data), batch.target);
    ctx.log(train_loss, loss);
    return loss;
  }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, (forward(batch.data).argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return optim::Adam(parameters(), {.lr = lr}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Finds a batch size and a learning rate for handwritten digits.");
  bool const fast = arguments.flag("--fast", "shorter searches and one epoch of ten batches");
  int const epochs = fast ? 1 : arguments.value("--epochs", 5, "passes over the training images, after the searches");
  long const most = arguments.value("--most", 256L, "no batch is tried that is larger");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the split and the order");
  int const threads = arguments.value("--threads", 1, "of the CPU");
  std::filesystem::path const out = arguments.value<std::string>("--out", "tuned", "folder of the plots and tables");
  example::DigitSource const source(arguments);
  arguments.done();

  torch::set_num_threads(threads);
  torch::manual_seed(seed);
  auto digits = source.load({.batch_size = 64, .seed = seed});
  Mlp model(digits.side);
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = epochs,
                                                  .limit_train_batches = fast ? Limit{10} : Limit{},
                                                  .log_every_n_steps = 10,
                                                  .default_root_dir = out},
                                   SingleDevice{cpu}, LearningCurves{{.dirpath = out}},
                                   Signals{{.dirpath = out}});  // Ctrl-C ends searches, too

  auto const sizes =
      tune::scale_batch_size(trainer, model, digits.module,
                             {.mode = tune::binsearch, .steps_per_trial = fast ? 3 : 20, .max_val = fast ? 128 : most});
  std::cout << sizes.table() << sizes.plot().text();
  // The largest batch that fits makes the fewest steps of an epoch. The fastest one may be smaller.
  long const size = sizes.fastest().value_or(64);
  digits.module.set_batch_size(size);

  auto const rates =
      tune::lr_find(trainer, model, digits.module, {.min_lr = 1e-6, .max_lr = 1, .num_training = fast ? 20 : 100});
  std::cout << rates.text();

  for (char const* kind : {"svg", "csv"}) sizes.save(out / (std::string("batch_size.") + kind));
  rates.plot(out / "learning_rate.svg");
  rates.save(out / "learning_rate.csv");

  trainer.fit(model, digits.module);
  std::printf("batch size %ld, learning rate %.2g: validation accuracy %.2f %% after %d epochs\n", size, model.lr,
              100 * trainer.value(Mlp::val_accuracy).value(), epochs);
  std::printf("plots: %s, %s, %s\n", (out / "batch_size.svg").c_str(), (out / "learning_rate.svg").c_str(),
              (out / "curves.svg").c_str());
} catch (std::exception const& error) { return example::failed(error); }
