// The optimizer's update as part of a step's graph, shown on the CPU with a graph that replays operators: the bits of
// the update as it is written, whatever changes from step to step, and where the update stays outside, by name.

#include "captured_fits.hpp"
#include "replayed.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;
using replayed::GraphedCpu;
using replayed::Replayed;
namespace F = torch::nn::functional;
namespace graph = libtorch::graph;

namespace {

/// What an optimizer leaves at its end: steps and states of each parameter.
inline std::vector<torch::Tensor> last_states;
inline std::vector<long> last_steps;

template <class Base>
struct Leaves : Base {
  using Base::Base;
  Leaves(Leaves&&) noexcept = default;
  Leaves& operator=(Leaves&&) noexcept = default;
  ~Leaves() {
    if (!this->arena_) return;
    last_states.clear();
    last_steps.clear();
    for (auto const& slot : this->arena_->slots()) {
      last_steps.push_back(slot.steps);
      for (auto const& state : slot.states)
        if (state.defined()) last_states.push_back(state.clone());
    }
  }
};

/// `Other`: short batches go through another head.
struct UpdatedNet : torch::nn::Module {
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16),
                                                    torch::nn::Tanh(), torch::nn::Dropout(0.3)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 3)),
                    other = register_module("other", torch::nn::Linear(16, 3));
  std::vector<float> losses = {};
  torch::Tensor training_step(data::Batch const& batch) {
    auto const x = body->forward(batch.data);
    return F::cross_entropy(batch.data.size(0) == 8 ? head(x) : other(x), batch.target);
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.loss.template item<float>()); }
};

/// A rate of its own in each step.
template <class Optimizer, class Options>
struct PerStep : UpdatedNet {
  static inline Options options = {};
  auto configure_optimizers() {
    return scheduled(Leaves<Optimizer>({{body->parameters(), options}, {head->parameters(), {.lr = 0.02}}}),
                     schedule::Cosine{.total = 60}, ScheduleOptions{.interval = Interval::step});
  }
};
using AdamPerStep = PerStep<optim::Adam, optim::AdamOptions>;

/// The rate stays. What else there may be: a parameter that is frozen, a layer that is frozen for some epochs,
/// gradients of one parameter that are halved (those of the whole window), a step that follows a global from batch 40
/// on.
struct Plain : UpdatedNet {
  enum class With { nothing, frozen, thaws, hook, global };
  static inline With with = With::nothing;
  static inline optim::AdamOptions options = {.lr = 0.01};
  static inline double unseen = 1;
  struct Halves : torch::autograd::PostAccumulateGradHook {
    void operator()(torch::Tensor const& parameter) override { parameter.grad().mul_(0.5); }
  };
  Plain() {
    if (with == With::frozen) head->bias.set_requires_grad(false);
    if (with == With::hook) torch::autograd::impl::set_post_acc_grad_hooks(head->bias, std::make_unique<Halves>());
  }
  void state(auto& archive) { archive("losses", losses); }
  void on_train_epoch_start(auto& ctx) {
    if (with != With::thaws) return;
    head->weight.set_requires_grad(ctx.current_epoch() != 2 && ctx.current_epoch() != 3);
    body[1]->train(ctx.current_epoch() < 5);
  }
  void on_train_batch_start(auto&, auto& ctx) { unseen = ctx.global_step() < 40 ? 1 : 0.5; }
  torch::Tensor training_step(data::Batch const& batch) {
    auto const value = UpdatedNet::training_step(batch);
    return with == With::global ? value * unseen : value;
  }
  auto configure_optimizers() { return Leaves<optim::Adam>(*this, options); }
};
/// While it lives.
using Is = replayed::capture::SetFor<Plain::With>;
using With = Plain::With;

/// What a callback changes: nothing, the rate (to 0, which LibTorch's kernels may treat as special, and others), or the
/// windows (one to three batches, of which each has its kinds of steps).
struct Changes {
  using Stateless = ByChoice;
  enum class What { nothing, rate, windows };
  What what = What::nothing;
  void on_train_batch_start(auto& ctx) {
    if (what != What::rate) return;
    auto const step = ctx.global_step();
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      if (step == 20) optimizer.set_lr(0, 0.0);
      if (step == 25) optimizer.set_lr(0, 0.05);
      if (step > 30) optimizer.set_lr(0, 0.01 / double(step));
    });
  }
  void on_train_epoch_start(auto& ctx) {
    if (what == What::windows) ctx.accumulate(1 + ctx.current_epoch() % 3);
  }
};
Changes::What changes = Changes::What::nothing;
using Change = replayed::capture::SetFor<Changes::What>;

