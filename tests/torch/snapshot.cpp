// What a snapshot costs on LibTorch: a few copies of flat memory, on the device where it is, and nothing moves. What it
// holds, and a file: also which parameters are frozen.

#include "fixtures.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

using namespace fulgurite;

namespace {

/// What the allocator of the CPU hands out on this thread while it lives, in bytes.
class Allocations {
  struct Listening : c10::MemoryReportingInfoBase {
    std::vector<std::int64_t> sizes = {};
    void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
      if (size > 0) sizes.push_back(size);
    }
    bool memoryProfilingEnabled() const override { return true; }
  };
  std::shared_ptr<Listening> listening_ = std::make_shared<Listening>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, listening_};

 public:
  /// Those of at least so many bytes.
  std::vector<std::int64_t> from(std::int64_t least) const {
    std::vector<std::int64_t> all;
    for (auto const size : listening_->sizes)
      if (size >= least) all.push_back(size);
    return all;
  }
};

/// The copies of tensors in an action.
template <class Action>
std::size_t copies_in(Action&& action) {
  fixtures::Operators const operators;
  action();
  return operators.count("aten::copy_");
}

/// 20 layers: 40 parameters.
struct Deep : torch::nn::Module {
  torch::nn::ModuleList layers = register_module("layers", torch::nn::ModuleList());
  std::vector<torch::Tensor> moments = {};
  Deep() {
    for (int i = 0; i != 20; ++i) layers->push_back(torch::nn::Linear(i == 0 ? 3 : 20, 20));
  }
  torch::Tensor training_step(torch::Tensor x) {
    for (auto const& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x.square().sum();
  }
  auto configure_optimizers() {
    optim::Adam adam(*this, {.lr = 0.01});
    moments.clear();
    for (auto const& parameter : named_parameters())
      for (auto const& [name, tensor] : adam.state(parameter.key()).tensors) moments.push_back(tensor);
    return adam;
  }
};
/// The bytes of all parameters, each of which begins at a multiple of 64.
constexpr std::int64_t flat = (256 + 128) + 19 * (1600 + 128);

std::vector<torch::Tensor> copies_of(std::vector<torch::Tensor> const& values) {
  std::vector<torch::Tensor> all;
  for (auto const& value : values) all.push_back(value.detach().clone());
  return all;
}
bool same(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), fixtures::same_bits);
}
std::vector<void const*> places(std::vector<torch::Tensor> const& values) {
  std::vector<void const*> all;
  for (auto const& value : values) all.push_back(value.const_data_ptr());
  return all;
}
auto of_one_epoch() {
  return make_trainer<Deep>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
}

}  // namespace

TEST_CASE("snapshot: of 40 parameters with our Adam it is three copies, of the weights and of their moments, and so is "
          "the way back, into the memory in which they are") {
  torch::manual_seed(3);
  Deep net;
  auto trainer = of_one_epoch();
  std::vector<torch::Tensor> data{torch::ones({2, 3}), torch::full({2, 3}, -0.5)};
  trainer.fit(net, data);
  auto const values = net.parameters(), moments = net.moments;
  REQUIRE(values.size() == 40);
  REQUIRE(moments.size() == 80);
  auto const values_then = copies_of(values), moments_then = copies_of(moments);
  auto const where = places(values), where_moments = places(moments);
  auto const spoil = [&] {
    torch::NoGradGuard const no_graph;
    for (auto value : values) value.fill_(7);
    for (auto value : moments) value.fill_(8);
  };
  auto const as_then = [&] {
    return same(values, values_then) && same(moments, moments_then) && places(values) == where &&
           places(moments) == where_moments;
  };

  // Random numbers are in a snapshot, too: those of now, and those that the loader's pass began with.
  StateMemory random;
  auto generators = LibTorch::rng_state();
  auto const fold = [&](auto& archive) { archive.child("now", generators).child("pass", generators); };
  auto const of_random = copies_in([&] { random.save(fold); }), random_back = copies_in([&] { random.load(fold); });

  std::optional<Snapshot<decltype(trainer)::Run>> kept;
  std::optional<Allocations> made(std::in_place);
  auto const copies = copies_in([&] { kept.emplace(snapshot(trainer)); });
  CHECK(made->from(flat) == std::vector{flat, 2 * flat});  // both moments in one
  CHECK(copies == 3 + of_random);
  for (int times = 0; times != 2; ++times) {
    spoil();
    CHECK_FALSE(as_then());
    made.emplace();
    auto const back = copies_in([&] { restore(trainer, *kept); });
    CHECK(made->from(flat).empty());
    CHECK(back == 3 + random_back);
    CHECK(as_then());
  }
}

