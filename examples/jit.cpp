// A TorchScript file as a part of a model: a backbone with a new head, which learns whether a digit is odd. At first
// the parameters of the file are frozen, then all are trained, saved in a checkpoint, and exported again.
//   jit                       makes backbone.pt, of a network that names digits
//   jit --file backbone.pt    takes a file of another program, in C++ or Python: images 1 x 28 x 28 to features
// Prints the accuracy of the model, of a second one that loads the checkpoint, and of the new file: they are the same.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <torch/script.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/export/torchscript.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

double accuracy_of(torch::Tensor const& scores, torch::Tensor const& labels) {
  return (scores.argmax(1) == labels).to(torch::kDouble).mean().item<double>();
}

/// Ten classes are the digits, two are even and odd.
template <class Backbone>
struct Net : nn::Module {
  static constexpr Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = MetricList<val_accuracy>;

  long classes;
  std::shared_ptr<Backbone> backbone;
  nn::Linear head{nullptr};
  Net(std::shared_ptr<Backbone> const& of, long count) : classes(count), backbone(register_module("backbone", of)) {
    torch::NoGradGuard const no_graph;
    long const features = backbone->forward(torch::zeros({1, 1, 28, 28})).size(1);
    head = register_module("head", nn::Linear(features, classes));
  }
  torch::Tensor forward(torch::Tensor const& images) { return head(backbone->forward(images)); }

  torch::Tensor training_step(auto const& batch) {
    return F::cross_entropy(forward(batch.data), batch.target % classes);
  }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, accuracy_of(forward(batch.data), batch.target % classes));
  }
  auto configure_optimizers() { return optim::Adam(filter_params(*this), {.lr = 2e-3}); }
};
using Odd = Net<Scripted>;

void write_backbone(std::filesystem::path const& file, data::TensorModule<>& digits, TrainerOptions const& options) {
  auto const body = std::make_shared<nn::SequentialImpl>(nn::Flatten(), nn::Linear(784, 64), nn::ReLU(),
                                                         nn::Linear(64, 32), nn::ReLU());
  Net<nn::SequentialImpl> net(body, 10);
  make_trainer<Net<nn::SequentialImpl>>(options, SingleDevice{cpu}, NoDefaults{}).fit(net, digits);
  export_torchscript(*body, torch::zeros({1, 1, 28, 28}), file);
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a model that has a TorchScript file in it.");
  bool const fast = arguments.flag("--fast", "20 batches of an epoch, to see that everything works");
  std::filesystem::path file = arguments.value<std::string>("--file", "", "TorchScript (default: one is made)");
  int const epochs = arguments.value("--epochs", 4, "passes over the digits; the file is frozen in the first half");
  std::filesystem::path const out = arguments.value<std::string>("--out", ".", "folder for the files");
  arguments.done();

  torch::set_num_threads(1);
  torch::manual_seed(1);
  auto digits = data::digits({.train = 4000, .validation = 1000});
  TrainerOptions const options{.max_epochs = epochs, .limit_train_batches = fast ? Limit{20} : Limit{}};
  if (file.empty()) write_backbone(file = out / "backbone.pt", digits, options);

  Odd model(std::make_shared<Scripted>(file), 2);
  auto trainer = make_trainer<Odd>(options, SingleDevice{cpu}, NoDefaults{}, ModelSummary{},
                                   BackboneFinetuning{{.unfreeze_backbone_at_epoch = (epochs + 1) / 2}});
  trainer.fit(model, digits);
  trainer.save_checkpoint(out / "odd.safetensors");
  trainer.validate(model, digits);
  double const trained = trainer.value(Odd::val_accuracy).value();

  Odd again(std::make_shared<Scripted>(file), 2);
  load_weights(again, out / "odd.safetensors");
  trainer.validate(again, digits);
  double const loaded = trainer.value(Odd::val_accuracy).value();

  export_torchscript(again, torch::zeros({1, 1, 28, 28}), out / "odd.pt");
  torch::jit::Module net = torch::jit::load((out / "odd.pt").string());  // what a program without this library does
  double right = 0, all = 0;
  for (auto const& batch : digits.val_dataloader()) {
    auto const rows = static_cast<double>(batch.target.size(0));
    right += rows * accuracy_of(net.forward({batch.data}).toTensor(), batch.target % 2);
    all += rows;
  }
  std::printf("odd or even: %.1f %%; from the checkpoint %.1f %%; from the new file %.1f %%\n", 100 * trained,
              100 * loaded, 100 * right / all);
  if (loaded != trained || std::abs(right / all - trained) > 1e-6) throw std::runtime_error("they are not the same");
} catch (std::exception const& error) { return example::failed(error); }
