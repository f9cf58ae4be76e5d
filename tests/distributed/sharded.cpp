// The program that sharded.py starts, as one process or as several: the same run with ShardedDataParallel, with
// DistributedDataParallel, or in one process. Each rank writes the weights after each step, in hexadecimal, to
// FOLDER/rankN.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/distributed/captured.hpp>
#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/trainer.hpp>

#include "ordered_engine.hpp"
#include "words.hpp"

using namespace fulgurite;
namespace nn = torch::nn;

namespace {

struct Scene {
  Words words;
  int rank;
  std::ofstream out = {};
  long step = 0;

  void write(nn::Module const& model) {
    std::string shown;
    for (auto const& parameter : model.parameters()) {
      auto const flat = parameter.detach().contiguous();
      auto const* numbers = static_cast<float const*>(flat.const_data_ptr());
      for (std::int64_t i = 0; i != flat.numel(); ++i) {
        char text[40];
        std::snprintf(text, sizeof text, "%a ", double{numbers[i]});
        shown += text;
      }
    }
    out << shown << std::endl;
    ++step;
  }
};

/// A part of the state ends inside a parameter.
struct Net : nn::Module {
  Scene& scene;
  nn::Linear first = register_module("first", nn::Linear(4, 30)), second = register_module("second", nn::Linear(30, 1));

  explicit Net(Scene& at) : scene(at) {}
  at::Tensor loss(at::Tensor const& x, at::Tensor const& y) {
    return (second->forward(first->forward(x).tanh()) - y).square().mean();
  }
  void on_before_optimizer_step() const {
    if (scene.words.text("--stops") == std::to_string(scene.step) && scene.rank == 1) ::kill(::getpid(), SIGSTOP);
  }
  void on_train_batch_end() { scene.write(*this); }
};
template <class O>
struct NetWith : Net {
  using Net::Net;
  /// Of one rank the loss may be infinite in one step.
  at::Tensor training_step(auto const& batch) {
    auto const made = loss(batch.data, batch.target);
    bool const breaks = scene.words.text("--infinite") == std::to_string(scene.step) && scene.rank != 0;
    return breaks ? made * std::numeric_limits<float>::infinity() : made;
  }
  auto configure_optimizers() {
    if constexpr (std::is_same_v<O, optim::SGD>) return O(*this, {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01});
    else return O(*this, {.lr = 0.01});
  }
  void on_train_start(auto& ctx) const {
    std::printf("rank %d keeps %ld numbers\n", scene.rank, static_cast<long>(ctx.optimizer().kept_numbers()));
  }
};
/// Two optimizers by hand, one of which is clipped.
struct ByHand : Net {
  using Net::Net;
  auto configure_optimizers() {
    return optimizers(optim::SGD(first->parameters(), {.lr = 0.05, .momentum = 0.9}),
                      optim::AdamW(second->parameters(), {.lr = 0.01}));
  }
  void training_step(auto const& batch, auto& ctx) {
    auto& [one, two] = ctx.optimizers();
    ctx.minimize(one, loss(batch.data, batch.target));
    auto const scope = ctx.toggle(two);
    two.zero_grad();
    ctx.backward(loss(batch.data, batch.target));
    ctx.clip_gradients(two, ClipNorm{0.05});
    ctx.step(two);
  }
};

template <class Model, class Strategy, class How>
void train(Scene& scene, Strategy strategy, How how) {
  auto const& words = scene.words;
  torch::manual_seed(7);
  auto const x = torch::randn({48, 4});
  data::TensorLoader loader{
      x, x.sum(1, true).sin(), {.batch_size = words.number("--batch", 4), .shuffle = true, .seed = 5}};
  torch::manual_seed(3);
  Model model(scene);
  auto trainer = make_trainer<Model>(
      TrainerOptions{.max_epochs = static_cast<int>(words.number("--epochs", 2)),
                     .non_finite = words.text("--infinite").empty() ? NonFinite::stop : NonFinite::skip,
                     .default_root_dir = words.text("--out")},
      strategy, Float32{}, how,
      ModelCheckpoint{
          {.dirpath = words.text("--keeps", words.text("--out")), .save_top_k = -1, .every_n_train_steps = 3}},
      NoDefaults{});
  if (words.text("--from").empty()) trainer.fit(model, loader, NoValidation{});
  else trainer.fit(model, loader, NoValidation{}, CkptPath{words.text("--from")});
  if (!words.text("--saves").empty()) trainer.save_checkpoint(words.text("--saves"));
  if constexpr (requires { strategy.account(); })
    for (auto const& line : strategy.account()) std::printf("%s\n", line.c_str());
}

template <class Strategy>
void train(Scene& scene, Strategy const& strategy) {
  auto const& words = scene.words;
  Automatic const how{.accumulate_grad_batches = static_cast<int>(words.number("--accumulate", 1)),
                      .clip = words.number("--clip", 0) ? Clip(ClipNorm{0.05}) : Clip()};
  auto const optimizer = words.text("--optimizer", "adam");
  if (optimizer == "adam") return train<NetWith<optim::Adam>>(scene, strategy, how);
  if constexpr (Strategy::is_distributed) {
    if (optimizer == "sgd") return train<NetWith<optim::SGD>>(scene, strategy, how);
    if (optimizer == "adamw") return train<NetWith<optim::AdamW>>(scene, strategy, how);
    if (optimizer == "two") return train<ByHand>(scene, strategy, Manual{});
    if (optimizer == "captured") return train<NetWith<optim::Adam>>(scene, Captured{strategy}, how);
  }
  throw std::runtime_error("no such optimizer");
}

DistributedDataParallel parallel(Words const& words) {
  DistributedDataParallel made{.backend = Collectives::gloo,
                               .devices = static_cast<int>(words.number("--devices", 0)),
                               .bucket_cap_mb =
                                   static_cast<double>(words.number("--bucket-bytes", 1 << 20)) / (1 << 20),
                               .timeout = std::chrono::milliseconds(words.number("--timeout", 20000))};
  if (words.text("--engine") == "ordered")
    made.engine = [](distributed::Store const& store, distributed::Place const& place,
                     std::chrono::milliseconds) -> distributed::Engine {
      return c10::make_intrusive<test::OrderedEngine>(store, place.rank, place.world, 0);
    };
  return made;
}

}  // namespace

int main(int argc, char** argv) try {
  Words const words(argc, argv);
  auto const strategy = parallel(words);
  Scene scene{.words = words, .rank = strategy.rank()};
  scene.out.open(words.text("--out") + "/rank" + std::to_string(scene.rank));
  auto const kind = words.text("--strategy", "sharded");
  if (kind == "sharded") train(scene, ShardedDataParallel{strategy});
  else if (kind == "ddp") train(scene, strategy);
  else train(scene, SingleDevice{cpu});
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