TEST_CASE("snapshot: a fit goes on from one with the bits of the unbroken one") {
  std::vector<torch::Tensor> data{torch::ones({2, 3}), torch::full({2, 3}, -0.5), torch::full({2, 3}, 0.25)};
  torch::manual_seed(3);
  Deep whole;
  auto unbroken =
      make_trainer<Deep>(TrainerOptions{.max_epochs = 3}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  unbroken.fit(whole, data);

  torch::manual_seed(3);
  Deep net;
  auto trainer = of_one_epoch();
  trainer.fit(net, data);
  auto const kept = snapshot(trainer);
  auto options = trainer.given_options();
  options.max_epochs = 3;
  trainer.set_options(options);
  for (int times = 0; times != 2; ++times) {
    trainer.fit(net, data, kept);
    CHECK(same(net.parameters(), whole.parameters()));
    CHECK(same(net.moments, whole.moments));
  }
}

namespace {
/// Freezes a weight and the statistics of a norm in its second epoch.
struct Freezes : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(3, 4));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(4, 1));
  bool freezes_bias = false;
  torch::Tensor training_step(torch::Tensor const& x) {
    return out->forward(norm->forward(in->forward(x)).square()).sigmoid().mean();
  }
  void on_train_start() { out->bias.set_requires_grad(!freezes_bias); }
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == 1) in->weight.set_requires_grad(false), norm->eval();
  }
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 0.1, .momentum = 0.9}); }
  std::vector<torch::Tensor> numbers() const {
    auto all = parameters();
    all.push_back(norm->running_mean);
    return all;
  }
};
std::filesystem::path file_of(long step) {
  return std::filesystem::temp_directory_path() /
         ("fulgurite_freezes_" + std::to_string(::getpid()) + "_" + std::to_string(step));
}
template <class Strategy = decltype(SingleDevice{cpu}), class... Callbacks>
auto frozen_later(int epochs, bool leaves_files = false, Strategy strategy = Strategy(cpu), Callbacks... callbacks) {
  return make_trainer<Freezes>(TrainerOptions{.max_epochs = epochs}, std::move(strategy), Float32{}, Automatic{},
                               NoDefaults{}, std::move(callbacks)...,
                               LambdaCallback{on<hook::on_train_batch_end>([leaves_files](auto& ctx) {
                                 if (leaves_files) ctx.request_checkpoint(file_of(ctx.global_step()));
                               })});
}
std::vector<torch::Tensor> three() {
  std::vector<torch::Tensor> data;
  for (int i = 0; i != 3; ++i) data.push_back(torch::linspace(-1, 1 + i, 12).sin().reshape({4, 3}));
  return data;
}
/// The numbers of the unbroken fit; a fit from each of its files has them, too.
template <class... Callbacks>
std::vector<torch::Tensor> resumes(auto strategy, Callbacks const&... callbacks) {
  auto const data = three();
  torch::manual_seed(3);
  Freezes whole;
  frozen_later(3, true, strategy, callbacks...).fit(whole, data);
  for (long step = 1; step != 9; ++step) {
    CAPTURE(step);
    Freezes net;
    frozen_later(3, false, strategy, callbacks...).fit(net, data, CkptPath{file_of(step)});
    CHECK(same(net.numbers(), whole.numbers()));
    CHECK_FALSE(net.in->weight.requires_grad());
    CHECK_FALSE(net.norm->is_training());
  }
  return whole.numbers();
}
}  // namespace

TEST_CASE("what hooks have frozen and switched to eval mode is in a file, also where steps are replayed or weights "
          "averaged") {
  auto const eager = resumes(SingleDevice{cpu});
  CHECK(same(resumes(Captured{SingleDevice{cpu}}), eager));
  resumes(SingleDevice{cpu}, EMAWeightAveraging{});
  resumes(SingleDevice{cpu}, StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}});
  for (long step = 1; step != 10; ++step) std::filesystem::remove(file_of(step));
}

TEST_CASE("what hooks have frozen and switched to eval mode is in a snapshot; what the program that resumes freezes "
          "itself stays frozen") {
  auto const data = three();
  auto const whole = resumes(SingleDevice{cpu});
  Freezes other;
  other.freezes_bias = true;
  frozen_later(3).fit(other, data, CkptPath{file_of(5)});
  CHECK_FALSE(other.out->bias.requires_grad());
  CHECK_FALSE(other.in->weight.requires_grad());
  for (long step = 1; step != 10; ++step) std::filesystem::remove(file_of(step));

  torch::manual_seed(3);
  Freezes net;
  auto trainer = frozen_later(2);
  trainer.fit(net, data);
  auto const kept = snapshot(trainer);
  auto const is_frozen = [&] { return !net.in->weight.requires_grad() && !net.norm->is_training(); };
  net.in->weight.set_requires_grad(true);
  net.norm->train();
  restore(trainer, kept);
  CHECK(is_frozen());
  CHECK(net.out->weight.requires_grad());
  net.in->weight.set_requires_grad(true);
  net.norm->train();
  auto options = trainer.given_options();
  options.max_epochs = 3;
  trainer.set_options(options);
  restore(trainer, kept);
  trainer.fit(net, data, kept);
  CHECK(same(net.numbers(), whole));
}

