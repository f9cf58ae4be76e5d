// Trains on digits that the program draws, or on MNIST: its argument is a folder with MNIST's files.
#include <cstdio>
#include <string_view>

#include <torch/nn.h>
#include <torch/optim/adam.h>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/defaults.hpp>
#include <fulgurite/torch/data/mnist.hpp>

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct Mlp : nn::Module {
  static constexpr fulgurite::Metric<"train/loss"> train_loss{.prog_bar = true};
  static constexpr fulgurite::Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = fulgurite::MetricList<train_loss, val_accuracy>;

  nn::Sequential body = register_module("body", nn::Sequential(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 10)));
  torch::Tensor forward(torch::Tensor x) { return body->forward(x.flatten(1)); }

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = F::cross_entropy(forward(batch.data), batch.target);
    ctx.log(train_loss, loss);
    return loss;
  }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, (forward(batch.data).argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return torch::optim::Adam(parameters(), 1e-3); }
};

int main(int argc, char** argv) try {
  using namespace fulgurite;
  std::string_view const word = argc > 1 ? argv[1] : "";
  bool const fast = word == "--fast", drawn = word.empty() || fast;
  if (!drawn && word.starts_with('-')) {  // --help
    std::puts("mlp [FOLDER]: trains on digits that it draws, or on the files of MNIST in a folder\n"
              "mlp --fast: one epoch, to see that everything works");
    return 0;
  }
  torch::manual_seed(1);
  Mlp model;
  auto digits = drawn ? data::digits() : data::mnist(argv[1], {.normalise = true, .batch_size = 64});
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = fast ? 1 : 10}, SingleDevice{cpu}, Float32{},
                                   Automatic{.clip = ClipNorm{1.0}},
                                   EarlyStopping{Mlp::val_accuracy, {.mode = Mode::max}}, Signals{});
  trainer.fit(model, digits);
} catch (fulgurite::Interrupted const& end) {  // Ctrl-C; the next run can resume
  return end.exit_code();
} catch (fulgurite::Error const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
