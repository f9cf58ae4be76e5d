// What a fit leaves alone for the rest of its process: the default type, and LibTorch's switches where another fit
// needs them; and what a program may ask for its process: that freed memory is kept.
#include "fixtures.hpp"
#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

at::ScalarType default_type() { return c10::get_default_dtype_as_scalartype(); }

/// Makes tensors in its step in the ways that rely on the default type, and looks at that type.
struct Factories : torch::nn::Module {
  static inline std::atomic<long> seen_touched = 0, seen_steps = 0;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(3, 2));
  std::vector<at::ScalarType> losses = {};
  std::function<void()> at_step = {};
  torch::Tensor training_step(data::Batch const& batch) {
    ++seen_steps;
    seen_touched += default_type() != at::kFloat;
    if (at_step) at_step();
    auto const shift = torch::full({2}, 0.1);  // in a statement of its own: compilers differ in which operand is first
    auto const loss = F::mse_loss(layer->forward(batch.data) + (shift + torch::zeros({2})), batch.target);
    losses.push_back(loss.scalar_type());
    return loss;
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)); }
};

/// The same with every type named.
struct Named : Factories {
  torch::Tensor training_step(data::Batch const& batch) {
    ++seen_steps;
    seen_touched += default_type() != at::kFloat;
    auto const shift = torch::full({2}, 0.1, batch.data.options()) + torch::zeros_like(batch.data[0][0]);
    return F::mse_loss(layer->forward(batch.data) + shift, batch.target);
  }
};

/// Clips before any backward, where there is no gradient, and checkpoints its layer.
struct Clips : Named {
  void training_step(data::Batch const& batch, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.clip_gradients(optimizer, ClipNorm{1.0});
    ctx.minimize(optimizer, F::mse_loss(checkpointed(layer, batch.data), batch.target));
  }
};

std::vector<data::Batch> batches(int n) {
  auto generator = at::detail::createCPUGenerator(7);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) all.push_back({torch::randn({4, 3}, generator), torch::randn({4, 2}, generator)});
  return all;
}

std::mutex one_at_a_time;  // LibTorch's generator of random numbers belongs to the process
template <class Model = Factories>
Model fresh() {
  std::lock_guard const lock(one_at_a_time);
  torch::manual_seed(11);
  return Model{};
}

template <class Model = Factories, class Precision>
std::vector<torch::Tensor> weights_after(Precision precision, int n, std::function<void()> at_step = {}) {
  auto model = fresh<Model>();
  model.at_step = std::move(at_step);
  auto const train = batches(n);
  auto trainer = make_trainer<Model>({.max_epochs = 3}, SingleDevice{cpu}, precision, Automatic{}, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  return model.parameters();
}

bool same(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i != a.size(); ++i) equal = fixtures::same_bits(a[i], b[i]);
  return equal;
}

/// A dataset that makes its samples by factory functions, and counts their types.
struct Made {
  static inline std::atomic<long> doubles = 0, floats = 0;
  std::size_t size() const { return 400; }
  data::Batch operator[](std::size_t i) const {
    auto const sample = torch::ones({3}) * static_cast<double>(i % 7);
    ++(sample.scalar_type() == at::kFloat ? floats : doubles);
    return {sample, torch::zeros({2})};
  }
};

bool warned(auto const& trainer, std::string const& of) {
  for (auto const& said : trainer.warnings())
    if (said.starts_with("[" + of + "]")) return true;
  return false;
}

}  // namespace

TEST_CASE("a precision never touches the process's default type: not in a step, not between steps, not afterwards",
          "[threads][precision]") {
  Factories::seen_touched = 0;
  weights_after(Float64{}, 4);
  weights_after<Named>(Bf16True{}, 4);
  weights_after<Named>(Fp16True{}, 4);
  CHECK(Factories::seen_touched == 0);
  CHECK(default_type() == at::kFloat);
}

