// Forecasts a series: an LSTM reads 11 years of the sunspot numbers, about one cycle, and predicts the next one. The
// last 40 years are held out: nothing is trained or chosen by them. The naive forecast says that a year will be as the
// one before.
//   forecast
// Prints the root mean squared error of both in sunspots, then the next eleven years, each from the predictions before.

#include <cstdio>
#include <string>
#include <vector>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
using namespace fulgurite;

// Yearly sunspot numbers from 1861 to 2008, from the National Geophysical Data Center (NOAA); public domain.
std::vector<double> const sunspots{
    77.2,  59.1,  44,    47,    30.5, 16.3,  7.3,   37.6,  74,    139,   111.2, 101.6, 66.2,  44.7, 17,    11.3, 12.4,
    3.4,   6,     32.3,  54.3,  59.7, 63.7,  63.5,  52.2,  25.4,  13.1,  6.8,   6.3,   7.1,   35.6, 73,    85.1, 78,
    64,    41.8,  26.2,  26.7,  12.1, 9.5,   2.7,   5,     24.4,  42,    63.5,  53.8,  62,    48.5, 43.9,  18.6, 5.7,
    3.6,   1.4,   9.6,   47.4,  57.1, 103.9, 80.6,  63.6,  37.6,  26.1,  14.2,  5.8,   16.7,  44.3, 63.9,  69,   77.8,
    64.9,  35.7,  21.2,  11.1,  5.7,  8.7,   36.1,  79.7,  114.4, 109.6, 88.8,  67.8,  47.5,  30.6, 16.3,  9.6,  33.2,
    92.6,  151.6, 136.3, 134.7, 83.9, 69.4,  31.5,  13.9,  4.4,   38,    141.7, 190.2, 184.8, 159,  112.3, 53.9, 37.6,
    27.9,  10.2,  15.1,  47,    93.8, 105.9, 105.5, 104.5, 66.6,  68.9,  38,    34.5,  15.5,  12.6, 27.5,  92.5, 155.4,
    154.6, 140.4, 115.9, 66.6,  45.9, 17.9,  13.4,  29.4,  100.2, 157.6, 142.6, 145.7, 94.3,  54.6, 29.9,  17.5, 8.6,
    21.5,  64.3,  93.3,  119.6, 111,  104,   63.7,  40.4,  29.8,  15.2,  7.5,   2.9};

struct Forecast : nn::Module {
  using Rmse = metric::MeanSquaredError;
  static constexpr Metric<"val/rmse", Rmse> val_rmse{.how = {.root = true}, .prog_bar = true};
  static constexpr Metric<"val/naive", Rmse> val_naive{.how = {.root = true}};
  using Metrics = MetricList<val_rmse, val_naive>;

  data::SeriesInputs series;  // knows the units
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(1, 32).batch_first(true)));
  nn::Linear head = register_module("head", nn::Linear(32, 1));
  explicit Forecast(data::SeriesInputs const& of) : series(of) {}

  /// (batch, years, 1) -> (batch, 1, 1): the last year and what is added to it.
  torch::Tensor forward(torch::Tensor const& years) {
    auto const last = years.narrow(1, -1, 1);
    return last + head(std::get<0>(lstm->forward(years)).narrow(1, -1, 1));
  }

  torch::Tensor training_step(auto const& batch) { return torch::mse_loss(forward(batch.data), batch.target); }
  void validation_step(auto const& batch, auto& ctx) {
    auto const truth = series.in_units(batch.target);
    ctx.update(val_rmse, series.in_units(forward(batch.data)), truth);
    ctx.update(val_naive, series.in_units(batch.data.narrow(1, -1, 1)), truth);
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 5e-3}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Forecasts the sunspot number of the next year by an LSTM.");
  bool const fast = arguments.flag("--fast", "10 epochs, to see that everything works");
  int const epochs = arguments.value("--epochs", 30, "passes over the years");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights and the order");
  auto const out = arguments.value<std::string>("--out", ".", "folder for the log and the weights");
  arguments.done();

  torch::set_num_threads(1);
  torch::manual_seed(seed);
  auto const all = torch::tensor(sunspots).unsqueeze(1);  // years x 1
  auto years = data::windows(all, {.length = 11, .validation = 40, .batch_size = 16, .seed = seed});
  Forecast model(years);
  auto trainer = make_trainer<Forecast>(
      TrainerOptions{.max_epochs = fast ? 10 : epochs, .log_every_n_steps = 5, .default_root_dir = out},
      Automatic{.clip = ClipNorm{1.0}}, NoModelSummary{});
  trainer.fit(model, years);
  std::printf("RMSE over the years that were held out: %.1f sunspots, of the naive forecast: %.1f\n",
              trainer.value(Forecast::val_rmse).value(), trainer.value(Forecast::val_naive).value());

  torch::NoGradGuard const no_graph;
  model.eval();
  auto seen = years.inputs({.values = all, .columns = years.columns()}).unsqueeze(0);
  for (int year = 2009; year != 2020; ++year) {
    seen = torch::cat({seen, model.forward(seen.narrow(1, -11, 11))}, 1);
    std::printf("%s%d: %.0f", year == 2009 ? "" : ", ", year, years.in_units(seen).select(1, -1).item<double>());
  }
  std::printf("\n");
} catch (std::exception const& error) { return example::failed(error); }
