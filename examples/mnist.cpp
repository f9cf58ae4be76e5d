// Trains a small convolutional network on handwritten digits, keeps the best weights in a file,
// and proves that the file has them.

#include <fulgurite/fulgurite.hpp>

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

  nn::Sequential body = register_module(
      "body", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::BatchNorm2d(16), nn::MaxPool2d(2),
                             nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)), nn::BatchNorm2d(32),
                             nn::MaxPool2d(2), nn::ReLU(), nn::Flatten(), nn::Dropout(0.25),
                             nn::Linear(32 * 7 * 7, 128), nn::ReLU(), nn::Dropout(0.5), nn::Linear(128, 10)));
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
  auto configure_optimizers() { return scheduled(torch::optim::Adam(parameters(), 2e-3), schedule::Exponential{0.7}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a small convolutional network on handwritten digits.");
  bool const fast = arguments.flag("--fast", "ten batches, to see that everything works");
  int const epochs = arguments.value("--epochs", 8, "passes over the training images");
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
  Cnn model;
  auto trainer = make_trainer<Cnn>(TrainerOptions{.max_epochs = fast ? 1 : epochs,
                                                  .limit_train_batches = fast ? Limit{10} : Limit{},
                                                  .default_root_dir = out},
                                   strategy, Float32{}, Automatic{}, ModelSummary{}, ProgressBar{}, CSVLogger{},
                                   LearningRateMonitor{}, EarlyStopping{Cnn::val_loss, {.patience = 3}},
                                   ModelCheckpoint{Cnn::val_accuracy, {.mode = Mode::max}});
  trainer.fit(model, digits);

  auto const best = trainer.outcome();
  Cnn reloaded;
  load_weights(reloaded, best.best_file);
  trainer.validate(reloaded, digits);
  double const again = trainer.value(Cnn::val_accuracy).value();
  std::printf("validation accuracy %.2f %%; a new model with the weights of %s: %.2f %%, %s\n",
              100 * *best.best_value, best.best_file.c_str(), 100 * again,
              again == *best.best_value ? "exactly the same" : "NOT THE SAME");
  if (again != *best.best_value) throw std::runtime_error("the best file does not hold the best weights");
} catch (std::exception const& error) { return example::failed(error); }
