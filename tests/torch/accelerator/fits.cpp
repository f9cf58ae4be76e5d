// Fits on the fake accelerator: the CPU's bits, what is copied and when, and how often the host waits. These are counts
// that a real GPU does not give; the same fits on one are in tests/torch/gpu_*.cpp.

#include "fake_device.hpp"

#include "../gpu.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

using namespace gpu;
using Catch::Matchers::StartsWith;

namespace {

auto fake_strategy(std::string_view name = "fake") { return SingleDevice{Accelerator{name}}; }

/// What a fit leaves: weights and buffers, losses, and the next random numbers of the device.
struct Fitted {
  std::vector<torch::Tensor> weights = {}, losses = {};
  torch::Tensor random = {};
};
template <class Strategy, class Precision = Float32>
Fitted fitted(Strategy strategy, std::vector<data::Batch> const& train, Automatic how = {}, int epochs = 2,
              Precision precision = {}) {
  auto model = fresh<Ours>();
  torch::manual_seed(5);
  auto trainer =
      make_trainer<Ours>({.max_epochs = epochs, .log_every_n_steps = 1}, strategy, precision, how, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  return {fixtures::copied_weights(model), model.losses,
          torch::rand({4}, torch::TensorOptions(trainer.strategy().device()))};
}
bool same(Fitted const& a, Fitted const& b) {
  return gpu::same(a.weights, b.weights) && gpu::same(a.losses, b.losses) && fixtures::same_bits(a.random, b.random);
}

/// What the device counts in a fit of one epoch.
template <class Model = Ours, class Data, class... Parts>
fake::Counts counted(Data&& train, TrainerOptions options, Parts... parts) {
  auto model = fresh<Model>();
  options.max_epochs = 1;
  auto trainer = make_trainer<Model>(options, fake_strategy(), parts..., NoDefaults{});
  fake::counts = {};
  trainer.fit(model, train, NoValidation{});
  return fake::counts;
}

std::vector<data::Batch> on_device(std::vector<data::Batch> all) {
  for (auto& batch : all) batch = {batch.data.to(fake::device()), batch.target.to(fake::device())};
  return all;
}

struct Rows {
  std::int64_t count;
  torch::Tensor data = torch::linspace(-2, 2, count * 6).reshape({count, 6}).sin();
  torch::Tensor target = torch::arange(count) % 3;
  std::size_t size() const { return static_cast<std::size_t>(count); }
  data::Batch get(std::size_t i) const {
    auto const at = static_cast<std::int64_t>(i);
    return {data[at], target[at]};
  }
};

/// `Layers` times two parameters.
template <int Layers>
struct Deep : torch::nn::Module {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential());
  Deep() {
    for (int i = 0; i != Layers; ++i) body->push_back(torch::nn::Linear(6, 6));
  }
  torch::Tensor training_step(data::Batch const& batch) {
    return F::cross_entropy(body->forward(batch.data), batch.target);
  }
  auto configure_optimizers() { return torch::optim::Adam(parameters(), 0.01); }
};

struct SavesAtEnd {
  using Stateless = ByChoice;
  std::filesystem::path file;
  void on_train_end(auto& ctx) { ctx.request_checkpoint(file); }
};

std::filesystem::path of_this_process(std::string const& name) {
  return std::filesystem::temp_directory_path() / ("fulgurite_fake_" + name + "_" + std::to_string(::getpid()));
}

}  // namespace

TEST_CASE("a fit on an accelerator has the CPU's bits, and its model is on the CPU afterwards") {
  auto const train = batches(7, 8, 5);
  auto const here = fitted(SingleDevice{cpu}, train);
  CHECK(same(fitted(fake_strategy(), train), here));
  CHECK(same(fitted(fake_strategy("privateuseone:1"), train), here));
  CHECK(same(fitted(SingleDevice{NamedDevice{"fake:1"}}, train), here));
  CHECK(same(fitted(SingleDevice{automatic}, train), here));
  Automatic const windows{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}};
  CHECK(same(fitted(fake_strategy(), train, windows), fitted(SingleDevice{cpu}, train, windows)));

  auto const there = fitted(fake_strategy(), train);
  CHECK(there.losses.back().device() == fake::device());
  for (auto const& weight : there.weights) CHECK(weight.is_cpu());
}

