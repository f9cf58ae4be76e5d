// Manual optimization and truncated back-propagation as graphs, shown on the CPU with a graph that replays operators:
// a step becomes several graphs, between which the trainer updates.

#include "adversaries.hpp"
#include "replayed.hpp"

#include <cmath>
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

#include <unistd.h>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;
using replayed::GraphedCpu;
using replayed::Replayed;
namespace F = torch::nn::functional;

namespace {

struct Rows {
  using Stateless = ByChoice;
  std::vector<std::pair<long, std::map<std::string, double>>> rows = {};
  void log_metrics(std::span<Scalar const> row, long step) {
    auto& last = rows.emplace_back(step, std::map<std::string, double>{}).second;
    for (auto const& cell : row) last.emplace(cell.name, std::isnan(cell.value) ? -1 : cell.value);
  }
};

/// `closes`: what its step adds to the gradients is updated with.
struct Rowed {
  torch::Tensor data;
  bool first = true, closes = true;
};

/// Two networks, two optimizers, one step of both. `Way` says how the generator is stepped, or what else the step does:
/// clears_last has one backward pass for both optimizers, each of which clears after its update; adds_first
/// writes to gradients before backward adds to them; moves steps a
/// schedule, which a replay would not; other_order updates in another order from batch 65 on, and other_optimizer the
/// other network, where all that a replay computes is the same; in changes_loss the loss is finite until backward has
/// run. In hook_logs and logs_later it is a hook in the middle of the step that logs, whose row a replay would write
/// twice.
enum class Way {
  minimize,
  by_hand,
  clipped,
  windows,
  clears_last,
  adds_first,
  moves,
  other_order,
  other_optimizer,
  changes_loss,
  hook_logs,
  logs_later
};
struct Gan : fixtures::Adversaries {
  static inline Way way = Way::minimize;
  auto configure_optimizers() {
    return optimizers(
        scheduled(optim::Adam(g->parameters(), {.lr = 0.01}), schedule::Cosine{.total = 200}),
        scheduled(optim::SGD(d->parameters(), {.lr = 0.1, .momentum = 0.9}), schedule::Cosine{.total = 300}));
  }
  torch::Tensor made(long rows = 8) { return g->forward(torch::randn({rows, 4})); }
  void training_step(Rowed const& batch, auto& ctx) {
    ++ran;
    auto& [opt_g, opt_d] = ctx.optimizers();
    if (way == Way::clears_last) {
      ctx.backward(judged(made(), 1.0) + judged(batch.data, 0.9));
      ctx.step(opt_g);
      opt_g.zero_grad();
      ctx.step(opt_d);
      opt_d.zero_grad();
    } else if (way == Way::adds_first) {
      opt_d.zero_grad();
      for (auto const& parameter : opt_d.parameters()) parameter.grad().add_(0.01);
      ctx.backward(judged(batch.data, 0.9));
      ctx.step(opt_d);
    } else if (way == Way::other_order) {
      bool const turned = now > 65;
      if (!turned) ctx.minimize(opt_d, judged(batch.data, 1.0));
      ctx.minimize(opt_g, judged(made(), 1.0));
      if (turned) ctx.minimize(opt_d, judged(batch.data, 1.0));
    } else if (way == Way::other_optimizer) {
      opt_g.zero_grad();
      opt_d.zero_grad();
      ctx.backward(judged(made(), 1.0) + judged(batch.data, 0.9));
      if (now <= 65) ctx.step(opt_g);
      else ctx.step(opt_d);
    } else if (way == Way::changes_loss) {
      opt_d.zero_grad();
      auto const loss = judged(batch.data, 0.9);
      ctx.backward(loss);
      loss.detach().fill_(std::numeric_limits<float>::infinity());
      ctx.step(opt_d);
    } else {
      trains_both(batch, opt_g, opt_d, ctx);
      if (way == Way::moves) std::get<0>(ctx.lr_schedulers()).step();
    }
  }
  void trains_both(Rowed const& batch, auto& opt_g, auto& opt_d, auto& ctx) {
    auto const fake = made(batch.data.size(0));
    auto const dl = (judged(batch.data, 0.9) + judged(fake.detach(), 0.0)) * factor;
    ctx.minimize(opt_d, dl);
    ctx.log(d_loss, dl);
    auto const gl = judged(fake, 1.0);  // with the discriminator as it is now
    if (way == Way::by_hand) {
      auto const only_g = ctx.toggle(opt_g);
      opt_g.zero_grad();
      ctx.backward(gl);
      ctx.backward(judged(made(3), 1.0));
      ctx.step(opt_g);
    } else if (way == Way::clipped) {
      opt_g.zero_grad();
      ctx.backward(gl);
      ctx.clip_gradients(opt_g, ClipNorm{0.01});
      ctx.step(opt_g);
    } else if (way == Way::windows) {
      if (batch.first) opt_g.zero_grad();
      ctx.backward(gl / 2);
      if (batch.closes) ctx.step(opt_g);
    } else {
      ctx.minimize(opt_g, gl);
    }
    ctx.log(g_loss, gl);
  }
  void on_train_batch_end(auto&, auto& ctx) {
    ctx.each_scheduler([](auto& scheduler) { scheduler.step(); });
  }
  /// Draws, reads its context, waits, and counts: a replay calls it before each update.
  void on_before_optimizer_step(auto& optimizer, auto& ctx) {
    if (way == Way::hook_logs || (way == Way::logs_later && now > 65)) ctx.log(g_loss, g->parameters()[0].abs().max());
    if (way == Way::hook_logs || way == Way::logs_later || way == Way::other_optimizer) return;
    ++updates;
    if (ctx.global_step() % 3 == 0)
      for (auto const& parameter : optimizer.parameters())
        if (parameter.grad().defined() && parameter.grad().abs().max().template item<float>() >= 0)
          parameter.grad().add_(torch::randn(1), 0.01);
  }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      left.push_back(torch::tensor(optimizer.lr(0)));
      for (auto const& parameter : optimizer.parameters())
        for (auto const& [name, tensor] : optimizer.state(parameter).tensors) left.push_back(tensor.clone());
    });
    left.push_back(torch::tensor({updates, ctx.global_step(), ctx.skipped_steps()}));
    left.push_back(at::detail::getDefaultCPUGenerator().get_state());
  }
};