TEST_CASE("switches of a model: leaves that can have a gradient are set, and a Toggle's scope does not count") {
  struct Odd : torch::nn::Module {
    at::Tensor leaf = register_parameter("leaf", torch::ones({2}));
    at::Tensor made = register_parameter("made", leaf * 2);
    at::Tensor counts = register_parameter("counts", torch::zeros({2}, at::kLong), false);
    torch::nn::Sequential inner = register_module("inner", torch::nn::Sequential(torch::nn::Linear(1, 1)));
  } odd;
  using Names = std::vector<std::string>;
  CHECK(libtorch::switches(odd).parameters == Names{"counts"});
  CHECK(libtorch::switches(odd).modules.empty());
  Switches off;
  libtorch::set_switches(odd, off);
  off.parameters = {"inner.0.bias", "leaf", "made"};
  off.modules = {"", "inner.0"};
  libtorch::set_switches(odd, off);
  CHECK(libtorch::switches(odd).parameters == Names{"counts", "inner.0.bias", "leaf"});
  CHECK(libtorch::switches(odd).modules == Names{"", "inner.0"});
  CHECK(odd.inner->is_training());

  optim::SGD one({odd.inner->parameters()[0]}, {.lr = 0.1}), other({odd.inner->parameters()[1]}, {.lr = 0.1});
  auto both = std::tie(one, other);
  odd.inner->parameters()[1].set_requires_grad(true);
  {
    Toggle const outer(one, both), nested(other, both);
    CHECK_FALSE(odd.inner->parameters()[1].requires_grad());
    CHECK(libtorch::switches(odd).parameters == Names{"counts", "leaf"});
  }
  odd.inner->parameters()[1].set_requires_grad(false);
  CHECK(libtorch::switches(odd).parameters == Names{"counts", "inner.0.bias", "leaf"});

  // A Toggle that fails leaves nothing behind: outside of inference mode a tensor of it cannot be switched on.
  struct Holds {
    std::vector<at::Tensor> tensors;
    std::vector<at::Tensor> const& parameters() const { return tensors; }
  };
  odd.leaf.set_requires_grad(true);
  Holds chosen{{[] {
    c10::InferenceMode const inference;
    return torch::ones({1}).set_requires_grad(true);
  }()}};
  Holds rest{{odd.leaf}};
  auto all = std::tie(chosen, rest);
  CHECK_THROWS_AS(Toggle(chosen, all), c10::Error);
  CHECK(libtorch::flags_to_restore().empty());
  CHECK(odd.leaf.requires_grad());
}

TEST_CASE("snapshot: a tensor of the state that is there only then comes back in its place") {
  at::Tensor kept = torch::arange(6).reshape({2, 3}), none;
  StateMemory memory;
  memory.save([&](auto& archive) { archive.tensor("kept", kept).tensor("none", none); });
  at::Tensor const before = kept.clone();
  kept.fill_(9);
  at::Tensor fresh, other = torch::ones({1});
  memory.load([&](auto& archive) { archive.tensor("kept", fresh).tensor("none", other); });
  CHECK(fixtures::same_bits(fresh, before));
  CHECK_FALSE(other.defined());
  fresh.fill_(4);  // it is no part of what is kept
  memory.restore([&](auto& archive) { archive.tensor("kept", kept).tensor("none", other); });
  CHECK(fixtures::same_bits(kept, before));
}

TEST_CASE("snapshot: copies of neighbours are neighbours whatever their order, and gaps between them are zeros") {
  torch::manual_seed(1);
  auto const one = torch::randn({3, 5}), two = torch::randn({7}), three = torch::randn({33});
  std::vector<torch::Tensor> const apart{one, two, three}, row = LibTorch::clones(apart);
  std::vector<torch::Tensor> const mixed{row[1], three, row[2], row[0]};
  fixtures::Operators const operators;
  auto const copies = LibTorch::clones(mixed);
  CHECK(operators.count("aten::copy_") == 2);
  CHECK(same(copies, mixed));
  CHECK(libtorch::follows(copies[3], copies[0]));
  CHECK(libtorch::follows(copies[0], copies[2]));
  auto const all = libtorch::stretch(row[0], row[2]);
  CHECK(all.numel() == 16 + 16 + 33);
  CHECK(all[15].item<float>() == 0);
  CHECK(all.slice(0, 16 + 7, 32).count_nonzero().item<long>() == 0);
}