/// A batch that is absent is left out by the loader.
using Rows = std::vector<std::optional<data::Batch>>;
Rows rows_of(int n, int rows = 8) {
  auto generator = at::detail::createCPUGenerator(11);
  Rows all;
  for (int i = 0; i != n; ++i)
    all.push_back(
        data::Batch{torch::randn({rows, 6}, generator), torch::randint(0, 3, {rows}, generator, torch::kLong)});
  return all;
}

/// Six batches, of which two are short.
Rows some_short() {
  auto all = rows_of(6);
  for (auto* const batch : {&*all[1], &*all[4]}) *batch = {batch->data.narrow(0, 0, 5), batch->target.narrow(0, 0, 5)};
  return all;
}

struct Left {
  std::vector<torch::Tensor> tensors = {}, states = {};
  std::vector<long> steps = {};
  std::vector<float> losses = {};
  std::string warnings = {};
  long averaged = 0;
};
template <class Model>
Left left_by(auto strategy, Rows data, TrainerOptions options, Automatic how, auto... callbacks) {
  for (auto& batch : data)
    if (batch) batch->data = batch->data.clone();
  torch::manual_seed(3);
  Model model;
  Replayed::model = &model;
  torch::manual_seed(5);
  Left left;
  {
    auto trainer = make_trainer<Model>(options, strategy, Float32{}, how, callbacks..., Changes{changes}, NoDefaults{});
    trainer.fit(model, data);
    for (auto const& warning : trainer.warnings()) left.warnings += warning + "\n";
    if constexpr ((std::is_same_v<decltype(callbacks), EMAWeightAveraging> || ...))
      left.averaged = trainer.template callback<EMAWeightAveraging>().n_averaged();
  }
  left.tensors = fixtures::copied_weights(model);
  left.tensors.push_back(torch::rand({4}));
  left.states = last_states;
  left.steps = last_steps;
  left.losses = model.losses;
  return left;
}
void same(Left const& a, Left const& b) {
  auto const equal = [](auto const& x, auto const& y) {
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i != x.size(); ++i) CHECK(fixtures::same_bits(x[i], y[i]));
  };
  equal(a.tensors, b.tensors);
  equal(a.states, b.states);
  CHECK(a.steps == b.steps);
  CHECK(a.losses == b.losses);
  CHECK(a.averaged == b.averaged);
}
bool overwrites = false;  ///< with kernels::fastest
/// Fits both ways, and compares every bit; `Written` is a model that does the same where no replay is. On the CPU the
/// loss is looked at before the update, unless nothing is.
template <class Model, class Written = Model>
CaptureReport updated(Rows const& data, Automatic how = {}, TrainerOptions options = {.non_finite = NonFinite::ignore},
                      auto... callbacks) {
  if (!options.max_epochs) options.max_epochs = 8;
  auto const strategy = overwrites ? GraphedCpu::overwriting() : GraphedCpu{SingleDevice{cpu}};
  auto const report = strategy.report();
  same(left_by<Model>(strategy, data, options, how, callbacks...),
       left_by<Written>(SingleDevice{cpu}, data, options, how, callbacks...));
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 20);
  return *report;
}

}  // namespace