std::vector<Rowed> batches(int n, bool windows = false) {
  auto generator = at::detail::createCPUGenerator(11);
  std::vector<Rowed> all;
  for (int i = 0; i != n; ++i)
    all.push_back(
        {torch::randn({!windows && i % 5 == 4 ? 5 : 8, 6}, generator), !windows || i % 2 == 0, !windows || i % 2 == 1});
  return all;
}

/// Two layers receive gradients in short batches only, which begin some windows.
struct Heads : Gan {
  torch::nn::Linear of_g = register_module("of_g", torch::nn::Linear(6, 1)),
                    of_d = register_module("of_d", torch::nn::Linear(6, 1));
  auto configure_optimizers() {
    auto const all = [](auto& net, auto& layer) {
      auto parameters = net->parameters();
      for (auto const& parameter : layer->parameters()) parameters.push_back(parameter);
      return parameters;
    };
    return optimizers(optim::Adam(all(g, of_g), {.lr = 0.01}), optim::SGD(all(d, of_d), {.lr = 0.1, .momentum = 0.9}));
  }
  void training_step(Rowed const& batch, auto& ctx) {
    ++ran;
    auto& [opt_g, opt_d] = ctx.optimizers();
    bool const is_short = batch.data.size(0) == 5;
    auto const fake = g->forward(torch::randn({8, 4}));
    auto dl = judged(batch.data, 0.9);
    if (is_short) dl = dl + of_d->forward(batch.data).square().mean();
    ctx.minimize(opt_d, dl);
    auto gl = judged(fake, 1.0);
    if (is_short) gl = gl + of_g->forward(fake).square().mean();
    if (batch.first) opt_g.zero_grad();
    ctx.backward(gl / 2);
    if (batch.closes) ctx.step(opt_g);
  }
};

