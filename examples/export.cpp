// Trains a small network on handwritten digits, keeps the best epoch's checkpoint, exports it as TorchScript, and
// predicts with LibTorch alone from what was exported, as a program would that does not have this library.
//   export --out FOLDER
// Prints the accuracy of the exported file, which is that of the best epoch in training.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <torch/script.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/export/torchscript.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Net : nn::Module {
  static constexpr Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = MetricList<val_accuracy>;

  nn::Sequential body;
  explicit Net(long pixels)
      : body(register_module(
            "body", nn::Sequential(nn::Linear(pixels, 64), nn::ReLU(), nn::Dropout(0.1), nn::Linear(64, 10)))) {}
  torch::Tensor forward(torch::Tensor const& x) { return body->forward(x.view({x.size(0), -1})); }

  torch::Tensor training_step(auto const& batch) { return F::cross_entropy(forward(batch.data), batch.target); }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, (forward(batch.data).argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 2e-3}); }
};

// What a program without this library does: load, forward.
double accuracy_of(std::filesystem::path const& file, auto& batches) {
  torch::NoGradGuard const no_graph;
  torch::jit::Module net = torch::jit::load(file.string());
  double correct = 0, all = 0;
  for (auto const& batch : batches) {
    auto const answer = net.forward({batch.data}).toTensor().argmax(1);
    correct += (answer == batch.target).sum().template item<double>();
    all += static_cast<double>(batch.target.size(0));
  }
  return correct / all;
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv,
                               "Trains on handwritten digits, exports the best epoch, and predicts from it.");
  bool const fast = arguments.flag("--fast", "one epoch of ten batches, to see that everything works");
  int const epochs = arguments.value("--epochs", 5, "passes over the training images");
  auto const out = arguments.value<std::string>("--out", ".", "folder for the checkpoint and digits.pt");
  example::DigitSource const source(arguments);
  arguments.done();

  torch::manual_seed(1);
  auto digits = source.load({.batch_size = 64});
  Net net(digits.side * digits.side);
  ModelCheckpoint const keep{Net::val_accuracy, {.dirpath = out, .filename = "best", .mode = Mode::max}};
  auto trainer = make_trainer<Net>(
      TrainerOptions{.max_epochs = fast ? 1 : epochs, .limit_train_batches = fast ? Limit{10} : Limit{}},
      SingleDevice{cpu}, Float32{}, Automatic{}, keep, NoDefaults{});
  trainer.fit(net, digits.module);

  auto const& best = trainer.callback<std::remove_const_t<decltype(keep)>>();
  auto const file = std::filesystem::path(out) / "digits.pt";
  export_torchscript_from(best.best_model_path(), net, torch::zeros({1, 1, digits.side, digits.side}), file);

  auto& images = digits.module.val_dataloader();
  double const accuracy = accuracy_of(file, images);
  std::printf("%s: validation accuracy %.2f %%, as it was in training\n", file.c_str(), 100 * accuracy);
  if (std::abs(accuracy - *best.best_model_score()) > 1e-6) throw std::runtime_error("the file predicts otherwise");
} catch (std::exception const& error) { return example::failed(error); }
