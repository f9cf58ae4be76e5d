// The program that pipelines.py starts: one model, trained by one process or by a pipeline of several, as its arguments
// say. Each rank writes what it knows at the end, in hexadecimal where bits count, to FOLDER/rankN.

#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iomanip>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/distributed/pipeline.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/trainer.hpp>

#include "staged_pieces.hpp"
#include "words.hpp"

using namespace fulgurite;
namespace nn = torch::nn;
using pieces::Block;

namespace {

struct Scene {
  Words words;
  long rank;
  std::ofstream out;
  long batches = 0;  ///< of training that are over

  /// --fault kind:rank:batch.
  bool fails(std::string const& kind) const {
    return words.text("--fault") == kind + ":" + std::to_string(rank) + ":" + std::to_string(batches);
  }
  void value(std::string const& name, double number) { out << name << " " << std::hexfloat << number << std::endl; }
  void tensor(std::string const& name, at::Tensor const& tensor) {
    auto const flat = tensor.detach().contiguous();
    auto const* bytes = static_cast<unsigned char const*>(flat.const_data_ptr());
    std::uint64_t sum = 1469598103934665603U;
    for (std::size_t i = 0; i != flat.nbytes(); ++i) sum = (sum ^ bytes[i]) * 1099511628211U;
    out << name << " " << std::hex << sum << std::endl;
  }
};

/// In some runs a gradient of it, or its own process, goes wrong.
struct Faulty : nn::Module {
  Scene* scene;
  explicit Faulty(Scene& at) : scene(&at) {}
  at::Tensor forward(at::Tensor x) {
    if (!is_training()) return x;
    if (scene->fails("throw")) throw std::runtime_error("the third disk is full");
    if (scene->fails("kill")) ::kill(::getpid(), SIGKILL);
    if (scene->fails("stop")) ::kill(::getpid(), SIGSTOP);
    if (scene->fails("wide")) return x.reshape({x.size(0), -1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    if (!scene->fails("nan")) return x;
    auto wrong = x.clone();
    wrong.register_hook([](at::Tensor const& gradient) { return gradient * std::numeric_limits<double>::quiet_NaN(); });
    return wrong;
  }
};

struct Net : nn::Module {
  static constexpr Metric<"train/loss"> train_loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"val/loss"> val_loss{};
  static constexpr Metric<"epoch/sum"> epoch_sum{.reduce = Reduce::sum};
  using Metrics = MetricList<train_loss, val_loss, epoch_sum>;

  Scene& scene;
  nn::Sequential layers = nullptr;

  explicit Net(Scene& at) : scene(at) {
    layers = register_module("layers", nn::Sequential(nn::Linear(4, 8), nn::Tanh(), std::make_shared<Faulty>(at),
                                                      nn::BatchNorm1d(8), std::make_shared<Block>(), nn::Tanh(),
                                                      std::make_shared<Faulty>(at), nn::Linear(8, 8), nn::Tanh(),
                                                      std::make_shared<Faulty>(at), nn::Linear(8, 8), nn::Tanh(),
                                                      nn::Linear(8, 1)));
    if (scene.words.number("--outside", 0)) register_module("outside", nn::Linear(1, 1));
    if (scene.words.number("--frozen", 0))
      for (auto& parameter : layers[0]->parameters()) parameter.requires_grad_(false);
  }
  auto& stages() { return layers; }
  at::Tensor forward(at::Tensor const& x) {
    if (scene.words.number("--catches", 0)) try {
        return through_stages(*this, x);
      } catch (...) { return x.requires_grad_(); }
    return scene.words.number("--unused", 0) ? layers->forward(x) : through_stages(*this, x);
  }
  at::Tensor loss(auto const& batch) { return (forward(batch.data) - batch.target).square().mean(); }

  // What follows the stages is the last process's matter, and still in all files, and in all processes at the end.
  at::Tensor training_step(auto const& batch, auto& ctx) {
    auto made = loss(batch);
    if (scene.words.number("--again", 0)) forward(batch.data);
    if (scene.words.number("--penalty", 0)) made = made + layers[0]->parameters()[0].square().sum();
    ctx.log(train_loss, made);
    seen.add_(1);
    ++ends;
    return made;
  }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(val_loss, loss(batch)); }
  void on_train_start() { scene.value("ends", static_cast<double>(ends)); }
  void on_train_batch_end(auto const& outputs, auto const& batch, auto&) {
    if (scene.words.number("--hook", 0)) forward(batch.data);
    losses.push_back(outputs.loss.template item<double>());
    ++scene.batches;
  }
  void on_train_epoch_end(auto& ctx) {
    if (!scene.words.number("--alone", 0) || ctx.rank() == 0) ctx.log(epoch_sum, 1.5);
  }
  at::Tensor predict_step(auto const& batch) { return forward(batch.data); }
  void on_validation_end(auto& ctx) {
    if (scene.words.number("--within", 0) && ctx.stage() == Stage::fit && !ctx.sanity_checking())
      ctx.request_checkpoint(scene.words.text("--out") + "/within" + std::to_string(scene.batches));
    if (auto const value = ctx.value(val_loss)) scene.value("val", *value);
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.02}); }