TEST_CASE("devices are named as LibTorch names them, and one that is not there is an error before anything changes") {
  static_assert(decltype(fake_strategy())::on_gpu == Known::yes);
  CHECK(fake_strategy("fake:1").device() == fake::device(1));
  CHECK(fake_strategy().is_on_gpu());
  CHECK(SingleDevice{NamedDevice{"fake"}}.is_on_gpu());
  CHECK_FALSE(SingleDevice{NamedDevice{"cpu"}}.is_on_gpu());
  CHECK(SingleDevice{Accelerator{"xpu:1"}}.device() == at::Device(at::kXPU, 1));
  CHECK(SingleDevice{Accelerator{"mps"}}.device() == at::Device(at::kMPS, 0));
  for (auto const* name : {"", "cpu", "meta", "gpu", "fake:", "fake:-1", "fake:1x", "fake:128", "xpu1"})
    CHECK_THROWS_WITH(SingleDevice{Accelerator{name}}, StartsWith("[fulgurite.strategy.accelerator] "));

  auto model = fresh<Ours>();
  for (auto const* name : {"fake:2", "xpu", "mps", "hpu", "mtia"}) {
    auto trainer = make_trainer<Ours>({.max_epochs = 1}, fake_strategy(name), NoDefaults{});
    CHECK_THROWS_WITH(trainer.fit(model, batches(1, 8), NoValidation{}),
                      StartsWith("[fulgurite.strategy.accelerator_absent] "));
  }
  CHECK(model.ran == 0);
  CHECK(model.parameters().front().is_cpu());
}

TEST_CASE("each tensor of a batch is copied to the device once, with its bytes") {
  auto const train = [](int n) { return batches(n, 8); };
  auto const few = counted(train(4), {}), many = counted(train(20), {});
  CHECK(many.uploads - few.uploads == 16 * 2);
  CHECK(many.uploaded - few.uploaded == 16 * (8 * 6 * 4 + 8 * 8));
  CHECK(many.downloads == few.downloads);
  CHECK(many.streams == 0);

  CHECK(counted(on_device(train(20)), {}).uploads == counted(on_device(train(4)), {}).uploads);
}

TEST_CASE("logged values are read once in log_every_n_steps steps, together, and no step waits else") {
  auto const waits = [](int n, auto... parts) { return counted(on_device(batches(n, 8)), parts...).waits; };
  auto const more = [&](auto... parts) { return waits(72, parts...) - waits(24, parts...); };
  Automatic const windows{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}};
  CHECK(more(TrainerOptions{.log_every_n_steps = 0}) == 0);
  CHECK(more(TrainerOptions{.log_every_n_steps = 8}) == 48 / 8);
  CHECK(more(TrainerOptions{.log_every_n_steps = 0}, windows, EMAWeightAveraging()) == 0);
  CHECK(more(TrainerOptions{.log_every_n_steps = 0}, Bf16Mixed{}, Automatic{.clip = ClipValue{0.1}}) == 0);
}

namespace {

/// A net as one writes it for a loop by hand. Its loss may be infinite in one step, of which no gradient shows a trace.
template <class Optimizer, bool Logs>
struct Plain : Deep<2> {
  static constexpr Metric<"loss"> train_loss{};
  using Metrics = std::conditional_t<Logs, MetricList<train_loss>, MetricList<>>;
  long step = 0, bad = -1;

  torch::Tensor loss_of(data::Batch const& batch) { return Deep<2>::training_step(batch); }
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    auto loss = loss_of(batch);
    if (step++ == bad) loss = loss + torch::full({}, std::numeric_limits<float>::infinity(), loss.options());
    if constexpr (Logs) ctx.log(train_loss, loss);
    return loss;
  }
  auto configure_optimizers() {
    if constexpr (std::is_base_of_v<torch::optim::Optimizer, Optimizer>) return Optimizer(this->parameters(), 0.01);
    else return Optimizer(*this, {.lr = 0.01});
  }
};

struct Called {
  long kernels = 0, operators = 0, downloads = 0;
  bool operator==(Called const&) const = default;
  friend std::ostream& operator<<(std::ostream& to, Called const& c) {
    return to << c.kernels << " kernels, " << c.operators << " operators, " << c.downloads << " downloads";
  }
};
Called operator-(Called const& a, Called const& b) {
  return {a.kernels - b.kernels, a.operators - b.operators, a.downloads - b.downloads};
}
template <class F>
Called called(F&& f) {
  fixtures::Operators const operators;
  fake::counts = {};
  f();
  return {fake::counts.kernels, static_cast<long>(operators.all()), fake::counts.downloads};
}

