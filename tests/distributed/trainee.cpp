// The program that ranks.py starts, as one process or as several. It trains as its arguments say, dies where they say,
// and each rank writes the weights after each step, in hexadecimal, to FOLDER/rankN.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/distributed/captured.hpp>
#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/trainer.hpp>

#include "agent.hpp"
#include "ordered_engine.hpp"
#include "shared_data.hpp"
#include "sync_norm.hpp"
#include "with_callbacks.hpp"
#include "words.hpp"

using namespace fulgurite;
namespace nn = torch::nn;

namespace {

/// What goes wrong, in which rank, in which step: "throw:1:2".
struct Fault {
  std::string kind;
  long rank = -1, step = -1;

  Fault(std::string const& text) : kind(text.substr(0, text.find(':'))) {
    if (std::count(text.begin(), text.end(), ':') != 2) return;
    auto const first = text.find(':'), second = text.find(':', first + 1);
    rank = std::stol(text.substr(first + 1));
    step = std::stol(text.substr(second + 1));
  }
  bool is(std::string_view what, long here, long now) const { return kind == what && rank == here && step == now; }
};

struct Scene {
  Words words;
  Fault fault;
  long rank;
  std::ofstream out;
  long step = 0;  ///< that are over

  void maybe(std::string_view place) const {
    if (!fault.is(place, rank, step)) return;
    if (place == "throw") throw std::runtime_error("the third disk is full");
    if (place == "cut") {
      if (std::system("ip link set lo down") != 0) std::fprintf(stderr, "the network cannot be cut\n");
      return;
    }
    ::kill(::getpid(), place == "stop" ? SIGSTOP : place == "term" ? SIGTERM : SIGKILL);
  }
  /// The hash of all bits, and the numbers.
  static std::pair<std::string, std::string> bits_of(torch::nn::Module const& model) {
    std::uint64_t sum = 1469598103934665603U;
    std::string shown;
    auto const add = [&](at::Tensor const& tensor) {
      auto const flat = tensor.detach().cpu().contiguous();
      auto const* bytes = static_cast<unsigned char const*>(flat.const_data_ptr());
      for (std::size_t i = 0; i != flat.nbytes(); ++i) sum = (sum ^ bytes[i]) * 1099511628211U;
      if (flat.scalar_type() != at::kFloat) return;
      for (std::int64_t i = 0; i != flat.numel(); ++i) {
        char text[40];
        std::snprintf(text, sizeof text, " %.9g", double{static_cast<float const*>(flat.const_data_ptr())[i]});
        shown += text;
      }
    };
    for (auto const& parameter : model.parameters()) add(parameter);
    for (auto const& buffer : model.buffers()) add(buffer);
    char text[20];
    std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(sum));
    return {text, shown};
  }
  void write(torch::nn::Module const& model) {
    auto const [hash, numbers] = bits_of(model);
    out << hash << numbers << std::endl;
    ++step;
  }
};

struct Rows {
  at::Tensor x, y;
};

/// Kind "exact": one linear layer on whole numbers, in which no sum is ever rounded. "norm": with a batch norm. "sync":
/// with one of all ranks. "half": ranks use another layer each, "half-sync": after such a norm, "half-last": rank 0
/// uses both, and weights whose channels lie last. "mlp": three layers.
struct Net : nn::Module {
  using Batch = Rows;
  Scene& scene;
  std::string kind;
  nn::Linear first = nullptr, second = nullptr, third = nullptr;
  nn::BatchNorm1d norm = nullptr;
  SyncBatchNorm joined = nullptr;
  at::Tensor kernel = {};