TEST_CASE("an update in the graph has the bits of the update as it is written, with a rate of its own in each step") {
  auto const in_graph = [](CaptureReport const& report) {
    INFO(report.update_apart);
    CHECK(report.update_apart.empty());
    CHECK(report.updated == report.replayed);
  };
  auto const all_in_graph = [&]<class Optimizer>(std::type_identity<Optimizer>, auto options, Automatic how = {}) {
    PerStep<Optimizer, decltype(options)>::options = options;
    in_graph(updated<PerStep<Optimizer, decltype(options)>>(rows_of(7), how));
  };
  std::type_identity<optim::Adam> const adam;
  std::type_identity<optim::SGD> const sgd;
  optim::SGDOptions const nesterov{.lr = 0.1, .momentum = 0.9, .nesterov = true};
  all_in_graph(adam, optim::AdamOptions{.lr = 0.01});
  all_in_graph(std::type_identity<optim::AdamW>(),
               optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  all_in_graph(sgd, optim::SGDOptions{.lr = 0.1});
  all_in_graph(sgd, nesterov);
  all_in_graph(std::type_identity<optim::RMSprop>(),
               optim::RMSpropOptions{.lr = 0.01, .momentum = 0.9, .centered = true});
  all_in_graph(std::type_identity<optim::Adagrad>(), optim::AdagradOptions{.lr = 0.01, .lr_decay = 0.1});
  all_in_graph(adam, optim::AdamOptions{.lr = 0.01}, {.clip = ClipNorm{0.1}});
  all_in_graph(sgd, nesterov, {.clip = ClipValue{0.01}});
  in_graph(updated<Plain>(rows_of(200), {}, {.max_epochs = 1, .non_finite = NonFinite::ignore}));
}

namespace {

/// The number of operators that most steps call outside of their graph.
std::pair<std::size_t, int> most_steps(bool in_graph) {
  Replayed::has_kernels = in_graph;
  replayed::CountsOperators counts;
  auto const report = updated<Plain>(rows_of(200), {}, {.max_epochs = 2, .non_finite = NonFinite::ignore}, counts);
  Replayed::has_kernels = true;
  CHECK((report.updated > 350) == in_graph);
  CHECK(report.update_apart.empty() == in_graph);
  return counts.most();
}

}  // namespace

TEST_CASE("an update stays in the graph where Adam's corrections become 1") {
  // The second one after some 50 steps.
  replayed::capture::SetFor<optim::AdamOptions> const early(Plain::options, {.lr = 0.01, .betas = {0.9, 0.5}});
  auto const report = updated<Plain>(rows_of(8), {}, {.max_epochs = 20, .non_finite = NonFinite::ignore});
  CHECK(report.updated == report.replayed);
}

TEST_CASE("where no rate changes, an update in the graph calls no operator outside of it") {
  auto const [apart, of] = most_steps(false);
  auto const [within, how_often] = most_steps(true);
  CHECK(within == apart);
  CHECK(how_often > 350);
  CHECK(of > 350);
}

TEST_CASE("the last batch of a window updates in its graph, also where windows differ in length") {
  AdamPerStep::options = {.lr = 0.01};
  auto const options = TrainerOptions{.max_epochs = 24, .non_finite = NonFinite::ignore};
  auto const most_in_graph = [](CaptureReport const& report, long windows) {
    INFO(report.update_apart << report.updated);
    CHECK(report.update_apart.empty());
    CHECK(report.updated > windows / 4);  // each epoch's first and last are checks
    CHECK(report.updated <= windows);
  };
  most_in_graph(updated<AdamPerStep>(rows_of(8), {.accumulate_grad_batches = 2}, options), 24 * 4);
  most_in_graph(updated<AdamPerStep>(rows_of(8), {.accumulate_grad_batches = 3, .clip = ClipNorm{0.1}}, options),
                24 * 3);
  most_in_graph(updated<AdamPerStep>(rows_of(8), {.accumulate_grad_batches = 2, .clip = ClipValue{0.01}}, options),
                24 * 4);
  Change const windows(changes, Changes::What::windows);
  most_in_graph(updated<Plain>(rows_of(12), {}, options), 8 * (12 + 6 + 4));
}

TEST_CASE("where a loader leaves out a batch, so that gradients are multiplied, the update follows the replay") {
  auto rows = rows_of(24);
  rows[10].reset();  // the second one of four in the third window of six
  auto const options = TrainerOptions{.max_epochs = 24, .non_finite = NonFinite::ignore};
  auto const report = updated<Plain>(rows, {.accumulate_grad_batches = 4, .clip = ClipNorm{0.1}}, options);
  CHECK(report.update_apart.empty());
  CHECK(report.updated > 30);
}

TEST_CASE("an update in the graph follows a rate that a callback sets, and leaves to the trainer what it cannot do") {
  Change const rate(changes, Changes::What::rate);
  auto const report = updated<Plain>(rows_of(7));
  CHECK(report.update_apart.empty());
  CHECK(report.updated > 20);
  CHECK(report.updated < report.replayed);  // with the rate of 0
  auto const clipped = updated<Plain>(rows_of(7), {.clip = ClipNorm{0.1}});
  CHECK(clipped.updated > 20);
  CHECK(clipped.updated < clipped.replayed);
}

TEST_CASE("an update in the graph is of the parameters that receive gradients: some are frozen, some not reached") {
  {
    Is const frozen(Plain::with, With::frozen);
    CHECK(updated<Plain>(rows_of(7)).updated > 30);
  }
  {
    Is const thawing(Plain::with, With::thaws);
    auto const thaws = updated<Plain>(rows_of(10));
    CHECK(thaws.updated == thaws.replayed);
  }
  auto const data = some_short();
  auto const heads = updated<Plain>(data, {}, {.max_epochs = 14, .non_finite = NonFinite::ignore});
  CHECK(heads.updated > 20);
}

namespace {

struct OwnBackward : Plain {
  static constexpr bool acts_on_tensors = true;
  void backward(torch::Tensor const& loss) { loss.backward(); }
};

}  // namespace

TEST_CASE("with kernels::fastest a graph overwrites gradients: those of a window's later batches are added, and those "
          "that a step does not compute are cleared") {
  replayed::capture::SetFor<bool> const fastest(overwrites, true);
  auto const counted = [](auto&& f) {
    Replayed::captures = Replayed::sums = Replayed::overwrites = Replayed::clears = 0;
    f();
    CHECK(Replayed::captures > 0);
    CHECK(Replayed::sums + Replayed::overwrites == Replayed::captures);
  };
  counted([&] { CHECK(updated<Plain>(rows_of(7), {.clip = ClipNorm{0.1}}).updated > 30); });
  CHECK(Replayed::sums == 0);
  CHECK(Replayed::clears == 2 * Replayed::captures);  // of the head that no step of 8 rows reaches
  counted([&] { updated<Plain>(rows_of(8), {.accumulate_grad_batches = 2}); });
  CHECK(Replayed::sums == Replayed::overwrites);
  CHECK(Replayed::clears == 2 * Replayed::overwrites);

  Replayed::overwrites = 0;
  updated<OwnBackward>(rows_of(7));  // which adds to gradients
  CHECK(Replayed::overwrites == 0);

  auto const data = some_short();
  // The check of a replay sees a gradient that should be 0.
  Automatic const clipped{.clip = ClipNorm{0.1}};
  updated<Plain>(data, clipped, {.max_epochs = 14, .non_finite = NonFinite::ignore});
  Is const frozen(Plain::with, With::frozen);
  updated<Plain>(rows_of(7), clipped);
  Plain::with = With::thaws;
  updated<Plain>(rows_of(10), clipped);
  Plain::with = With::hook;
  updated<Plain>(rows_of(8), {.accumulate_grad_batches = 2});
}

namespace {

/// What comes before the average in a batch could change weights.
struct EndsBatches {
  using Stateless = ByChoice;
  void on_train_batch_end() {}
};

/// A class of its own: code of the program halves weights between the update and the average, or the weights after
/// every other step are averaged.
struct Own : EMAWeightAveraging {
  bool halves;
  explicit Own(bool its_halves) : EMAWeightAveraging({.decay = 0.9}), halves(its_halves) {}
  void on_train_batch_end(auto& ctx) {
    if (halves) {
      torch::NoGradGuard const no_graph;
      for (auto& weight : ctx.model().parameters()) weight.mul_(0.5);
    }
    if (halves || ctx.global_step() % 2 == 0) EMAWeightAveraging::on_train_batch_end(ctx);
  }
};

/// Takes several steps in a batch, after which the weights are averaged once.
struct Carries : torch::nn::Module {
  using Hidden = torch::Tensor;
  struct Output {
    torch::Tensor loss, hidden;
  };
  torch::nn::Linear next = register_module("next", torch::nn::Linear(6 + 4, 4));
  std::vector<float> losses = {};
  Output training_step(data::Batch const& slice, std::optional<Hidden> const& hidden, auto&) {
    auto state = hidden ? *hidden : torch::zeros({8, 4});
    for (int time = 0; time != 2; ++time) state = next(torch::cat({slice.data.select(1, time), state}, 1)).tanh();
    return {F::mse_loss(state, slice.target.select(1, 0)), state};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.loss.template item<float>()); }
  auto configure_optimizers() { return Leaves<optim::Adam>(*this, {.lr = 0.01}); }
};

}  // namespace