template <class Model>
Called by_hand(long steps) {
  Model model;
  model.to(fake::device());
  auto optimizer = model.configure_optimizers();
  auto const batch = on_device(batches(1, 8)).front();
  return called([&] {
    for (long i = 0; i != steps; ++i) {
      if constexpr (requires { optimizer.groups(); }) optimizer.zero_grad();
      else  // zero_grad() would detach each first
        for (auto const& parameter : model.parameters()) parameter.mutable_grad().reset();
      model.loss_of(batch).backward();
      optimizer.step();
    }
  });
}
/// What `more` steps of a fit call, beyond what the same steps by hand do.
template <class Model>
Called beyond(TrainerOptions options, long more, auto... parts) {
  constexpr long first = 5;
  auto const by_trainer = [&](long steps) {
    auto const train = std::vector(static_cast<std::size_t>(steps), on_device(batches(1, 8)).front());
    return called([&] { counted<Model>(train, options, Float32{}, parts...); });
  };
  return (by_trainer(first + more) - by_trainer(first)) - (by_hand<Model>(first + more) - by_hand<Model>(first));
}

/// The same by manual optimization.
template <bool InOneCall>
struct Manually : Plain<torch::optim::Adam, true> {
  void training_step(data::Batch const& batch, auto& ctx) {
    auto& [adam] = ctx.optimizers();
    auto const loss = loss_of(batch);
    ctx.log(train_loss, loss);
    if constexpr (InOneCall) return ctx.minimize(adam, loss);
    adam.zero_grad();
    ctx.backward(loss);
    ctx.step(adam);
  }
};

template <class F>
void each_plain(F&& f) {
  f.template operator()<Plain<torch::optim::Adam, false>>();
  f.template operator()<Plain<torch::optim::Adam, true>>();
  f.template operator()<Plain<optim::Adam, false>>();
  f.template operator()<Plain<optim::Adam, true>>();
}

}  // namespace

TEST_CASE("a step on an accelerator calls the operators of the loop by hand and no other, also if it logs its loss") {
  each_plain([]<class Model>() {
    for (auto const how : {NonFinite::stop, NonFinite::ignore})
      for (int const every : {0, 50})
        CHECK(beyond<Model>({.log_every_n_steps = every, .non_finite = how}, 40) == Called{});
  });
  CHECK(beyond<Manually<false>>({.log_every_n_steps = 0}, 40, Manual{}) == Called{});
  CHECK(beyond<Manually<true>>({.log_every_n_steps = 0}, 40, Manual{}) == Called{});
}

TEST_CASE(
    "every log_every_n_steps an accelerator looks at the weights by one operator, and gathers what the host reads "
    "by one") {
  // The CPU's operators below the fake device's are counted as operators, too.
  using Model = Plain<torch::optim::Adam, true>;
  auto const logs = beyond<Model>({.log_every_n_steps = 50, .non_finite = NonFinite::ignore}, 100);
  CHECK(logs.kernels == 2 * 1);
  CHECK(logs.downloads == 2);
  auto const looks = beyond<Model>({.log_every_n_steps = 50}, 100);
  CHECK(looks.kernels == 2 * 2);
  CHECK(looks.downloads == 2);
  CHECK(beyond<Plain<optim::Adam, false>>({.log_every_n_steps = 50}, 102).kernels == 2 * 2);
}

TEST_CASE("without rows 64 losses wait on an accelerator at most, and then are condensed by two operators") {
  auto const all = beyond<Plain<torch::optim::Adam, false>>({.log_every_n_steps = 0}, 126);
  CHECK(all.kernels == 2 * 2);
  CHECK(all.downloads == 0);
}

TEST_CASE("skip looks at all gradients on an accelerator by one operator, and gathers and reads what it needs once a "
          "step") {
  each_plain([]<class Model>() {
    auto const each = beyond<Model>({.log_every_n_steps = 0, .non_finite = NonFinite::skip}, 40);
    CHECK(each.kernels == 40 * 2);
    CHECK(each.downloads == 40);
  });
}

TEST_CASE("a loss on an accelerator that is not finite is found, however long it waits, and alone is skipped") {
  using Model = Plain<optim::Adam, false>;
  auto const fit = [](Model& model, TrainerOptions options) {
    options.max_epochs = 1;
    auto trainer = make_trainer<Model>(options, fake_strategy(), NoDefaults{});
    trainer.fit(model, on_device(batches(200, 8)), NoValidation{});
    return trainer.progress().skipped_steps;
  };
  for (int const bad : {3, 63, 64, 65, 199})
    for (int const every : {0, 50, 70}) {
      Model model;
      model.bad = bad;
      CHECK_THROWS_WITH(fit(model, {.log_every_n_steps = every}), StartsWith("[fulgurite.loop.non_finite]"));
      CHECK(model.step > bad);
      Model other;
      other.bad = bad;
      CHECK(fit(other, {.log_every_n_steps = every,
                        .non_finite = NonFinite::skip,
                        .silence = {"fulgurite.loop.non_finite_skipped"}}) == 1);
    }
  Model good;
  CHECK(fit(good, {.log_every_n_steps = 0}) == 0);
}