struct Series {
  torch::Tensor data, target;
};
/// Slices along time have gaps in memory.
std::vector<Series> series(int n, int time) {
  auto generator = at::detail::createCPUGenerator(11);
  std::vector<Series> all;
  for (int i = 0; i != n; ++i)
    all.push_back({torch::randn({4, time, 2}, generator), torch::randn({4, time, 1}, generator)});
  return all;
}
struct Recurrence : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  using Hidden = std::tuple<torch::Tensor, torch::Tensor>;
  struct Output {
    torch::Tensor loss;
    Hidden hidden;
  };
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 4).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(4, 1));
  int ran = 0;
  std::vector<torch::Tensor> left = {};
  torch::Tensor last = {};  ///< the state after a batch, as a hook receives it
  Output training_step(Series const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    ++ran;
    auto [all, next] = lstm->forward(slice.data, hidden);
    auto value = F::mse_loss(out->forward(torch::dropout(all, 0.2, true)), slice.target);
    ctx.log(loss, value);
    return {value, next};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { last = std::get<0>(outputs.hidden); }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& parameter : optimizer.parameters())
        for (auto const& [name, tensor] : optimizer.state(parameter).tensors) left.push_back(tensor.clone());
    });
    left.push_back(last);
    left.push_back(at::detail::getDefaultCPUGenerator().get_state());
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
  void state(auto& archive) { archive("ran", ran); }
};

struct Left {
  std::vector<torch::Tensor> tensors = {};  ///< weights, buffers, moments, the generator
  std::vector<std::pair<long, std::map<std::string, double>>> rows = {};
  CaptureReport report = {};
  long ran = 0;
  std::string warnings = {}, error = {};
};
/// One fit. `steps`: its end, if it ends early, after which `file` is written.
template <class M = Gan, class Batch>
Left trained(auto strategy, auto how, std::vector<Batch> data, NonFinite finite = NonFinite::stop, long steps = -1,
             std::optional<CkptPath> from = std::nullopt, std::filesystem::path const& file = {}) {
  for (auto& batch : data) batch.data = batch.data.clone();
  torch::manual_seed(3);
  M model;
  Replayed::model = &model;
  torch::manual_seed(5);
  Left all;
  std::shared_ptr<CaptureReport const> report;
  if constexpr (requires { strategy.report(); }) report = strategy.report();
  {
    auto trainer = make_trainer<M>({.max_epochs = 8, .max_steps = steps, .log_every_n_steps = 1, .non_finite = finite},
                                   strategy, Float32{}, how, Rows{}, NoDefaults{});
    try {
      trainer.fit(model, data, NoValidation{}, from);
    } catch (Error const& error) { all.error = error.what(); }
    if (!file.empty()) trainer.save_checkpoint(file);
    all.rows = trainer.template callback<Rows>().rows;
    for (auto const& warning : trainer.warnings()) all.warnings += warning + "\n";
  }
  all.tensors = model.left;
  if (report) all.report = *report;
  all.ran = model.ran;
  for (auto const& tensor : fixtures::copied_weights(model)) all.tensors.push_back(tensor);
  for (auto const& buffer : model.buffers()) all.tensors.push_back(buffer.clone());
  return all;
}
void same(Left const& a, Left const& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i != a.tensors.size(); ++i) CHECK(fixtures::same_bits(a.tensors[i], b.tensors[i]));
  CHECK(a.rows == b.rows);
  CHECK(a.error == b.error);
}
/// Both fits, with the same bits; what the one with graphs left.
template <class M = Gan, class Batch>
Left twice(std::vector<Batch> const& data, auto how, NonFinite finite = NonFinite::stop) {
  auto const plain = trained<M>(SingleDevice{cpu}, how, data, finite);
  auto graphed = trained<M>(GraphedCpu{SingleDevice{cpu}}, how, data, finite);
  INFO(graphed.warnings);
  same(graphed, plain);
  CHECK(Replayed::alive == 0);
  return graphed;
}
/// The same, without a reason to run steps as they are written.
template <class M = Gan, class Batch>
CaptureReport replayed_as_written(std::vector<Batch> const& data, auto how) {
  auto const left = twice<M>(data, how);
  CHECK(left.warnings.empty());
  CHECK(left.report.unproven == 0);
  CHECK(left.report.checked >= 3 * left.report.recorded);
  CHECK(left.report.replayed > 80);
  return left.report;
}
/// While it lives, this is the way.
using By = replayed::capture::SetFor<Way>;

