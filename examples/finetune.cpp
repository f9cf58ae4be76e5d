// Finetuning: a network learns the digits 0 to 4 from many images; then its backbone is taken for the digits 5 to 9, of
// which there are 100 images alone. The backbone is frozen while a new head is trained, and thaws at a later epoch with
// a smaller learning rate.
//   finetune
// Prints the accuracy on the digits 5 to 9: finetuned, and of the same network trained on the 100 images alone.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Net : nn::Module {
  static constexpr Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = MetricList<val_accuracy>;

  nn::Sequential backbone = register_module(
      "backbone", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).stride(2).padding(1)), nn::ReLU(),
                                 nn::Conv2d(nn::Conv2dOptions(16, 32, 3).stride(2).padding(1)), nn::ReLU(),
                                 nn::Flatten(), nn::Linear(32 * 7 * 7, 64), nn::ReLU()));
  nn::Linear head = register_module("head", nn::Linear(64, 5));
  torch::Tensor forward(torch::Tensor const& images) { return head(backbone->forward(images)); }

  torch::Tensor training_step(auto const& batch) { return F::cross_entropy(forward(batch.data), batch.target % 5); }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, (forward(batch.data).argmax(1) == batch.target % 5).to(torch::kFloat).mean());
  }
  // What is frozen now is added by BackboneFinetuning, as a group of its own, when it thaws.
  auto configure_optimizers() { return optim::Adam(filter_params(*this), {.lr = 2e-3}); }
};

/// Digits of five classes from `first` on, at most `count` of them to train on.
data::TensorModule<> digits_from(int first, std::size_t count) {
  auto sets = data::digit_sets({.train = 4000, .validation = 1000});
  auto const labels = sets.set.target;
  for (auto* part : {&sets.parts.train, &sets.parts.validation})
    std::erase_if(*part, [&](std::size_t i) {
      auto const label = labels[static_cast<long>(i)].item<long>();
      return label < first || label >= first + 5;
    });
  sets.parts.train.resize(std::min(count, sets.parts.train.size()));
  return {std::move(sets), {.batch_size = 20, .shuffle = true}};
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains on five digits, and finetunes on few images of the five others.");
  bool const fast = arguments.flag("--fast", "one epoch of 30 batches on the first digits");
  int const epochs = arguments.value("--epochs", 12, "passes over the 100 images");
  int const thaw = arguments.value("--thaw", 6, "the epoch at which the backbone begins to train");
  std::filesystem::path const out = arguments.value<std::string>("--out", ".", "folder for backbone.safetensors");
  arguments.done();

  torch::set_num_threads(1);
  torch::manual_seed(1);
  auto many = digits_from(0, 2000), few = digits_from(5, 100);
  Net first;
  auto pretraining =
      make_trainer<Net>(TrainerOptions{.max_epochs = fast ? 1 : 5, .limit_train_batches = fast ? Limit{30} : Limit{}},
                        NoDefaults{}, SingleDevice{automatic});
  pretraining.fit(first, many);
  pretraining.save_checkpoint(out / "backbone.safetensors");

  TrainerOptions const options{.max_epochs = epochs, .num_sanity_val_steps = 0};
  Net tuned;
  auto const report = load_weights(*tuned.backbone, out / "backbone.safetensors", {.from = "backbone."});
  std::printf("digits 0 to 4, 2000 images: %.1f %%; %zu tensors of its backbone are taken\n",
              100 * pretraining.value(Net::val_accuracy).value(), report.loaded.size());
  auto finetuning =
      make_trainer<Net>(options, BackboneFinetuning{{.unfreeze_backbone_at_epoch = thaw, .verbose = true}},
                        NoDefaults{}, SingleDevice{automatic});
  finetuning.fit(tuned, few);

  Net fresh;
  auto training = make_trainer<Net>(options, NoDefaults{}, SingleDevice{automatic});
  training.fit(fresh, few);
  std::printf("digits 5 to 9, 100 images: finetuned %.1f %%, trained on these alone %.1f %%\n",
              100 * finetuning.value(Net::val_accuracy).value(), 100 * training.value(Net::val_accuracy).value());
} catch (std::exception const& error) { return example::failed(error); }