TEST_CASE("an average at each step is made in the graph, with the bits of the one that follows an update") {
  EMAWeightAveraging const slow{{.decay = 0.9}}, fast{{.decay = 0.3, .update_starting_at_step = 2}};
  AdamPerStep::options = {.lr = 0.01};
  auto const options = TrainerOptions{.max_epochs = 12, .non_finite = NonFinite::ignore};
  CHECK(updated<AdamPerStep>(rows_of(7), {}, options, slow).updated > 30);
  CHECK(updated<AdamPerStep>(rows_of(7), {}, options, fast).updated > 30);
  CHECK(updated<Plain>(rows_of(7), {}, options, EMAWeightAveraging{{.use_buffers = false}}).updated > 30);
  {
    Is const thaws(Plain::with, With::thaws);
    CHECK(updated<Plain>(rows_of(10), {}, options, slow).updated > 30);
  }
  {
    Change const rate(changes, Changes::What::rate);
    auto const changed = updated<Plain>(rows_of(7), {}, options, slow);
    CHECK(changed.updated > 20);
    CHECK(changed.updated < changed.replayed);  // these averages are undone
    changes = Changes::What::windows;
    CHECK(updated<Plain>(rows_of(12), {}, options, slow).updated > 20);
  }
  auto rows = rows_of(24);
  rows[10].reset();
  CHECK(updated<Plain>(rows, {.accumulate_grad_batches = 4}, options, slow).updated > 20);
  // Not at each step, and not from the recorded step on.
  CHECK(updated<Plain>(rows_of(7), {}, options, EMAWeightAveraging{{.update_every_n_steps = 2}}).updated > 30);
  CHECK(updated<Plain>(rows_of(7), {}, options, EMAWeightAveraging{{.update_starting_at_step = 30}}).updated > 30);
  CHECK(updated<Plain>(rows_of(7), {}, options, WeightAveraging{}).updated > 30);
  for (bool const halves : {true, false}) CHECK(updated<Plain>(rows_of(7), {}, options, Own(halves)).updated > 30);

  Rows series;
  for (int i = 0; i != 20; ++i) series.push_back(data::Batch{torch::randn({8, 4, 6}), torch::randn({8, 4, 4})});
  CHECK(updated<Carries>(series, {.tbptt = 2}, {.max_epochs = 4, .non_finite = NonFinite::ignore}, slow).updated > 40);
  // A search inside of the fit makes none.
  LearningRateFinder<Plain> const finder{
      {.search = {.num_training = 18, .skip_begin = 1, .skip_end = 1, .update = nullptr}, .milestones = {2}}};
  CHECK(updated<Plain>(rows_of(20), {}, {.max_epochs = 4, .non_finite = NonFinite::ignore}, finder, slow).updated > 40);

  auto const outside = [](auto... callbacks) {
    replayed::CountsOperators counts;
    left_by<Plain>(GraphedCpu{SingleDevice{cpu}}, rows_of(200), {.max_epochs = 2, .non_finite = NonFinite::ignore}, {},
                   callbacks..., counts);
    return counts.most().first;
  };
  auto const none = outside();
  CHECK(outside(slow) == none);
  CHECK(outside(EndsBatches{}, slow) > none);
  CHECK(outside(WeightAveraging{}) > none);
}