TEST_CASE("workers of a loader beside a Float64 fit make the samples that they make alone", "[threads][precision]") {
  Made::doubles = Made::floats = 0;
  auto model = fresh();
  data::Loader train{Made{}, {.batch_size = 4, .workers = 2}, data::Stack{}};
  auto trainer = make_trainer<Factories>({.max_epochs = 4}, SingleDevice{cpu}, Float64{}, Automatic{}, NoDefaults{});
  trainer.fit(model, train);
  CHECK(Made::doubles == 0);
  CHECK(Made::floats >= 1600);
  CHECK(model.losses.front() == at::kDouble);  // batches and parameters are converted
}

TEST_CASE("two trainers of different precision in two threads: the same bits as alone", "[threads][precision]") {
  auto const alone64 = weights_after(Float64{}, 40), alone32 = weights_after(Float32{}, 40);
  std::vector<torch::Tensor> double_weights, single_weights;
  std::latch both(2);
  auto const together = [&both, met = false]() mutable {
    if (!std::exchange(met, true)) both.arrive_and_wait();
    std::this_thread::yield();
  };
  std::thread first([&] { double_weights = weights_after(Float64{}, 40, together); });
  std::thread second([&] { single_weights = weights_after(Float32{}, 40, together); });
  first.join();
  second.join();
  CHECK(same(double_weights, alone64));
  CHECK(same(single_weights, alone32));
  CHECK(default_type() == at::kFloat);
}