template <class M = Gan, class Batch>
void resumes(std::vector<Batch> const& data, auto how, std::initializer_list<long> steps) {
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite_graph_manual_" + std::to_string(getpid()));
  auto const plain = trained<M>(SingleDevice{cpu}, how, data);
  for (long const at : steps) {
    INFO("stopped after " << at << " steps");
    auto const graphs = [] { return GraphedCpu{SingleDevice{cpu}}; };
    trained<M>(graphs(), how, data, NonFinite::stop, at, std::nullopt, folder / "cut");
    auto rest = trained<M>(graphs(), how, data, NonFinite::stop, -1, CkptPath{folder / "cut"});
    CHECK(rest.report.replayed > 10);
    rest.rows = plain.rows;  // it has logged the rest of them
    same(rest, plain);
    std::filesystem::remove_all(folder);
  }
}

}  // namespace

TEST_CASE("graphs by hand: both networks' weights, moments, buffers, hooks, rows and random numbers are those of the "
          "plain fit") {
  Replayed::cuts = 0;
  CHECK(replayed_as_written(batches(20), Manual{}).recorded == 2);
  CHECK(Replayed::cuts == 2 * 2);  // two shapes of batches, two updates in each step
  for (auto const way : {Way::by_hand, Way::clipped}) {
    By const by(Gan::way, way);
    replayed_as_written(batches(20), Manual{});
  }
}
TEST_CASE("graphs by hand: a gradient of two batches is updated with in the second") {
  Replayed::cuts = 0;
  By const by(Gan::way, Way::windows);
  CHECK(replayed_as_written(batches(20, true), Manual{}).recorded == 2);
  CHECK(Replayed::cuts == 1 + 2);
}
TEST_CASE("graphs by hand: an update is of the parameters that have received gradients since they were cleared") {
  auto data = batches(20, true);
  for (std::size_t i = 4; i < data.size(); i += 6) data[i].data = data[i].data.narrow(0, 0, 5).clone();
  CHECK(replayed_as_written<Heads>(data, Manual{}).recorded == 3);
}
TEST_CASE(
    "graphs by hand: with kernels::fastest the first gradient after zero_grad() overwrites, and the next is added") {
  auto const fastest = [&]<class M = Gan>(Way way, auto const& data, std::type_identity<M> = {}) {
    By const by(Gan::way, way);
    Replayed::overwrites = 0;
    auto const graphed = trained<M>(GraphedCpu::overwriting(), Manual{}, data);
    CHECK((Replayed::overwrites > 0) == (way == Way::minimize || way == Way::windows));
    CHECK(graphed.warnings.empty());
    CHECK(graphed.report.replayed > 80);
    same(graphed, trained<M>(SingleDevice{cpu}, Manual{}, data));
  };
  fastest(Way::minimize, batches(20));
  fastest(Way::windows, batches(20, true));
  auto data = batches(20, true);
  for (std::size_t i = 4; i < data.size(); i += 6) data[i].data = data[i].data.narrow(0, 0, 5).clone();
  fastest(Way::minimize, data, std::type_identity<Heads>());
  fastest(Way::clears_last, batches(20));
  fastest(Way::adds_first, batches(20));  // what is written meanwhile is kept
}
TEST_CASE("graphs by hand, stopped between batches and resumed") {
  resumes(batches(20), Manual{}, {20, 130, 132});
  By const by(Gan::way, Way::windows);
  resumes(batches(20, true), Manual{}, {90});
}
TEST_CASE("graphs by hand: the fit goes back from replays that were wrong") {
  for (long const at : {45L, 71L}) {
    Gan::changes_at = at;
    auto const left = twice(batches(20), Manual{});
    CHECK(left.report.replayed > 10);
    CHECK_FALSE(left.report.reasons.empty());
  }
  Gan::changes_at = -1;
}
TEST_CASE("graphs by hand: a loss that is not finite stops the fit, or leaves the update out") {
  for (auto const how : {NonFinite::stop, NonFinite::skip}) {
    Gan::breaks_at = 75;
    auto const left = twice(batches(20), Manual{}, how);
    CHECK(left.report.replayed > 20);
    CHECK(left.error.empty() == (how == NonFinite::skip));
  }
  Gan::breaks_at = -1;
}