TEST_CASE("a step with pinned batches waits never, whoever pins them, and nobody writes to a batch that is under way") {
  auto const loader = [](std::int64_t rows, int workers) {
    return data::Loader{Rows{rows},
                        {.batch_size = 8, .shuffle = true, .seed = 2, .workers = workers, .pin_memory = true},
                        data::Stack{}};
  };
  auto const gathered = [](std::int64_t rows, int workers) {
    Rows const all{rows};
    return data::TensorLoader{
        all.data, all.target, {.batch_size = 8, .shuffle = true, .seed = 2, .workers = workers, .pin_memory = true}};
  };
  auto const check = [](auto const& make, int workers) {
    auto const few = counted(make(8 * 8, workers), {.log_every_n_steps = 0});
    auto const many = counted(make(8 * 24, workers), {.log_every_n_steps = 0});
    CHECK(many.waits == few.waits);
    CHECK(many.uploads - few.uploads == 16 * 2);
    CHECK(many.overlapping - few.overlapping == 16 * 2);
    CHECK(many.pageable == 0);
    CHECK(many.overwritten == 0);
  };
  for (int const workers : {0, 2}) {
    check(loader, workers);
    check(gathered, workers);
  }
}

TEST_CASE("on an accelerator a validation is read once, however many batches it has") {
  auto const waits = [](int n) {
    auto model = fresh<Ours>();
    auto trainer = make_trainer<Ours>({.max_epochs = 1}, fake_strategy(), NoDefaults{});
    auto const data = on_device(batches(n, 8));
    fake::counts = {};
    trainer.validate(model, data);
    return fake::counts.waits;
  };
  CHECK(waits(40) == waits(4));

  auto const results = [](auto strategy) {
    auto model = fresh<Ours>();
    auto trainer = make_trainer<Ours>({.max_epochs = 1}, strategy, NoDefaults{});
    auto const data = batches(4, 8, 3);
    std::vector<torch::Tensor> all{torch::tensor(trainer.validate(model, data)[0][0].value),
                                   torch::tensor(trainer.test(model, data)[0][0].value)};
    auto const predictions = trainer.predict(model, data);
    for (auto const& one : predictions.front()) all.push_back(one);
    return all;
  };
  CHECK(gpu::same(results(fake_strategy()), results(SingleDevice{cpu})));
}

TEST_CASE("on an accelerator a fit goes on from a file, and from a snapshot, with the bits of the unbroken one") {
  auto const path = of_this_process("resumed");
  auto const train = batches(5, 8), validation = batches(1, 8);
  auto const options = [](int epochs) { return TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0}; };
  auto const make = [&](auto strategy, int epochs) {
    return make_trainer<Ours>(options(epochs), strategy, Float32{}, Automatic{}, EMAWeightAveraging(), NoDefaults{});
  };
  auto const whole = [&](auto strategy) {
    auto model = fresh<Ours>();
    torch::manual_seed(5);
    make(strategy, 3).fit(model, train, validation);
    return fixtures::copied_weights(model);
  };
  auto const expected = whole(fake_strategy());
  CHECK(gpu::same(expected, whole(SingleDevice{cpu})));

  auto model = fresh<Ours>(), other = fresh<Ours>();
  torch::manual_seed(5);
  auto trainer = make(fake_strategy(), 1), again = make(fake_strategy(), 3);
  trainer.fit(model, train, validation);
  trainer.save_checkpoint(path);
  auto const kept = snapshot(trainer);
  torch::manual_seed(77);
  again.fit(other, train, validation, CkptPath{path});
  std::filesystem::remove(path);
  CHECK(gpu::same(fixtures::copied_weights(other), expected));
  torch::manual_seed(78);
  trainer.set_options(options(3));
  trainer.fit(model, train, validation, kept);
  CHECK(gpu::same(fixtures::copied_weights(model), expected));
}

