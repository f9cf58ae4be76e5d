// Regression on a table. It reads a CSV file, standardises its columns of numbers, makes features of its categories,
// trains a small network, and keeps the epoch with the smallest error on the validation rows.
//   regression                               writes flats.csv, 600 flats with rents that it draws, and reads it
//   regression --csv my.csv --target price   reads a table of yours
// Prints the root mean squared error (RMSE) in units of the target, beside that of always predicting the mean.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
using namespace fulgurite;

struct Regression : nn::Module {
  static constexpr Metric<"val/rmse", metric::MeanSquaredError> val_rmse{.how = {.root = true}, .prog_bar = true};
  using Metrics = MetricList<val_rmse>;

  nn::Sequential body;
  torch::Tensor mean, deviation;  // of the target: the network itself computes with numbers near 0
  Regression(std::int64_t features, torch::Tensor const& targets)
      : body(register_module("body", nn::Sequential(nn::Linear(features, 32), nn::ReLU(), nn::Linear(32, 32),
                                                    nn::ReLU(), nn::Linear(32, 1)))),
        mean(register_buffer("mean", targets.mean())),
        deviation(register_buffer("deviation", targets.std())) {}
  torch::Tensor forward(torch::Tensor const& rows) { return body->forward(rows) * deviation + mean; }

  torch::Tensor training_step(auto const& batch) {
    return torch::mse_loss(forward(batch.data) / deviation, batch.target / deviation);
  }
  void validation_step(auto const& batch, auto& ctx) { ctx.update(val_rmse, forward(batch.data), batch.target); }
  torch::Tensor predict_step(auto const& batch) { return forward(batch.data); }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 5e-3}); }
};

/// The rent depends on the area by district, and on the age by a curve; 40 EUR of it are noise.
void write_flats(std::filesystem::path const& file) {
  struct District {
    char const* name;
    double rent;  // of a square metre
  } const districts[] = {{"centre", 16}, {"harbour", 13}, {"north", 10}, {"south", 8}};
  std::mt19937 random(1);
  auto const uniform = [&](double from, double to) { return from + (to - from) * double(random() % 10000) / 10000; };
  std::normal_distribution<double> noise(0, 40);
  std::ofstream out(file);
  out << "area,district,built,balcony,rent\n";
  for (int i = 0; i != 600; ++i) {
    auto const& district = districts[random() % 4];
    double const area = std::round(uniform(20, 120)), built = std::round(uniform(1900, 2020));
    bool const balcony = random() % 2 == 0;
    double const age = 60 * std::cos((built - 1900) / 120 * 6.28);  // old and new flats are dear
    out << area << ',' << district.name << ',' << built << ',' << (balcony ? "yes" : "no") << ','
        << std::round(100 + district.rent * area + age + (balcony ? 50 : 0) + noise(random)) << '\n';
  }
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a network to predict a column of a table.");
  bool const fast = arguments.flag("--fast", "30 epochs, to see that everything works");
  int const epochs = arguments.value("--epochs", 200, "passes over the table, at most");
  auto csv = arguments.value<std::string>("--csv", "", "the table (default: flats.csv, which is written)");
  auto const target = arguments.value<std::string>("--target", "rent", "the column to predict, of numbers");
  std::filesystem::path const out = arguments.value<std::string>("--out", ".", "folder for flats.csv and the log");
  arguments.done();

  torch::manual_seed(1);
  if (csv.empty()) write_flats(csv = out / "flats.csv");
  auto table = data::table(csv, {.target = target, .validation = 0.2});
  std::vector<torch::Tensor> targets;
  for (auto const& batch : table.train_dataloader()) targets.push_back(batch.target.clone());

  Regression model(std::ssize(table.features()), torch::cat(targets));
  auto trainer = make_trainer<Regression>(
      TrainerOptions{.max_epochs = fast ? 30 : epochs, .log_every_n_steps = 15, .default_root_dir = out},
      ModelCheckpoint{Regression::val_rmse, {}}, EarlyStopping{Regression::val_rmse, {.patience = 30}},
      NoModelSummary{});
  trainer.fit(model, table);
  trainer.validate(model, table, CkptPath{"best"});
  double const rmse = trainer.value(Regression::val_rmse).value();

  auto& validation = table.val_dataloader();
  auto const predicted = trainer.predict(model, validation)[0];
  std::size_t k = 0;
  metric::Meter<metric::MeanSquaredError> of_mean{metric::MeanSquaredError{.root = true}};
  for (auto const& batch : validation) {
    of_mean.update(model.mean.expand_as(batch.target), batch.target);
    if (k == 0)
      for (int i = 0; i != 5 && i != batch.target.size(0); ++i)
        std::printf("predicted %6.0f, in the table %6.0f\n", predicted[k][i].template item<double>(),
                    batch.target[i].template item<double>());
    ++k;
  }
  std::printf("RMSE of %s on %ld validation rows: %.1f; of always predicting the mean: %.1f\n", target.c_str(),
              validation.layout().samples, rmse, of_mean.compute());
} catch (std::exception const& error) { return example::failed(error); }