TEST_CASE(
    "graphs by hand: a step that updates with another optimizer is found, where all bits before it are the same") {
  By const by(Gan::way, Way::other_optimizer);
  auto const other = twice(batches(20), Manual{});
  CHECK(other.report.replayed > 20);
  CHECK(other.warnings.find("[fulgurite.capture.gone_back]") != std::string::npos);
  CHECK(other.warnings.find("it updates in another order") != std::string::npos);
}
TEST_CASE("graphs by hand: a hook that begins to log is found by name") {
  By const by(Gan::way, Way::logs_later);
  auto const later = twice(batches(20), Manual{});
  CHECK(later.report.replayed > 20);
  CHECK(later.warnings.find("a hook of an optimizer's step logs") != std::string::npos);
}
TEST_CASE(
    "graphs by hand: a loss that is changed in place after backward is refused, since it would be read too late") {
  By const by(Gan::way, Way::changes_loss);
  auto const left = twice(batches(20), Manual{});
  CHECK(left.report.replayed == 0);
  CHECK(left.warnings.find("a loss is changed in place after ctx.backward(loss)") != std::string::npos);
}
TEST_CASE("graphs by hand: a hook of an update that logs is refused by name, and another order of updates is found") {
  By const by(Gan::way, Way::hook_logs);
  auto const logs = twice(batches(20), Manual{});
  CHECK(logs.report.replayed == 0);
  CHECK(logs.warnings.find("a hook of an optimizer's step logs") != std::string::npos);
  Gan::way = Way::other_order;
  auto const order = twice(batches(20), Manual{});
  CHECK(order.report.replayed > 20);
  CHECK(order.warnings.find("[fulgurite.capture.gone_back]") != std::string::npos);
}
TEST_CASE("by hand, a step that moves a schedule stays as it is written, on a tape and in graphs: a replay would leave "
          "it out") {
  By const by(Gan::way, Way::moves);
  auto const plain = trained(SingleDevice{cpu}, Manual{}, batches(20));
  auto const stays = [&](Left const& captured) {
    same(captured, plain);
    CHECK(captured.report.replayed == 0);
    CHECK(captured.warnings.find("ctx.lr_schedulers(), which a replay would leave out") != std::string::npos);
  };
  stays(trained(GraphedCpu{SingleDevice{cpu}}, Manual{}, batches(20)));
  stays(trained(Captured{SingleDevice{cpu}}, Manual{}, batches(20)));
}
TEST_CASE("graphs of slices: the state that one slice hands to the next has the bits of the plain fit") {
  replayed_as_written<Recurrence>(series(7, 8), Automatic{.tbptt = 2});
  replayed_as_written<Recurrence>(series(7, 7), Automatic{.tbptt = 2});
  resumes<Recurrence>(series(7, 8), Automatic{.tbptt = 2}, {60, 96});
}