TEST_CASE("a fit that goes back behind wrong replays takes their averages back, too") {
  auto const options = TrainerOptions{.max_epochs = 1, .non_finite = NonFinite::ignore};
  EMAWeightAveraging const slow{{.decay = 0.9}};
  Is const follows(Plain::with, With::global);
  auto const graphed = left_by<Plain>(GraphedCpu{SingleDevice{cpu}}, rows_of(80), options, {}, slow);
  same(graphed, left_by<Plain>(SingleDevice{cpu}, rows_of(80), options, {}, slow));
  CHECK(graphed.warnings.find("fulgurite.capture.gone_back") != std::string::npos);
}

TEST_CASE("an average is undone where a replay was not to update, and where its kernels have not run") {
  std::vector<torch::Tensor> kept{torch::ones({3}), torch::ones({5})}, live{torch::zeros({3}), torch::zeros({5})};
  bool made = false;
  graph::UpdateInGraph update(1, at::kCPU);
  REQUIRE(update.take({}));
  update.take_average({kept, live, 0.5, &made});
  {
    graph::TurnedOff const off(&update);
    update.make_average();
    CHECK(kept[1][4].item<float>() == 0.5F);
  }
  CHECK(kept[1][4].item<float>() == 1);
  {
    graph::TurnedOff const off(&update);
    kept[1].resize_({7});  // what restores it fails
  }
  kept[1].resize_({5});
  update.turn_on({}, [](long) { return std::vector<libtorch::TracedUpdate>(); });
  update.make_average();
  auto const outcome = update.outcome();  // the table is at its first row still
  CHECK(!outcome.ran);
  CHECK(!outcome.averaged);
  CHECK(kept[0][0].item<float>() == 1);
}

