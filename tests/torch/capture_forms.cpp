// Steps of other forms than tensors in, a loss out: a state from slice to slice, numbers in batches and results,
// results that may be absent. A captured fit has every bit of the plain one, also where it was stopped and resumed.

#include "adversaries.hpp"
#include "fixtures.hpp"

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

struct Rows {
  using Stateless = ByChoice;
  std::vector<std::pair<long, std::map<std::string, double>>> rows = {};
  void log_metrics(std::span<Scalar const> row, long step) {
    auto& last = rows.emplace_back(step, std::map<std::string, double>{}).second;
    for (auto const& cell : row) last.emplace(cell.name, cell.value);
  }
};

/// What all models here share: a count of the steps that really ran, and what is left at the end.
struct Common : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 16));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.2));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 3));
  int ran = 0;
  std::vector<torch::Tensor> left = {};

  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& parameter : optimizer.parameters())
        for (auto const& [name, tensor] : optimizer.state(parameter).tensors) left.push_back(tensor.clone());
    });
    left.push_back(at::detail::getDefaultCPUGenerator().get_state());
  }
  torch::Tensor scores(torch::Tensor const& x) { return head->forward(drop->forward(layer->forward(x).tanh())); }
};

struct Left {
  std::vector<torch::Tensor> tensors = {};  ///< weights, buffers, moments, the generator
  std::vector<std::pair<long, std::map<std::string, double>>> rows = {};
  CaptureReport report = {};
  long ran = 0, steps = 0;
  std::vector<std::string> warnings = {};
};

/// One fit. `steps`: its end, if it ends early, after which `file` is written.
template <class M, class Batch>
Left trained(auto strategy, auto how, std::vector<Batch> const& data, long steps = -1,
             std::optional<CkptPath> from = std::nullopt, std::filesystem::path const& file = {}) {
  torch::manual_seed(3);
  M model;
  torch::manual_seed(5);
  std::shared_ptr<CaptureReport const> report;
  if constexpr (requires { strategy.report(); }) report = strategy.report();
  auto trainer = make_trainer<M>({.max_epochs = 8, .max_steps = steps, .log_every_n_steps = 1}, strategy, Float32{},
                                 how, Rows{}, NoDefaults{});
  trainer.fit(model, data, NoValidation{}, from);
  if (!file.empty()) trainer.save_checkpoint(file);
  Left all{model.left,
           trainer.template callback<Rows>().rows,
           report ? *report : CaptureReport(),
           model.ran,
           model.ran,
           trainer.warnings()};
  for (auto const& p : model.parameters()) all.tensors.push_back(p.detach().clone());
  for (auto const& b : model.buffers()) all.tensors.push_back(b.clone());
  return all;
}

void same(Left const& a, Left const& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i != a.tensors.size(); ++i) CHECK(fixtures::same_bits(a.tensors[i], b.tensors[i]));
  REQUIRE(a.rows.size() == b.rows.size());
  for (std::size_t i = 0; i != a.rows.size(); ++i) CHECK(a.rows[i] == b.rows[i]);
}

/// A plain fit, and a captured one with the same bits; returns what the captured one left.
template <class M, class How = Automatic, class Batch>
Left twice(std::vector<Batch> const& data, How how = {}) {
  auto const plain = trained<M>(SingleDevice{cpu}, how, data);
  auto captured = trained<M>(Captured{SingleDevice{cpu}}, how, data);
  INFO((captured.report.reasons.empty() ? std::string("no reason") : captured.report.reasons.front()));
  same(captured, plain);
  captured.steps = plain.ran;
  return captured;
}

/// The same as `twice`, and without a reason to run steps as they are written.
template <class M, class How = Automatic, class Batch>
long replayed(std::vector<Batch> const& data, How how = {}) {
  auto const left = twice<M>(data, how);
  CHECK(left.report.reasons.empty());
  CHECK(left.warnings.empty());
  CHECK(left.ran + left.report.replayed == left.steps + left.report.confirmed);
  return left.report.replayed;
}