namespace {
/// An embedding whose gradients are sparse.
template <bool Manually>
struct Table : torch::nn::Module {
  torch::nn::Embedding table =
      register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 2).sparse(true)));
  auto training_step(torch::Tensor const& rows, auto& ctx) {
    auto loss = (table->forward(rows) - 1).square().sum();
    if constexpr (Manually) {
      auto& [sgd] = ctx.optimizers();
      ctx.minimize(sgd, loss);
    } else {
      return loss;
    }
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.125); }
};

/// Saves after the second batch, and tries two steps out before the second epoch.
struct FileAndTrial {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  std::function<void()> save = nullptr;
  bool tries = false;
  int trials = 0;
  void on_train_batch_end(auto& ctx) {
    if (save && ctx.current_epoch() == 0 && ctx.batch_idx() == 1) save();
  }
  void on_train_epoch_start(auto& ctx) {
    if (!tries || ctx.current_epoch() == 0) return;
    ctx.request_search([this](auto& rehearser) {
      rehearser.rehearse(RehearsalPlan{.steps = 2});
      ++trials;
    });
  }
};

/// Two epochs of three batches end with the same bits, also by way of a file after the second batch, inside a window of
/// three, and of trial steps between the epochs.
template <bool Manually>
void resumes_with_sparse_gradients() {
  std::vector<torch::Tensor> const data{torch::tensor({0, 1, 1}), torch::tensor({2, 1}), torch::tensor({5, 2})};
  auto const file = std::filesystem::temp_directory_path() /
                    ("fulgurite_sparse_" + std::to_string(Manually) + "_" + std::to_string(::getpid()));
  auto const trainer_with = [](FileAndTrial also) {
    TrainerOptions const options{.max_epochs = 2};
    if constexpr (Manually)
      return make_trainer<Table<true>>(options, SingleDevice{cpu}, Float32{}, Manual{}, also, NoDefaults{});
    else
      return make_trainer<Table<false>>(options, SingleDevice{cpu}, Float32{}, Automatic{.accumulate_grad_batches = 3},
                                        also, NoDefaults{});
  };
  torch::manual_seed(3);
  Table<Manually> whole, rest, again;
  fixtures::put_weights(rest, fixtures::copied_weights(whole));
  auto trainer = trainer_with({});
  trainer.template callback<FileAndTrial>().save = [&] { trainer.save_checkpoint(file); };
  trainer.fit(whole, data);
  CHECK(whole.table->weight.grad().is_sparse());
  auto const was = LibTorch::parts(LibTorch::clone(whole.table->weight.grad()));
  auto const snapshot_at_end = snapshot(trainer);
  auto& gradient = whole.table->weight.mutable_grad();
  gradient._values().zero_();
  gradient = torch::sparse_coo_tensor(torch::tensor({{8}}), torch::ones({1, 2}), {9, 2});
  restore(trainer, snapshot_at_end);
  if constexpr (Manually) {  // else the window is complete, and its gradient is in no snapshot
    auto const now = LibTorch::parts(whole.table->weight.grad());
    CHECK(torch::equal(now.indices, was.indices));
    CHECK(fixtures::same_bits(now.values, was.values));
  }

  auto searching = trainer_with({.tries = !Manually});
  searching.fit(rest, data);
  CHECK(searching.template callback<FileAndTrial>().trials == !Manually);
  CHECK(fixtures::same_bits(rest.table->weight, whole.table->weight));

  auto resumed = trainer_with({});
  resumed.fit(again, data, CkptPath{file});
  CHECK(fixtures::same_bits(again.table->weight, whole.table->weight));
  std::filesystem::remove(file);
}
}  // namespace

TEST_CASE("sparse gradients are in files and snapshots, and come back after trial steps") {
  resumes_with_sparse_gradients<true>();
  resumes_with_sparse_gradients<false>();
  auto const parameter = torch::zeros({3, 2});
  CHECK_THROWS_WITH(LibTorch::sparse({torch::ones({1, 2}), torch::tensor({{7}})}, parameter),
                    Catch::Matchers::StartsWith("[fulgurite.checkpoint.state_entry] a saved sparse gradient does not "
                                                "fit its parameter of shape [3, 2]: "));
}