TEST_CASE("a factory function without a type in a step of another type is named, once; one with a type is not",
          "[threads][precision]") {
  auto const train = batches(3);
  {
    auto model = fresh();
    auto trainer = make_trainer<Factories>({.max_epochs = 1}, SingleDevice{cpu}, Float64{}, Automatic{}, NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    REQUIRE(trainer.warnings().size() == 1);
    CHECK(trainer.warnings()[0].starts_with(
        "[fulgurite.precision.default_type] training_step calls torch::full without a type"));
    CHECK(trainer.warnings()[0].find("Float, where this fit computes in Double") != std::string::npos);
  }
  auto model = fresh<Named>();
  auto named = make_trainer<Named>({.max_epochs = 1}, SingleDevice{cpu}, Float64{}, Automatic{}, NoDefaults{});
  named.fit(model, train, NoValidation{});
  CHECK(named.warnings().empty());
  auto plain = fresh();
  auto single = make_trainer<Factories>({.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  single.fit(plain, train, NoValidation{});
  CHECK(single.warnings().empty());
}

TEST_CASE("tensors that a step's checkpointed blocks and clipping make themselves are not the user's, and no warning",
          "[threads][precision]") {
  auto model = fresh<Clips>();
  auto trainer = make_trainer<Clips>({.max_epochs = 1}, SingleDevice{cpu}, Float64{}, Manual{}, NoDefaults{});
  trainer.fit(model, batches(3), NoValidation{});
  for (auto const& said : trainer.warnings()) UNSCOPED_INFO(said);
  CHECK(trainer.warnings().empty());
}

TEST_CASE("a loss of another type than the precision's is said, once", "[threads][precision]") {
  struct Scaled : Named {
    torch::Tensor training_step(data::Batch const& batch) {
      return Named::training_step({batch.data * torch::tensor(0.5F), batch.target});
    }
  };
  struct Wider : Named {
    torch::Tensor training_step(data::Batch const& batch) {
      return (Named::training_step(batch) * torch::tensor({0.5F})).sum();
    }
  };
  auto const train = batches(3);
  auto model = fresh<Wider>();
  auto trainer = make_trainer<Wider>({.max_epochs = 1}, SingleDevice{cpu}, Bf16True{}, Automatic{}, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  CHECK(trainer.warnings().size() == 1);
  CHECK(warned(trainer, "fulgurite.precision.loss_type"));
  auto scalar = fresh<Scaled>();
  auto quiet = make_trainer<Scaled>({.max_epochs = 1}, SingleDevice{cpu}, Bf16True{}, Automatic{}, NoDefaults{});
  quiet.fit(scalar, train, NoValidation{});
  CHECK(quiet.warnings().empty());  // a number takes part without changing the type
}

namespace {

/// One step that waits to be let go; the switches as they stand before and after it.
struct Waits : Named {
  std::latch *here = nullptr, *go = nullptr;
  bool deterministic_then = false, anomaly_then = false;
  torch::Tensor training_step(data::Batch const& batch) {
    if (here) here->arrive_and_wait();
    if (go) go->wait();
    deterministic_then = at::globalContext().deterministicAlgorithms();
    anomaly_then = torch::autograd::AnomalyMode::is_enabled();
    return Named::training_step(batch);
  }
};

/// A fit of one step in a thread of its own.
struct Beside {
  std::latch in_step{2}, go{1};
  Waits model = fresh<Waits>();
  std::thread thread;
  explicit Beside(TrainerOptions options) {
    options.max_steps = 1;
    model.here = &in_step;
    model.go = &go;
    thread = std::thread([this, options] {
      auto const train = batches(1);
      auto trainer = make_trainer<Waits>(options, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
      trainer.fit(model, train, NoValidation{});
    });
    in_step.arrive_and_wait();
  }
  void end() {
    go.count_down();
    thread.join();
  }
};

/// A fit of one step here: whether it was refused, and with what.
std::string refused(TrainerOptions options) {
  auto const train = batches(1);
  auto model = fresh<Waits>();
  options.max_steps = 1;
  long const before = Factories::seen_steps;
  try {
    auto trainer = make_trainer<Waits>(options, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    return "";
  } catch (Error const& error) {
    CHECK(Factories::seen_steps == before);
    return std::string(error.what());
  }
}

}  // namespace

TEST_CASE("two trainers at once share deterministic algorithms and anomaly detection; the last to end puts them back",
          "[threads][modes]") {
  REQUIRE_FALSE(at::globalContext().deterministicAlgorithms());
  TrainerOptions const both{.detect_anomaly = true, .deterministic = true};
  Beside first(both), second(both);
  first.end();
  CHECK(first.model.deterministic_then);
  CHECK(refused({}).empty());  // one that does not care leaves them alone
  second.end();
  CHECK(second.model.deterministic_then);  // though the first has ended
  CHECK(second.model.anomaly_then);
  CHECK_FALSE(at::globalContext().deterministicAlgorithms());
  CHECK_FALSE(torch::autograd::AnomalyMode::is_enabled());
}

TEST_CASE(
    "two trainers at once that want a switch of the process in two positions: the second is refused before it trains",
    "[threads][modes]") {
  bool const before = at::globalContext().benchmarkCuDNN();
  {
    Beside first({.deterministic = true});
    auto const said = refused({.benchmark = true});
    CHECK(said.starts_with("[fulgurite.options.shared_switch] this trainer needs benchmark = true, another one that is "
                           "running needs benchmark = false"));
    CHECK(refused({.benchmark = false}).empty());
    CHECK(at::globalContext().deterministicAlgorithms());
    first.end();
  }
  CHECK_FALSE(at::globalContext().deterministicAlgorithms());
  CHECK(refused({.benchmark = true}).empty());
  CHECK(at::globalContext().benchmarkCuDNN() == before);
}

#if defined(__GLIBC__)
#include <malloc.h>

namespace {

/// Pages that the system gives to ten steps, each of which fills 64 tensors of 1 MB and frees them.
long pages_of_steps() {
  auto const pages = [] {
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
  };
  long const before = pages();
  for (int step = 0; step != 10; ++step) {
    std::vector<torch::Tensor> all;
    for (int i = 0; i != 64; ++i) {
      all.push_back(torch::empty({1 << 18}));
      std::memset(all.back().data_ptr(), 1, all.back().nbytes());
    }
  }
  return pages() - before;
}

}  // namespace

// Run by the case below in a process of its own: nothing takes the call back, and no test before has freed memory.
TEST_CASE("freed memory is kept", "[.keeps]") {
  mallopt(M_MMAP_THRESHOLD, 1 << 17);  // as glibc begins
  mallopt(M_TRIM_THRESHOLD, 1 << 17);
  CHECK(pages_of_steps() > 10000);
  CHECK(keep_freed_memory());
  pages_of_steps();
  CHECK(pages_of_steps() < 1000);
}

TEST_CASE("keep_freed_memory lets the tensors of a step have the memory of those before it") {
  if (fixtures::under_address_sanitizer || fixtures::under_thread_sanitizer) SKIP("they have allocators of their own");
  CHECK(fixtures::status_alone("[.keeps]") == 0);
}
#endif