/// Stopped after each of these steps and resumed, captured: the weights, moments and generator of the plain fit.
template <class M, class How = Automatic, class Batch>
void resumes(std::vector<Batch> const& data, How how, std::initializer_list<long> steps) {
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite_capture_forms_" + std::to_string(getpid()));
  auto const plain = trained<M>(SingleDevice{cpu}, how, data);
  for (long const at : steps) {
    INFO("stopped after " << at << " steps");
    trained<M>(Captured{SingleDevice{cpu}}, how, data, at, std::nullopt, folder / "cut");
    auto rest = trained<M>(Captured{SingleDevice{cpu}}, how, data, -1, CkptPath{folder / "cut"});
    rest.rows = plain.rows;  // it has logged the rest of them
    same(rest, plain);
    std::filesystem::remove_all(folder);
  }
}

/// Random numbers that no other test draws from.
at::Generator numbers() { return at::detail::createCPUGenerator(11); }

struct Series {
  torch::Tensor data, target;
};
std::vector<Series> series(int n, int time = 8) {
  auto generator = numbers();
  std::vector<Series> all;
  for (int i = 0; i != n; ++i)
    all.push_back({torch::randn({4, time, 2}, generator), torch::randn({4, time, 1}, generator)});
  return all;
}

struct Recurrence : Common {
  using Hidden = std::tuple<torch::Tensor, torch::Tensor>;
  struct Output {
    torch::Tensor loss;
    Hidden hidden;
  };
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 4).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(4, 1));
  torch::Tensor last = {};  ///< the state after a batch, as a hook receives it
  static inline double factor = 1;
  static inline long changes_at = -1;
  long now = 0;

  Output training_step(Series const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    ++ran;
    auto [all, next] = lstm->forward(slice.data, hidden);
    auto value = F::mse_loss(out->forward(drop->forward(all)), slice.target) * factor;
    ctx.log(loss, value);
    return {value, next};
  }
  void on_train_batch_start(auto&, auto&) { factor = changes_at >= 0 && now++ >= changes_at ? 0.5 : 1.0; }
  void on_train_batch_end(auto& outputs, auto&, auto&) { last = std::get<0>(outputs.hidden); }
  void on_train_end(auto& ctx) {
    Common::on_train_end(ctx);
    left.push_back(last);
  }
  void state(auto& archive) { archive("now", now)("ran", ran); }
};

}  // namespace

TEST_CASE("captured fit of slices: the state that one slice hands to the next has the bits of the plain fit") {
  // 4 slices a batch, of which the first has no state before it; the last is shorter.
  CHECK(replayed<Recurrence>(series(7), Automatic{.tbptt = 2}) > 100);
  CHECK(replayed<Recurrence>(series(7, 7), Automatic{.tbptt = 2}) > 80);
}
TEST_CASE("captured fit of slices, stopped between batches and within an epoch, and resumed") {
  resumes<Recurrence>(series(7), Automatic{.tbptt = 2}, {4, 60, 96, 140});
}
TEST_CASE("captured fit of slices goes back from within a batch, and runs its slices again") {
  for (long const at : {20L, 31L}) {
    Recurrence::changes_at = at;
    auto const left = twice<Recurrence>(series(7), Automatic{.tbptt = 2});
    CHECK(left.report.replayed > 10);
    CHECK_FALSE(left.report.reasons.empty());
  }
  Recurrence::changes_at = -1;
}

namespace {

/// Steps of time come first, so that a batch has as many rows as steps, and its slices fewer.
struct Steps {
  torch::Tensor data, target;
};
/// It states how many samples count.
struct CountedSteps {
  torch::Tensor data, target, samples;
  long batch_size() const { return samples.item<long>(); }
};
template <class Batch>
struct TimeFirst : Common {
  using Hidden = std::tuple<torch::Tensor, torch::Tensor>;
  struct Output {
    torch::Tensor loss;
    Hidden hidden;
  };
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(2, 4));
  std::vector<Batch> tbptt_split_batch(Batch const& batch, long length) {
    std::vector<Batch> all;
    for (long t = 0; t < batch.data.size(0); t += length) {
      auto& slice = all.emplace_back(batch);
      slice.data = batch.data.narrow(0, t, length);
      slice.target = batch.target.narrow(0, t, length);
    }
    return all;
  }
  Output training_step(Batch const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    ++ran;
    auto [all, next] = lstm->forward(slice.data, hidden);
    auto value = F::mse_loss(all, slice.target);
    ctx.log(loss, value);
    return {value, next};
  }
};

}  // namespace