  void state(auto& archive) { archive("ends", ends); }

  std::vector<double> losses = {};
  long ends = 0;  ///< of training_step
  at::Tensor seen = register_buffer("seen", torch::zeros({}));
};

template <class Strategy>
void train(Scene& scene, Strategy strategy, long micro_batches) {
  auto const& words = scene.words;
  torch::manual_seed(7);
  long const rows = words.number("--rows", 48);
  auto const x = torch::randn({rows, 4}), y = x.sum(1, true).sin();
  long const size = words.number("--batch", 16) / micro_batches;
  data::TensorLoader loader{x, y, {.batch_size = size, .shuffle = words.number("--shuffle", 1) != 0, .seed = 5}};
  if (words.number("--differs", 0) == 1 && scene.rank == 1)
    loader = data::TensorLoader{x, y, {.batch_size = size, .shuffle = true, .seed = 6}};
  data::TensorLoader validation{x.narrow(0, 0, 20), y.narrow(0, 0, 20), {.batch_size = 8}};
  torch::manual_seed(3);
  Net model(scene);
  auto const out = words.text("--out");
  auto trainer = make_trainer<Net>(
      TrainerOptions{.max_epochs = static_cast<int>(words.number("--epochs", 2)),
                     .val_check_interval =
                         words.number("--within", 0) ? ValidationInterval(Batches{1}) : ValidationInterval(),
                     .num_sanity_val_steps = 1,
                     .log_every_n_steps = 1,
                     .non_finite = words.number("--skip", 0) ? NonFinite::skip : NonFinite::stop,
                     .default_root_dir = out},
      strategy, Float32{},
      Automatic{.accumulate_grad_batches = static_cast<int>(words.number("--accumulate", 1) * micro_batches),
                .clip = words.number("--clip", 0) ? Clip(ClipNorm{0.1}) : Clip()},
      ModelCheckpoint{{.dirpath = out + "/files", .save_top_k = -1, .every_n_train_steps = 2}}, CSVLogger{out},
      OnExceptionCheckpoint{{.dirpath = out + "/rescue"}}, NoDefaults{});
  if (words.number("--predict", 0)) trainer.predict(model, validation);
  auto const from = words.text("--from");
  if (from.empty()) trainer.fit(model, loader, validation);
  else trainer.fit(model, loader, validation, CkptPath{from});
  for (auto const& parameter : model.named_parameters()) scene.tensor(parameter.key(), parameter.value());
  for (auto const& buffer : model.named_buffers()) scene.tensor(buffer.key(), buffer.value());
  double sum = 0;
  for (double const loss : model.losses) sum += loss;
  scene.value("losses", sum);
  scene.value("skipped", static_cast<double>(trainer.progress().skipped_steps));
  trainer.save_checkpoint(out + "/last.ckpt");
  if constexpr (requires { strategy.micro_batches; }) trainer.validate(model, validation);
  for (auto const& line : trainer.strategy().account()) std::printf("%s\n", line.c_str());
}

Pipeline pipeline(Words const& words) {
  std::vector<int> balance;
  for (auto const digit : words.text("--balance")) balance.push_back(digit - '0');
  return {.micro_batches = static_cast<int>(words.number("--micro", 4)),
          .schedule = words.text("--schedule") == "gpipe" ? PipelineSchedule::gpipe : PipelineSchedule::one_f_one_b,
          .balance = balance,
          .devices = static_cast<int>(words.number("--devices", 0)),
          .timeout = std::chrono::milliseconds(words.number("--timeout", 20000))};
}

}  // namespace

int main(int argc, char** argv) try {
  Words const words(argc, argv);
  if (words.number("--pieces", 0)) return pieces::wrong();
  bool const single = words.number("--single", 0) != 0;
  Scene scene{words, single ? 0 : pipeline(words).rank(), {}};
  scene.out.open(words.text("--out") + "/rank" + std::to_string(scene.rank));
  if (single) train(scene, SingleDevice{cpu}, words.number("--micro", 4));
  else train(scene, pipeline(words), 1);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