TEST_CASE("between -0 and 0 there is no distance, beside inf and nan that are equal neither, though the bits differ") {
  torch::nn::Linear model(1, 1);
  replayed::capture::World const world(*model, at::kCPU);
  auto const of = [&](std::vector<float> const& numbers) {
    return graph::Snapshot(world, {torch::tensor(numbers, torch::kFloat)});
  };
  auto const inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  auto const zero = of({0, inf, nan, 1});
  CHECK(zero.same(of({0, inf, nan, 1})));
  CHECK_FALSE(zero.same(of({-0.0F, inf, nan, 1})));
  CHECK(zero.distance(of({-0.0F, inf, nan, 1})) == 0);
  CHECK(zero.distance(of({0, inf, nan, 3})) == 4);
  CHECK(zero.distance(of({0, -inf, nan, 1})) == inf);
  CHECK(std::isnan(zero.distance(of({0, inf, 1, 1}))));
}

TEST_CASE("what replays note while they are compared is undone") {
  graph::UpdateInGraph const update(1, at::kCPU);
  {
    graph::NotesUndone const undone(&update);
    update.note(torch::tensor(std::nan("")));
    CHECK(std::isnan(update.noted().item<float>()));
  }
  CHECK(update.noted().item<float>() == 0);
}

TEST_CASE("a fit that goes back behind wrong replays takes their updates back, too") {
  auto const options = TrainerOptions{.max_epochs = 1, .non_finite = NonFinite::ignore};
  Is const follows(Plain::with, With::global);
  GraphedCpu strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const graphed = left_by<Plain>(strategy, rows_of(80), options, {});
  same(graphed, left_by<Plain>(SingleDevice{cpu}, rows_of(80), options, {}));
  CHECK(graphed.warnings.find("fulgurite.capture.gone_back") != std::string::npos);
  CHECK(report->updated > 20);
  auto const windows = left_by<Plain>(strategy, rows_of(160), options, {.accumulate_grad_batches = 2});
  same(windows, left_by<Plain>(SingleDevice{cpu}, rows_of(160), options, {.accumulate_grad_batches = 2}));
  CHECK(windows.warnings.find("fulgurite.capture.gone_back") != std::string::npos);
}