TEST_CASE("slices of batches whose first dimension is time, or that state their size, log with the batch's weight") {
  auto generator = numbers();
  std::vector<Steps> steps;
  std::vector<CountedSteps> counted;
  for (int i = 0; i != 12; ++i) {
    int const samples = i == 11 ? 2 : 3;  // another kind of step: those before it are checked by one more
    steps.push_back({torch::randn({8, samples, 2}, generator), torch::randn({8, samples, 4}, generator)});
    counted.push_back({steps.back().data, steps.back().target, torch::tensor(i % 3 == 0 ? 1L : 3L)});
  }
  CHECK(replayed<TimeFirst<Steps>>(steps, Automatic{.tbptt = 2}) > 100);
  CHECK(replayed<TimeFirst<CountedSteps>>(counted, Automatic{.tbptt = 2}) > 100);
}

namespace {

enum class Side : std::uint8_t { left, right };
/// A batch that says more than its tensors do.
struct Told {
  torch::Tensor data, target;
  double weight = 1;
  Side side = Side::left;
  std::string name = {};
  std::vector<long> lengths = {};
};
struct Tells : Common {
  torch::Tensor training_step(Told const& batch, auto& ctx) {
    ++ran;
    auto x = batch.data * (batch.side == Side::left ? 1.0 : -1.0);
    if (batch.name == "half") x = x / 2;
    for (long const n : batch.lengths) x = x + 0.01 * static_cast<double>(n);
    auto value = F::cross_entropy(scores(x), batch.target) * batch.weight;
    ctx.log(loss, value);
    return value;
  }
};
std::vector<Told> told(int n) {
  auto generator = numbers();
  std::vector<Told> all;
  for (int i = 0; i != n; ++i)
    all.push_back({torch::randn({8, 6}, generator), torch::randint(0, 3, {8}, generator, torch::kLong)});
  return all;
}

}  // namespace

TEST_CASE("captured fit whose batches hold numbers and texts: another number is another kind of step") {
  CHECK(replayed<Tells>(told(20)) > 120);
  auto two = told(20);
  for (std::size_t i = 0; i < two.size(); i += 2) two[i].weight = 0.5;
  CHECK(replayed<Tells>(two) > 100);
  auto three = told(20);
  for (std::size_t i = 0; i < three.size(); i += 2) three[i].side = Side::right;
  for (std::size_t i = 5; i < 9; ++i) three[i].name = "half";
  auto const left = twice<Tells>(three);
  CHECK(left.report.reasons.empty());
  CHECK(left.report.tapes.size() == 4);
  auto lists = told(20);
  for (std::size_t i = 10; i != 20; ++i) lists[i].lengths = {1, 2};
  for (std::size_t i = 15; i != 20; ++i) lists[i].lengths = {2, 1};
  CHECK(twice<Tells>(lists).report.tapes.size() == 3);
  resumes<Tells>(two, Automatic{}, {30, 65});
}
TEST_CASE("a number of the batch that differs at each step: steps stay as they are written, and the warning says how "
          "to change that") {
  auto all = told(20);
  for (std::size_t i = 0; i != all.size(); ++i) all[i].weight = 1 + 0.01 * static_cast<double>(i);
  auto const left = twice<Tells>(all);
  CHECK(left.report.replayed == 0);
  REQUIRE(left.report.reasons.size() == 1);
  INFO(left.report.reasons.front());
  CHECK(left.report.reasons.front().find("put it into a tensor") != std::string::npos);
}