  explicit Net(Scene& at) : scene(at), kind(at.words.text("--model", "mlp")) {
    bool const exact = kind == "exact";
    long const wide = scene.fault.is("model", scene.rank, 0) ? 9 : 8;
    first = register_module("first", nn::Linear(nn::LinearOptions(4, exact ? 1 : wide).bias(!exact)));
    if (exact) {
      at::NoGradGuard const no_graph;
      first->weight.zero_();
      return;
    }
    if (kind == "norm") norm = register_module("norm", nn::BatchNorm1d(wide));
    if (kind == "sync" || kind == "half-sync") joined = register_module("norm", SyncBatchNorm(wide));
    second = register_module("second", nn::Linear(wide, 1));
    if (kind.starts_with("half")) third = register_module("third", nn::Linear(wide, 1));
    if (kind == "half-last")
      kernel = register_parameter("kernel", torch::ones({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(at::Tensor const& x) {
    auto hidden = first->forward(x);
    if (kind == "exact") return hidden;
    if (kind == "norm") hidden = norm->forward(hidden);
    if (joined) hidden = joined->forward(hidden);
    hidden = hidden.tanh();
    bool const swapped = scene.step >= scene.words.number("--swaps", 1000);  // from that step on
    if (third && (scene.rank == 1) != swapped) return third->forward(hidden);
    if (kernel.defined()) return second->forward(hidden) + third->forward(hidden);
    return second->forward(hidden);
  }
  at::Tensor loss(Rows const& batch) { return (forward(batch.x) - batch.y).square().mean(); }

  at::Tensor training_step(Rows const& batch) {
    for (auto const* place : {"forward", "throw", "stop", "term", "cut"}) scene.maybe(place);
    auto made = loss(batch);
    if (kernel.defined()) made = made + (kernel * torch::arange(24.0).view_as(kernel)).mean();
    if (scene.fault.kind == "backward")
      made.register_hook([this](at::Tensor const& gradient) {
        scene.maybe("backward");
        return gradient;
      });
    return made;
  }
  void validation_step(Rows const& batch) {
    scene.maybe("validation");
    loss(batch);
  }
  template <class Archive>
  void state(Archive&) {
    if constexpr (!Archive::loading) scene.maybe("saving");
  }
  void on_train_batch_end() { scene.write(*this); }
};
struct NetWithOurs : Net {
  using Net::Net;
  auto configure_optimizers() {
    bool const exact = kind == "exact";
    return optim::SGD(parameters(), {.lr = 0.125, .momentum = exact ? 0.0 : 0.5, .weight_decay = exact ? 0.0 : 0.01});
  }
};
/// After backward one rank writes to its gradients, or all freeze a layer.
struct NetThatChanges : NetWithOurs {
  using NetWithOurs::NetWithOurs;
  void on_after_backward() {
    at::NoGradGuard const no_graph;
    if (scene.step == scene.words.number("--freezes", -1)) second->weight.requires_grad_(false);
    else if (scene.rank == 1) second->weight.mutable_grad().mul_(2);
  }
};
/// In float16, with gradients whose mean it holds and whose sum it does not.
struct NetInHalf : NetWithOurs {
  using NetWithOurs::NetWithOurs;
  at::Tensor training_step(Rows const&) { return (first->weight * 40000.0).sum(); }
};
/// On rows of a loader, which is shared out between the ranks.
struct NetOnLoader : NetWithOurs {
  using NetWithOurs::NetWithOurs;
  at::Tensor training_step(auto const& batch) { return Net::training_step(Rows{batch.data, batch.target}); }
};
struct NetWithTorchs : Net {
  using Net::Net;
  auto configure_optimizers() { return torch::optim::Adam(parameters(), 0.01); }
};

/// Two networks that take turns, by hand; the second one's first backward is not exchanged.
struct Pair : nn::Module {
  Scene& scene;
  nn::Linear left = register_module("left", nn::Linear(4, 1)), right = register_module("right", nn::Linear(4, 1));

  explicit Pair(Scene& at) : scene(at) {}
  auto configure_optimizers() {
    return optimizers(optim::SGD(left->parameters(), 0.1), optim::Adam(right->parameters(), 0.01));
  }
  void training_step(Rows const& batch, auto& ctx) {
    auto& [one, two] = ctx.optimizers();
    ctx.minimize(one, (left->forward(batch.x) - batch.y).square().mean());
    auto const halves = [&](std::size_t i) { return Rows{batch.x.chunk(2)[i], batch.y.chunk(2)[i]}; };
    auto const loss = [&](Rows const& part) { return (right->forward(part.x) - part.y).square().mean() / 2; };
    two.zero_grad();
    {
      auto const scope = ctx.toggle(two, {.sync_grad = false});
      ctx.backward(loss(halves(0)));
    }
    {
      auto const scope = ctx.toggle(two);
      ctx.backward(loss(halves(1)));
      ctx.step(two);
    }
  }
  void on_train_batch_end() { scene.write(*this); }
};

/// Two networks by hand, both in the first two batches. From the third on --apart 1 lets rank 1 train the other one
/// than rank 0 does; --apart 2: from the first on. --wide: rows of the right one, and --turns 0 shuts nobody out.
struct Turns : nn::Module {
  Scene& scene;
  nn::Linear left = register_module("left", nn::Linear(4, 1)), right = nullptr;

  explicit Turns(Scene& at) : scene(at) {
    right = register_module("right", nn::Linear(4, at.words.number("--wide", 1)));
  }
  auto configure_optimizers() {
    return optimizers(optim::SGD(left->parameters(), 0.1), optim::SGD(right->parameters(), 0.1));
  }
  void training_step(Rows const& batch, auto& ctx) {
    auto& [one, two] = ctx.optimizers();
    auto const go = [&](auto& optimizer, nn::Linear& net) {
      auto const loss = (net->forward(batch.x) - batch.y).square().mean();
      if (scene.words.number("--turns", 1)) return ctx.minimize(optimizer, loss);
      optimizer.zero_grad();
      ctx.backward(loss);
      ctx.step(optimizer);
    };
    long const apart = scene.words.number("--apart", 0);
    bool const both = apart != 2 && ctx.batch_idx() < 2;
    if (both || apart == 0 || scene.rank == 0) go(one, left);
    if (both || (apart != 0 && scene.rank == 1)) go(two, right);
  }
  void on_train_batch_end() { scene.write(*this); }
};

/// Two heads by hand, whose optimizers share the layer below them.
struct Shared : nn::Module {
  Scene& scene;
  nn::Linear both = register_module("both", nn::Linear(4, 4));
  nn::Linear left = register_module("left", nn::Linear(4, 1)), right = register_module("right", nn::Linear(4, 1));

  explicit Shared(Scene& at) : scene(at) {}
  auto configure_optimizers() {
    auto const with = [&](nn::Linear& head) {
      auto all = both->parameters();
      for (auto const& one : head->parameters()) all.push_back(one);
      return optim::SGD(all, 0.1);
    };
    return optimizers(with(left), with(right));
  }
  void training_step(Rows const& batch, auto& ctx) {
    auto& [one, two] = ctx.optimizers();
    auto const loss = [&](nn::Linear& head) {
      return (head->forward(both->forward(batch.x)) - batch.y).square().mean();
    };
    ctx.minimize(one, loss(left));
    ctx.minimize(two, loss(right));
  }
  void on_train_batch_end() { scene.write(*this); }
};

/// No module: only its optimizer has its layer.
struct Plain {
  using Batch = Rows;
  Scene& scene;
  nn::Linear layer{4, 1};

  explicit Plain(Scene& at) : scene(at) {}
  auto configure_optimizers() { return optim::SGD(layer->parameters(), 0.1); }
  at::Tensor training_step(Rows const& batch) { return (layer->forward(batch.x) - batch.y).square().mean(); }
  void on_train_batch_end() { scene.write(*layer); }
};

/// Batches of the whole run, cut so that rank r of k has the r-th part of each.
std::vector<Rows> batches(Words const& words, long rank, long world, bool whole_numbers) {
  long const size = words.number("--batch", 4), steps = words.number("--steps", 4);
  torch::manual_seed(7);
  std::vector<Rows> all;
  for (long i = 0; i != steps; ++i) {
    auto x = whole_numbers ? torch::randint(-1, 3, {size * world, 4}).to(at::kFloat) : torch::randn({size * world, 4});
    auto y = whole_numbers ? torch::randint(-2, 3, {size * world, 1}).to(at::kFloat) : x.sum(1, true).sin();
    all.push_back({x.narrow(0, rank * size, size), y.narrow(0, rank * size, size)});
  }
  if (rank == 1) all.resize(static_cast<std::size_t>(steps - words.number("--fewer", 0)));
  return all;
}

template <class Model, class Strategy, class Precision, class Optimization>
void train(Scene& scene, Strategy strategy, Precision precision, Optimization how) {
  long const world = strategy.world();
  bool const whole_numbers = scene.words.text("--model") == "exact";
  auto train_on = data::of_this_rank(batches(scene.words, scene.rank, world, whole_numbers));
  auto validate_on = data::of_this_rank(batches(scene.words, scene.rank, world, false));
  torch::manual_seed(static_cast<std::uint64_t>(3 + scene.words.number("--differs", 0) * scene.rank));
  Model model(scene);
  auto trainer = make_trainer<Model>(
      TrainerOptions{.max_epochs = 1, .num_sanity_val_steps = 0, .default_root_dir = scene.words.text("--out")},
      strategy, precision, how, NoDefaults{});
  if constexpr (requires { &Model::loss; }) {
    trainer.fit(model, train_on, validate_on);
  } else if (long const most = scene.words.number("--leaves-out", 0); most != 0) {  // rank 1 alone, from the second on
    auto const all = batches(scene.words, scene.rank, world, false);
    std::vector<std::optional<Rows>> some(all.begin(), all.end());
    for (long i = 0; i != most && scene.rank == 1; ++i) some.at(static_cast<std::size_t>(i + 1)).reset();
    auto with_gaps = data::of_this_rank(some);
    trainer.fit(model, with_gaps);
  } else {
    trainer.fit(model, train_on);
  }
  if (scene.words.number("--saves", 0)) trainer.save_checkpoint(scene.words.text("--out") + "/a.ckpt");
  std::printf("threads %d\n", at::get_num_threads());
  if constexpr (requires { strategy.account(); })
    for (auto const& line : strategy.account()) std::printf("%s\n", line.c_str());
}

/// Keeps a file every three steps, and goes on from the last one where that is asked for.
void train_and_keep(Scene& scene, DistributedDataParallel const& strategy) {
  auto const& words = scene.words;
  auto const make = [&] {
    if (words.text("--fault") == "make") throw std::runtime_error("the images are gone");
    std::printf("made by %ld\n", scene.rank);
    torch::manual_seed(7);
    auto const x = torch::randn({64, 4});
    return std::tuple{x, x.sum(1, true).sin(),
                      std::vector<float>(static_cast<std::size_t>(words.number("--ballast", 0)))};
  };
  bool const shares = words.number("--shares", 0) != 0;
  std::optional<data::SharedVector<float>> ballast;
  at::Tensor x, y;
  if (shares) {
    auto [inputs, targets, numbers] = data::shared(strategy, make);
    x = inputs, y = targets, ballast = numbers;
  } else {
    std::tie(x, y, std::ignore) = make();
  }
  data::TensorLoader loader{x, y, {.batch_size = words.number("--batch", 4), .shuffle = true, .seed = 5}};
  torch::manual_seed(3);
  NetOnLoader model(scene);
  auto trainer = make_trainer<NetOnLoader>(
      TrainerOptions{.max_epochs = 2, .default_root_dir = words.text("--out")}, strategy, Float32{}, Automatic{},
      ModelCheckpoint{{.dirpath = words.text("--keeps"), .save_top_k = -1, .every_n_train_steps = 3}}, NoDefaults{});
  if (words.text("--from").empty()) trainer.fit(model, loader, NoValidation{});
  else trainer.fit(model, loader, NoValidation{}, CkptPath{words.text("--from")});
  std::printf("hash %s\n", Scene::bits_of(model).first.c_str());
  if (!shares) return;
  float sum = 0;
  for (float const number : *ballast) sum += number;  // touches all of it
  strategy.barrier("all have read it");
  std::printf("sum %g\n", double{sum});
  test::print_shared_memory();
  std::fflush(stdout);
  test::print_end_of_writer(x.data_ptr());
  strategy.barrier("all have looked");
}

/// The batches of all of so many ranks, in one process.
std::vector<Rows> batches_of_all(Words const& words, long world) {
  std::vector<Rows> all;
  for (long rank = 0; rank != world; ++rank)
    for (auto& rows : batches(words, rank, world, false)) all.push_back(std::move(rows));
  return all;
}

DistributedDataParallel parallel(Words const& words, Fault const& fault, long rank) {
  DistributedDataParallel made{.backend = words.text("--engine") == "nccl"        ? Collectives::nccl
                                          : words.text("--engine") == "by_device" ? Collectives::by_device
                                                                                  : Collectives::gloo,
                               .devices = static_cast<int>(words.number("--devices", 0)),
                               .num_nodes = static_cast<int>(words.number("--nodes", 0)),
                               .compression = words.number("--bf16", 0) ? Compression::bf16 : Compression::none,
                               .bucket_cap_mb =
                                   static_cast<double>(words.number("--bucket-bytes", 1 << 20)) / (1 << 20),
                               .find_unused_parameters = words.number("--finds-unused", 1) != 0,
                               .static_graph = words.number("--static-graph", 0) != 0,
                               .sync_batchnorm = words.number("--sync", 0) != 0,
                               .others = words.number("--silent", 0) ? OtherRanks::silent : OtherRanks::prefixed,
                               .timeout = std::chrono::milliseconds(words.number("--timeout", 20000))};
  if (auto const engine = words.text("--engine"); engine == "ordered" || engine == "late")
    made.engine = [fault, rank, late = engine == "late"](distributed::Store const& store,
                                                         distributed::Place const& place,
                                                         std::chrono::milliseconds) -> distributed::Engine {
      long const dies = fault.kind == "collective" && fault.rank == rank ? fault.step + 1 : 0;
      return c10::make_intrusive<test::OrderedEngine>(store, place.rank, place.world, dies, late);
    };
  return made;
}

}  // namespace

int main(int argc, char** argv) try {
  Words const words(argc, argv);
  if (words.number("--gpus", 0)) {  // how many there are, for NCCL
#if defined(FULGURITE_HAS_NCCL)
    std::printf("%d\n", torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0);
#else
    std::printf("0\n");
#endif
    return 0;
  }
  if (words.number("--agent", 0) && std::getenv("RANK") == nullptr) return test::be_agent(words, argv);
  auto const& place = distributed::launched_place();
  bool const again = words.number("--once", 0) != 0 && place && place->restart > 0;  // by a launcher
  Fault const fault(again ? std::string() : words.text("--fault"));
  Scene scene{words, fault, parallel(words, fault, 0).rank(), {}, 0};
  if (fault.is("start", scene.rank, 0)) return 9;
  auto const strategy = parallel(words, fault, scene.rank);
  scene.out.open(words.text("--out") + "/rank" + std::to_string(scene.rank));
  std::printf("rank %ld of %d\n", scene.rank, strategy.world());

  if (words.number("--parts", 0)) strategy.barrier(scene.rank == 0 ? "tea" : "coffee");

  if (words.number("--second", 0)) test::use_another(strategy);
  if (long const lines = scene.rank == 1 ? words.number("--prints", 0) : 0; lines != 0)
    for (long i = 0; i != lines; ++i) std::printf("line %ld of many\n", i);

  Automatic const how{.accumulate_grad_batches = static_cast<int>(words.number("--accumulate", 1)),
                      .clip = words.number("--clip", 0) ? Clip(ClipNorm{0.1}) : Clip()};
  auto const run = words.text("--run", "ours");
  int status = 0;
  if (run == "ours") train<NetWithOurs>(scene, strategy, Float32{}, how);
  else if (run == "changes") train<NetThatChanges>(scene, strategy, Float32{}, how);
  else if (run == "single") train<NetWithOurs>(scene, SingleDevice{cpu}, Float32{}, how);
  else if (run == "kept") train_and_keep(scene, strategy);
  else if (run == "captured") train<NetWithOurs>(scene, Captured{strategy}, Float32{}, how);
  else if (run == "bf16") train<NetWithOurs>(scene, strategy, Bf16Mixed{}, how);
  else if (run == "fp16") train<NetInHalf>(scene, strategy, Fp16True{}, how);
  else if (run == "torch") train<NetWithTorchs>(scene, strategy, Float32{}, how);
  else if (run == "cuda-single") train<NetWithOurs>(scene, SingleDevice{cuda}, Float32{}, how);
  else if (run == "cuda-captured-single") train<NetWithOurs>(scene, Captured{SingleDevice{cuda}}, Float32{}, how);
  else if (run == "torch-single") train<NetWithTorchs>(scene, SingleDevice{cpu}, Float32{}, how);
  else if (run == "pair") train<Pair>(scene, strategy, Float32{}, Manual{});
  else if (run == "turns") train<Turns>(scene, strategy, Float32{}, Manual{});
  else if (run == "shared") train<Shared>(scene, strategy, Float32{}, Manual{});
  else if (run == "shared-single") train<Shared>(scene, SingleDevice{cpu}, Float32{}, Manual{});
  else if (run == "plain") train<Plain>(scene, strategy, Float32{}, how);
  else if (run == "plain-sharded") train<Plain>(scene, ShardedDataParallel{{strategy}}, Float32{}, how);
  else if (run == "pair-single") train<Pair>(scene, SingleDevice{cpu}, Float32{}, Manual{});
  else if (run == "swa")
    test::train_averaged<Net>(scene, strategy, batches(words, scene.rank, strategy.world(), false));
  else if (run == "swa-single") test::train_averaged<Net>(scene, SingleDevice{cpu}, batches_of_all(words, 2));
  else if (run == "signals") status = test::train_watched<NetOnLoader, false>(scene, strategy);
  else if (run == "watched") status = test::train_watched<NetOnLoader, true>(scene, strategy);
  else if (run == "norms") test::measure_norms(strategy);
  else if (run == "refusals") test::print_refusals(strategy);
  else throw std::runtime_error("no such run");
  if (words.number("--then", 0)) {  // a second part, before which a rank may leave
    if (fault.kind == "leaves" && fault.rank == scene.rank) return static_cast<int>(fault.step);
    strategy.barrier("the second part");
  }
  if (fault.is("late", scene.rank, 0)) return 7;  // no collective follows
  return status;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