TEST_CASE("a fit with updates in graphs that is resumed in the middle ends with the bits of one without") {
  auto const path =
      std::filesystem::temp_directory_path() / ("fulgurite_graph_update_" + std::to_string(::getpid()) + ".ckpt");
  AdamPerStep::options = {.lr = 0.01};
  auto const run = [&](auto strategy, auto... callbacks) {
    Left left;
    torch::manual_seed(3);
    AdamPerStep first, second;
    auto data = rows_of(9);
    auto const made = [&](int epochs) {
      return make_trainer<AdamPerStep>({.max_epochs = epochs, .non_finite = NonFinite::ignore}, strategy, Float32{},
                                       Automatic{}, callbacks..., Changes{}, NoDefaults{});
    };
    {
      Replayed::model = &first;
      auto trainer = made(3);
      trainer.fit(first, data);
      trainer.save_checkpoint(path);
    }
    {
      Replayed::model = &second;
      auto trainer = made(6);
      trainer.fit(second, data, CkptPath{path});
      if constexpr (sizeof...(callbacks) != 0)
        left.averaged = trainer.template callback<EMAWeightAveraging>().n_averaged();
    }
    std::filesystem::remove(path);
    left.tensors = fixtures::copied_weights(second);
    left.states = last_states;
    left.steps = last_steps;
    left.losses = second.losses;
    return left;
  };
  auto const compared = [&](GraphedCpu const& strategy, auto... callbacks) {
    auto const report = strategy.report();
    auto const graphed = run(strategy, callbacks...);
    same(graphed, run(SingleDevice{cpu}, callbacks...));
    CHECK(report->updated > 30);
    CHECK(report->updated == report->replayed);
    return graphed.averaged;
  };
  compared(GraphedCpu{SingleDevice{cpu}});
  compared(GraphedCpu::overwriting());
  EMAWeightAveraging const average{{.decay = 0.9}};
  CHECK(compared(GraphedCpu{SingleDevice{cpu}}, average) == 6 * 9);
}

namespace {

struct Clips : Plain {
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) { ctx.clip_gradients(optimizer, clip); }
};
struct StepsItself : Plain {
  void optimizer_step(auto& optimizer, auto&& closure, auto&) { optimizer.step(closure); }
};
struct Looks : Plain {
  void on_before_optimizer_step(auto&, auto&) {}
};
struct LooksFromOutside {
  using Stateless = ByChoice;
  void on_before_optimizer_step() {}
};
struct OptimizesItself : UpdatedNet {
  auto configure_optimizers() { return captured_fits::FlatSgd(parameters()); }
};
/// Keeps weights within a bound, in a step of its own.
struct Bounded : Leaves<optim::RMSprop> {
  using Leaves<optim::RMSprop>::Leaves;
  void step() {
    Leaves<optim::RMSprop>::step();
    at::NoGradGuard const no_graph;
    for (auto const& parameter : parameters()) parameter.clamp_(-0.1, 0.1);
  }
};
struct StepsBeside : UpdatedNet {
  auto configure_optimizers() { return Bounded(*this, {.lr = 0.01}); }
};
struct ReturnsWeight : Plain {
  struct Output {
    torch::Tensor loss, bias;
  };
  Output training_step(data::Batch const& batch) { return {Plain::training_step(batch), head->bias.detach()}; }
};

template <class Model, class Written = Plain>
void stays_apart(std::string const& why, Automatic how = {}, NonFinite non_finite = NonFinite::ignore,
                 auto... callbacks) {
  last_states.clear();
  last_steps.clear();
  auto const report = updated<Model, Written>(rows_of(8), how, {.non_finite = non_finite}, callbacks...);
  INFO(why);
  CHECK(report.updated == 0);
  CHECK(report.update_apart == why);
  auto const lines = replayed::capture::account(report);
  CHECK(std::find(lines.begin(), lines.end(), "the update follows the replay: " + why) != lines.end());
}

}  // namespace

TEST_CASE("an update that something precedes stays outside of the graph, which describe() says with the reason") {
  stays_apart<Clips>("the model overrides configure_gradient_clipping");
  stays_apart<StepsItself>("the model overrides optimizer_step");
  auto const* const hooks = "the model or a callback has on_after_backward or on_before_optimizer_step";
  stays_apart<Looks>(hooks);
  stays_apart<Plain>(hooks, {}, NonFinite::ignore, LooksFromOutside{});
  auto const* const other =
      "the optimizer is none of fulgurite::optim that updates in one pass, or has a step() of its own";
  stays_apart<OptimizesItself, OptimizesItself>(other);
  stays_apart<StepsBeside, StepsBeside>(other);
  for (auto const how : {NonFinite::skip, NonFinite::stop})  // on the CPU
    stays_apart<Plain>("the loss and the gradients are looked at before it", {}, how);
  stays_apart<ReturnsWeight>("the step returns or logs a tensor of the model, which the update would change");
  Replayed::has_kernels = false;
  stays_apart<Plain>("there is no kernel that does it with the bits of LibTorch's operators");
  Replayed::has_kernels = true;
}