namespace {

/// Returns more than tensors, or nothing.
struct Answers : Common {
  struct Output {
    torch::Tensor loss;
    long rows;
    std::string what;
  };
  static inline bool counts = false;
  static inline long half_from = -1;
  std::vector<long> rows = {};
  Output training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto value = F::cross_entropy(scores(batch.data), batch.target);
    ctx.log(loss, value);
    return {value, batch.data.size(0) + (counts ? ran : half_from >= 0 && now > half_from ? 100 : 0), "rows"};
  }
  long now = 0;
  void on_train_batch_start(auto&, auto&) { ++now; }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    CHECK(outputs.what == "rows");
    rows.push_back(outputs.rows);
  }
  void on_train_end(auto& ctx) {
    Common::on_train_end(ctx);
    left.push_back(torch::tensor(rows));
  }
  void state(auto& archive) {
    archive("now", now)("ran", ran);
    rows.resize(static_cast<std::size_t>(now));
  }
};
struct Absent : Common {
  std::optional<torch::Tensor> training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    if (batch.data.size(0) < 8) return std::nullopt;
    auto value = F::cross_entropy(scores(batch.data), batch.target);
    ctx.log(loss, value);
    return value;
  }
};
constexpr long many = 700;  ///< rows of a batch that replays read where it is
std::vector<data::Batch> batches(int n, long most = 8) {
  auto generator = numbers();
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) {
    long const rows = i % 3 == 2 ? 5 : most;
    all.push_back({torch::randn({rows, 6}, generator), torch::randint(0, 3, {rows}, generator, torch::kLong)});
  }
  return all;
}

}  // namespace

TEST_CASE("captured fit whose step returns numbers and texts beside its loss: hooks receive those of the plain fit") {
  CHECK(replayed<Answers>(batches(20)) > 100);
}
TEST_CASE("a number that training_step returns and that changes: no replay, or the fit goes back") {
  Answers::counts = true;
  auto const counting = twice<Answers>(batches(20));
  Answers::counts = false;
  CHECK(counting.report.replayed == 0);
  REQUIRE(counting.report.reasons.size() == 1);
  CHECK(counting.report.reasons.front().find("returns a number") != std::string::npos);
  Answers::half_from = 70;
  auto const late = twice<Answers>(batches(20));
  Answers::half_from = -1;
  CHECK(late.report.replayed > 10);
}
TEST_CASE("captured fit whose step returns nothing for some batches") {
  CHECK(replayed<Absent>(batches(20)) > 100);
  CHECK(replayed<Absent>(batches(20), Automatic{.accumulate_grad_batches = 2}) > 60);
}