TEST_CASE("a checkpoint makes the host wait as often for a hundred tensors as for a few") {
  auto const path = of_this_process("waits");
  auto const train = on_device(batches(2, 8));
  auto const more = [&]<int layers>(std::integral_constant<int, layers>, auto... callbacks) {
    return counted<Deep<layers>>(train, {}, callbacks..., SavesAtEnd{path}).waits -
           counted<Deep<layers>>(train, {}, callbacks...).waits;
  };
  auto const few = more(std::integral_constant<int, 2>{}), many = more(std::integral_constant<int, 30>{});
  CHECK(few > 0);
  CHECK(many == few);
  auto const average = more(std::integral_constant<int, 30>{}, EMAWeightAveraging());
  CHECK(average <= many + 2);
  std::filesystem::remove(path);
}

TEST_CASE("the statistics of an average are computed on an accelerator without waiting in each batch") {
  auto const fit = [](auto strategy, int n) {
    auto model = fresh<Ours>();
    torch::manual_seed(5);
    auto trainer = make_trainer<Ours>({.max_epochs = 3, .log_every_n_steps = 0}, strategy,
                                      StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}}, NoDefaults{});
    auto const train = strategy.is_on_gpu() ? on_device(batches(n, 8)) : batches(n, 8);
    fake::counts = {};
    trainer.fit(model, train, NoValidation{});
    return std::pair(fixtures::copied_weights(model), fake::counts.waits);
  };
  auto const [weights, waits] = fit(fake_strategy(), 20);
  CHECK(gpu::same(weights, fit(SingleDevice{cpu}, 20).first));
  CHECK(waits == fit(fake_strategy(), 4).second);
}

TEST_CASE("values of one type that wait for a device are gathered together, and each device is waited for once") {
  auto const there = torch::TensorOptions(fake::device());
  std::vector<torch::Tensor> const values{torch::full({}, 0.1, there), torch::full({1}, 7, there.dtype(torch::kLong)),
                                          torch::full({}, 2.5), torch::full({1, 1}, 0.2, there),
                                          torch::full({}, 0.3, torch::TensorOptions(fake::device(1)))};
  std::array<double, 5> read{};
  fake::counts = {};
  LibTorch::read_all(values, read);
  CHECK(read == std::array<double, 5>{double(0.1F), 7, 2.5, double(0.2F), double(0.3F)});
  CHECK(fake::counts.waits == 2);

  std::vector<torch::Tensor> const floats(11, values.front());
  std::array<double, 11> all{};
  fake::counts = {};
  fixtures::Operators const operators;
  LibTorch::read_all(floats, all);
  CHECK(operators.count("aten::reshape") == 0);
  CHECK(operators.count("aten::unsqueeze") == 0);
  CHECK(fake::counts.kernels == 1);
  CHECK(fake::counts.downloads == 1);
}

TEST_CASE("the accelerator is waited for, and its random numbers are isolated, as those of a GPU") {
  fake::counts = {};
  LibTorch::synchronize(fake::device(1));
  LibTorch::synchronize(at::kCPU);
  CHECK(fake::counts.waits == 1);

  auto const draw = [] { return torch::rand({4}, torch::TensorOptions(fake::device(1))).cpu(); };
  torch::manual_seed(3);
  auto const expected = draw();
  torch::manual_seed(3);
  {
    [[maybe_unused]] auto const scope = LibTorch::isolated_rng();
    CHECK(draw().equal(expected));
  }
  CHECK(draw().equal(expected));
}

TEST_CASE("whether a device is a GPU decides what is allowed on it") {
  auto const train = batches(3, 8);
  auto const fit = [&](std::string_view name) {
    auto model = fresh<Ours>();
    auto trainer = make_trainer<Ours>({.max_epochs = 1}, SingleDevice{NamedDevice{name}}, Fp16Mixed{.init_scale = 8},
                                      NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    return trainer.progress().global_step;
  };
  CHECK(fit("fake") == 3);
  CHECK_THROWS_WITH(fit("cpu"), StartsWith("[fulgurite.policy.fp16_needs_gpu]"));
}

TEST_CASE("steps on an accelerator that is not CUDA's are not captured, and run as they are written") {
  auto const train = batches(8, 8);
  auto const expected = fitted(fake_strategy(), train);
  Captured captured{fake_strategy()};
  CHECK(same(fitted(captured, train), expected));
  CHECK(captured.report()->replayed == 0);
  CHECK_FALSE(captured.report()->reasons.empty());
  Captured named{SingleDevice{NamedDevice{"fake"}}};
  CHECK(same(fitted(named, train), expected));
  CHECK(named.report()->replayed == 0);
}
