// A run whose logs other programs read: `logs FOLDER` trains for two epochs on toy tensors, with every logger.
#include <cmath>
#include <cstdint>
#include <vector>

#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/mlflow_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>

#include "toy.hpp"

using namespace fulgurite;

namespace {

struct Settings {
  double lr = 1e-5;
  int layers = 4;
  bool bias = true;
  std::string optimizer = "adam: 'w'";
  void hyperparameters(auto& list) const { list("lr", lr)("layers", layers)("bias", bias)("optimizer", optimizer); }
};
struct Net {
  static constexpr Metric<"train/loss"> loss{};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  Settings hparams{};
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.log(loss, batch / 3);
    return -p;
  }
  void validation_step(double, auto& ctx) { ctx.log(val_loss, ctx.current_epoch() == 0 ? 0.25 : NAN); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
struct Summarizing : toy::Backend {
  template <class Model>
  static std::vector<report::ModelRow> summarize(Model const&, int) {
    return {{"", "Net", 1, 1, 8, true}, {"p", "Parameter", 1, 1, 8, true}};
  }
};
struct Device : toy::Device {
  using Backend = Summarizing;
};

}  // namespace

int main(int, char** arguments) {
  Net model;
  auto trainer = make_trainer<Net>(
      {.max_epochs = 2, .num_sanity_val_steps = 0, .log_every_n_steps = 1, .default_root_dir = arguments[1]}, Device{},
      Float32{}, Automatic{}, TensorBoardLogger{{}, {.log_graph = true}}, CSVLogger{}, JsonLinesLogger{},
      MLflowLogger{{}, {.experiment = "it's wide", .run = "first"}});
  trainer.fit(model, toy::batches(4), toy::batches(1));

  auto& board = trainer.callback<TensorBoardLogger>();
  std::vector<double> values;
  for (int i = 0; i <= 300; ++i) values.push_back(i / 10.0);
  board.log_histogram("weights", values, 3);
  values.push_back(NAN);
  board.log_histogram("gradients", values, 4);
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i != 2 * 3 * 3; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 13));
  board.log_image("picture", pixels, {.height = 2, .width = 3, .channels = 3}, 5);
  board.log_text("note", "# hello\nworld", 6);
  board.finalize(Status::success);
}