namespace {

/// It returns a part of a tensor, and a tensor whose elements share memory; a hook sees how the part lies in memory,
/// and keeps some.
struct ReturnsPart : Common {
  struct Output {
    torch::Tensor loss, part, wide;
  };
  std::vector<torch::Tensor> kept = {};
  Output training_step(data::Batch const& batch) {
    ++ran;
    auto const hidden = layer->forward(batch.data);
    auto const value = F::cross_entropy(head->forward(hidden), batch.target);
    return {value, hidden.slice(1, 3, 7), value.detach().expand({3})};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    torch::Tensor const& part = outputs.part;
    auto const at = reinterpret_cast<std::uintptr_t>(part.const_data_ptr()) % 64;
    left.push_back(torch::tensor({part.stride(0), part.stride(1), static_cast<long>(at)}));
    left.push_back(torch::cat({part.detach().flatten(), outputs.wide}));
    if (left.size() % 6 == 0) kept.push_back(part.detach());
  }
};

/// Two networks, two optimizers, one step of both. `Way` says how the generator is stepped.
enum class Way : std::uint8_t { minimize, by_hand, closure, clipped };
struct Gan : fixtures::Adversaries {
  static inline Way way = Way::minimize;
  auto configure_optimizers() {
    return optimizers(optim::Adam(g->parameters(), {.lr = 0.01}), optim::SGD(d->parameters(), {.lr = 0.1}));
  }
  void training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto& [opt_g, opt_d] = ctx.optimizers();
    auto const fake = g->forward(torch::randn({batch.data.size(0), 4}));
    auto const dl = (judged(batch.data, 0.9) + judged(fake.detach(), 0.0)) * factor;
    ctx.minimize(opt_d, dl);
    ctx.log(d_loss, dl);
    auto const gl = judged(fake, 1.0);
    if (way == Way::minimize) {
      ctx.minimize(opt_g, gl);
    } else if (way == Way::by_hand) {
      auto const only_g = ctx.toggle(opt_g);
      opt_g.zero_grad();
      ctx.backward(gl);
      ctx.backward(judged(g->forward(torch::randn({3, 4})), 1.0));
      ctx.step(opt_g);
    } else if (way == Way::closure) {
      ctx.step(opt_g, [&] {
        opt_g.zero_grad();
        ctx.backward(gl);
        return gl;
      });
    } else {
      opt_g.zero_grad();
      ctx.backward(gl);
      ctx.clip_gradients(opt_g, ClipNorm{0.01});
      ctx.step(opt_g);
    }
    ctx.log(g_loss, gl);
  }
  /// Draws, reads its context and counts: a replay calls it before each update.
  void on_before_optimizer_step(auto& optimizer, auto& ctx) {
    ++updates;
    if (ctx.global_step() % 3 == 0)
      for (auto const& parameter : optimizer.parameters())
        if (parameter.grad().defined()) parameter.grad().add_(torch::randn(1), 0.01);
  }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& parameter : optimizer.parameters())
        for (auto const& [name, tensor] : optimizer.state(parameter).tensors) left.push_back(tensor.clone());
    });
    left.push_back(torch::tensor({updates, ctx.global_step(), ctx.skipped_steps()}));
    left.push_back(at::detail::getDefaultCPUGenerator().get_state());
  }
};

}  // namespace

TEST_CASE("what a captured step returns lies in memory as in the step as it is written: strides, offset in a line") {
  CHECK(replayed<ReturnsPart>(batches(20)) > 100);
}

TEST_CASE("captured fit by hand: both networks' weights, moments, buffers, hooks, rows and random numbers are those of "
          "the plain fit") {
  for (auto const way : {Way::by_hand, Way::closure, Way::clipped, Way::minimize}) {
    Gan::way = way;
    CHECK(replayed<Gan>(batches(20), Manual{}) > 100);
  }
  CHECK(replayed<Gan>(batches(20, many), Manual{}) > 100);
}
TEST_CASE("captured fit by hand, stopped between batches and resumed") {
  resumes<Gan>(batches(20), Manual{}, {20, 130, 132});
}
TEST_CASE("captured fit by hand goes back from replays that were wrong") {
  for (long const at : {45L, 71L}) {
    Gan::changes_at = at;
    auto const left = twice<Gan>(batches(20), Manual{});
    CHECK(left.report.replayed > 10);
    CHECK_FALSE(left.report.reasons.empty());
  }
  Gan::changes_at = -1;
}

namespace {

/// One optimizer, driven by hand, and what else a step does.
struct ByHand : Common {
  enum class Asks { nothing, reads_rate, sets_rate, counts_steps, waits_for_step };
  static inline Asks asks = Asks::nothing;
  void training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto& [optimizer] = ctx.optimizers();
    auto value = F::cross_entropy(scores(batch.data), batch.target), asked = value;
    if (asks == Asks::reads_rate) asked = value * optimizer.lr();
    if (asks == Asks::sets_rate) optimizer.set_lr(0, 0.02);
    if (asks == Asks::counts_steps) asked = value / double(ctx.global_step() + 1);
    if (asks == Asks::waits_for_step && ctx.global_step() > 1000) asked = value / 2;
    ctx.minimize(optimizer, asked);
    ctx.log(loss, value);
  }
};

