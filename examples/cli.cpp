// A network on handwritten digits with a command line, which the library makes of the settings of trainer, model and
// data; files in TOML hold settings, too.
//   cli --help
//   cli fit --trainer.max_epochs 3 --model.lr 2e-3        on digits that the program draws
//   cli fit --trainer.max_epochs 3 --data.folder FOLDER   on MNIST's files in that folder
//   cli tune --tune.batch_size true > tuned.toml          searches a batch size and a learning rate

#include <cstdint>
#include <string>
#include <tuple>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/cli.hpp>
#include <fulgurite/defaults.hpp>
#include <fulgurite/report/reflected.hpp>
#include <fulgurite/torch/data/mnist.hpp>

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct NetSettings {
  double lr = 1e-3;
  long hidden = 128;
  double dropout = 0.2;
  static constexpr auto ranges =
      std::tuple(reflect::within(&NetSettings::lr, 0.0, 1.0), reflect::at_least(&NetSettings::hidden, 1),
                 reflect::within(&NetSettings::dropout, 0.0, 0.9));
  static constexpr auto about = std::tuple(cli::about(&NetSettings::lr, "learning rate of Adam"),
                                           cli::about(&NetSettings::hidden, "units of the hidden layer"),
                                           cli::about(&NetSettings::dropout, "part of them that is left out"));
  void hyperparameters(auto& list) const { reflect::list(*this, list); }
};
BOOST_HANA_ADAPT_STRUCT(NetSettings, lr, hidden, dropout);

struct Net : nn::Module {
  static constexpr Metric<"train/loss"> train_loss{.prog_bar = true};
  static constexpr Metric<"accuracy"> accuracy{.prog_bar = true};
  using Metrics = MetricList<train_loss, accuracy>;

  NetSettings hparams;
  nn::Sequential body;
  explicit Net(NetSettings settings)
      : hparams(settings),
        body(nn::Linear(784, settings.hidden), nn::ReLU(), nn::Dropout(settings.dropout),
             nn::Linear(settings.hidden, 10)) {
    register_module("body", body);
  }

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = F::cross_entropy(body->forward(batch.data.flatten(1)), batch.target);
    ctx.log(train_loss, loss);
    return loss;
  }
  void validation_step(auto const& batch, auto& ctx) {
    auto const right = body->forward(batch.data.flatten(1)).argmax(1) == batch.target;
    ctx.log(accuracy, right.to(torch::kFloat).mean());
  }
  void test_step(auto const& batch, auto& ctx) { validation_step(batch, ctx); }
  auto configure_optimizers() { return torch::optim::Adam(parameters(), hparams.lr); }
};

struct DigitSettings {
  std::string folder;
  long batch_size = 64;
  std::uint64_t seed = 0;
  static constexpr auto ranges = std::tuple(reflect::at_least(&DigitSettings::batch_size, 1));
  static constexpr auto about = std::tuple(cli::about(&DigitSettings::folder, "of MNIST's files; empty: drawn digits"),
                                           cli::about(&DigitSettings::batch_size, "images in a batch"),
                                           cli::about(&DigitSettings::seed, "of the split and of the order"));
  void hyperparameters(auto& list) const { reflect::list(*this, list); }
};
BOOST_HANA_ADAPT_STRUCT(DigitSettings, folder, batch_size, seed);

struct Digits : data::TensorModule<> {
  DigitSettings hparams;
  explicit Digits(DigitSettings const& settings)
      : TensorModule(settings.folder.empty()
                         ? data::digits({.test = 2000, .batch_size = settings.batch_size, .seed = settings.seed})
                         : data::mnist(settings.folder, {.batch_size = settings.batch_size, .seed = settings.seed})),
        hparams(settings) {}
};

int main(int argc, char** argv) {
  return cli::run<Net, Digits>(
      argc, argv,
      [](auto... parts) {
        return make_trainer<Net>(parts..., ModelCheckpoint{Net::accuracy, {.mode = Mode::max}}, Signals{});
      },
      cli::precisions<Float32, Bf16Mixed>(),
      cli::from_text<"device">(
          "auto", [](std::string const& name) { return SingleDevice{NamedDevice{name}}; },
          "cpu, cuda, cuda:1 or auto"));
}
