// Predicts the prices of houses. One run trains on a table and leaves a checkpoint; another one, which has no table to
// train on, predicts from that file alone: it holds the weights, and the means, deviations and categories of training.
//   predict --train houses.csv          a table with a column 'price'
//   predict --rows new_houses.csv       prints a price for each row

#include <cstdio>
#include <string>

#include <torch/nn.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/data/table.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Prices : nn::Module {
  static constexpr Metric<"val/loss"> val_loss{.prog_bar = true};
  using Metrics = MetricList<val_loss>;

  nn::Linear price;
  explicit Prices(std::int64_t features) : price(register_module("price", nn::Linear(features, 1))) {}
  torch::Tensor forward(torch::Tensor const& rows) { return price(rows); }

  torch::Tensor training_step(auto const& batch) { return F::mse_loss(forward(batch.data), batch.target); }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(val_loss, training_step(batch)); }
  torch::Tensor predict_step(torch::Tensor const& rows) { return forward(rows); }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 0.1}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv,
                               "Learns prices from a table, or predicts them from the file that this left.");
  auto const table = arguments.value<std::string>("--train", "", "table with a column 'price' to train on");
  auto const rows = arguments.value<std::string>("--rows", "", "table of other rows, whose prices are predicted");
  auto const file = arguments.value<std::string>("--file", "prices.safetensors", "the checkpoint");
  bool const fast = arguments.flag("--fast", "two epochs, to see that everything works");
  int const epochs = fast ? 2 : arguments.value("--epochs", 20, "passes over the table");
  arguments.done();

  torch::manual_seed(1);
  if (!table.empty()) {
    auto houses = data::table(table, {.target = "price"});
    Prices model(std::ssize(houses.features()));
    auto trainer = make_trainer<Prices>(TrainerOptions{.max_epochs = epochs}, NoDefaults{});
    trainer.fit(model, houses);
    trainer.save_checkpoint(file);
  }
  if (!rows.empty()) {
    auto houses = data_state<data::TableInputs>(file);
    Prices model(std::ssize(houses.features()));
    load_weights(model, houses, file);
    auto trainer = make_trainer<Prices>(TrainerOptions{}, NoDefaults{});
    auto batches = houses.inputs(rows).split(256);
    auto const predicted = trainer.predict(model, batches);
    for (auto const& prices : predicted[0])
      for (std::int64_t i = 0; i != prices.size(0); ++i) std::printf("%.9g\n", prices[i].item<double>());
  }
} catch (std::exception const& error) { return example::failed(error); }