/// A hook in the middle of a step, whose row a replay would write twice.
struct HookLogs : ByHand {
  void on_before_optimizer_step(auto&, auto& ctx) { ctx.log(loss, parameters()[0].grad().abs().max()); }
};

/// A number from 1e30 on makes a gradient infinite, and no loss.
struct ClipsValue : Common {
  static inline long breaks_at = -1;
  torch::Tensor none = register_parameter("none", torch::zeros({}));
  long now = 0;
  void on_train_batch_start(auto& batch, auto&) {
    if (now++ == breaks_at) batch.data.select(1, 0).fill_(3e38);
  }
  void training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    auto const value = F::cross_entropy(scores(batch.data), batch.target);
    ctx.backward(value + (none * (batch.data - 1e30).relu()).sum());
    ctx.clip_gradients(optimizer, ClipValue{0.1});
    ctx.step(optimizer);
    ctx.log(loss, value);
  }
};

/// A fit whose 75th batch breaks it, and what it throws.
template <class M>
std::pair<Left, std::string> broken(auto strategy, NonFinite how, long rows) {
  auto const data = batches(20, rows);  // a hook writes into it
  torch::manual_seed(3);
  M model;
  torch::manual_seed(5);
  M::breaks_at = 75;
  std::string error;
  auto trainer = make_trainer<M>({.max_epochs = 5, .log_every_n_steps = 1, .non_finite = how}, strategy, Float32{},
                                 Manual{}, Rows{}, NoDefaults{});
  try {
    trainer.fit(model, data, NoValidation{}, std::nullopt);
  } catch (Error const& thrown) { error = thrown.what(); }
  M::breaks_at = -1;
  Left all{model.left, {}, {}, model.ran, 0, trainer.warnings()};
  for (auto const& p : model.parameters()) all.tensors.push_back(p.detach().clone());
  return std::pair(all, error);
}
template <class M>
void finds_what_is_not_finite(long rows, NonFinite how) {
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const plain = broken<M>(SingleDevice{cpu}, how, rows), captured = broken<M>(strategy, how, rows);
  CHECK(report->replayed > 20);
  CHECK(captured.second == plain.second);
  CHECK(plain.second.empty() == (how == NonFinite::skip));
  same(captured.first, plain.first);
}

template <class M = ByHand>
void stays_eager(std::string const& word, ByHand::Asks asks = ByHand::Asks::nothing, long rows = 8) {
  ByHand::asks = asks;
  auto const left = twice<M>(batches(20, rows), Manual{});
  CHECK(left.report.replayed == 0);
  REQUIRE_FALSE(left.report.reasons.empty());
  INFO(left.report.reasons.front());
  CHECK(left.report.reasons.front().find(word) != std::string::npos);
  ByHand::asks = ByHand::Asks::nothing;
}

}  // namespace

TEST_CASE("by hand, what a step reads of an optimizer or sets in it cannot be replayed, and the warning names it") {
  using Asks = ByHand::Asks;
  CHECK(replayed<ByHand>(batches(20), Manual{}) > 100);
  stays_eager("ctx.optimizers().lr()", Asks::reads_rate);
  stays_eager("ctx.optimizers().set_lr()", Asks::sets_rate);
  stays_eager("ctx.global_step()", Asks::counts_steps);
  stays_eager("ctx.global_step()", Asks::waits_for_step, 5);  // all batches have 5 rows
  stays_eager<HookLogs>("a hook of an optimizer's step logs");
}
TEST_CASE("by hand, a replay finds a loss that is not finite where the step finds it: it stops there, or leaves the "
          "update out") {
  Gan::way = Way::closure;
  for (long const rows : {8L, many})
    for (auto const how : {NonFinite::stop, NonFinite::skip}) finds_what_is_not_finite<Gan>(rows, how);
  Gan::way = Way::minimize;
}
TEST_CASE("by hand, a replay finds a gradient that is not finite before it is clipped by value, as the step does") {
  for (auto const how : {NonFinite::stop, NonFinite::skip}) finds_what_is_not_finite<ClipsValue>(8, how);
}
