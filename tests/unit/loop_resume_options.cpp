// A program that resumes with other numbers than those of its file: options are the program's, state is the file's, and
// a rate is computed from both.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/model_pruning.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/schedule/schedule.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace resume_options {

/// Sgd whose momentum a schedule may move.
struct Momentum : toy::Sgd {
  double kept = 0;
  std::optional<double> momentum(std::size_t) const { return kept; }
  void set_momentum(std::size_t, double to) { kept = to; }
  void state(auto& archive) { archive("rate", rate)("rates", rates)("kept", kept); }
};

/// Two groups; notes the rates and the momentum of each step.
template <class Make>
struct Rated {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<vl>;
  Make make;
  std::vector<double> script = {1};
  double rate = 1.0;
  double second = 0.5;
  double kept = 0.5;
  std::function<void(Momentum&, long)> by_hand = nullptr;  ///< before a step
  toy::Tensor p = toy::Tensor::parameter(0.0), q = toy::Tensor::parameter(0.0);
  std::vector<double> rates = {}, seconds = {}, momenta = {};

  toy::Tensor training_step(double, auto& ctx) {
    auto& optimizer = ctx.optimizer();
    if (by_hand) by_hand(optimizer, ctx.global_step());
    rates.push_back(optimizer.lr(0));
    seconds.push_back(optimizer.lr(1));
    momenta.push_back(*optimizer.momentum(0));
    return -p;
  }
  void validation_step(double, auto& ctx) {
    auto const at = std::min(static_cast<std::size_t>(ctx.current_epoch()), script.size() - 1);
    ctx.log(vl, script[at]);
  }
  auto configure_optimizers(auto& ctx) {
    Momentum optimizer{{{p}, rate}, kept};
    optimizer.add_group({q}, second);
    if constexpr (requires { make(std::move(optimizer), ctx); }) return make(std::move(optimizer), ctx);
    else return make(std::move(optimizer));
  }
};
template <class Make>
Rated(Make) -> Rated<Make>;

struct Said {
  std::string text{};
  int epochs = 0;
};
/// A fit of two batches an epoch, from the last file in the folder.
template <class M, class... Cs>
Said run(Folder const& folder, M& model, TrainerOptions options, Automatic how = {}, Cs... callbacks) {
  Said all;
  auto trainer = make_trainer<M>(std::move(options), SavingDevice{}, Float32{}, how,
                                 ModelCheckpoint{{.dirpath = folder.path, .save_last = true}}, std::move(callbacks)...);
  all.text = said([&] { trainer.fit(model, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  all.epochs = trainer.progress().epoch;
  return all;
}
/// The same with an average and an early stop.
template <class M>
Said run_watched(Folder const& folder, M& model, TrainerOptions options, int patience, double decay = 0.9,
                 Automatic how = {}) {
  return run(folder, model, std::move(options), how, EMAWeightAveraging{{.decay = decay}},
             EarlyStopping{M::vl, {.patience = patience}});
}
/// How often a text is in another one.
int count(std::string const& text, std::string const& what) {
  int n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}
auto const plain = [](auto optimizer) { return optimizer; };
auto cosine(long total) {
  return [total](auto optimizer) {
    return scheduled(std::move(optimizer), schedule::Cosine{total}, {.interval = Interval::epoch});
  };
}
bool close(double a, double b) { return std::abs(a - b) < 1e-12; }

/// An object of any type as told() sees it, which is compiled once.
struct Folded {
  std::function<void(StateSaver&)> save;
  std::function<void(StateLoader&)> load;
  ArchiveNode tree() const {
    ArchiveNode all;
    StateSaver saver(all);
    save(saver);
    return all;
  }
};

/// Loads what one object saves into another one that was made with other options: the names of those that are told,
/// one after the other. What the second one saves then is its own options and the state of the first.
std::string told_of(Folded const& saved, Folded const& into) {
  auto const tree = saved.tree(), before = into.tree();
  StateLoader::Problems problems;
  StateLoader::Commits commits;
  StateLoader::Differences differences;
  StateLoader loader(tree, {}, &problems, &commits, &differences);
  into.load(loader);
  for (auto const& commit : commits) commit();
  CHECK(problems.empty());
  auto const after = into.tree();
  std::string names;
  for (auto const& one : differences) {
    auto const name = one.substr(1, one.find('\'', 1) - 1);
    names += (names.empty() ? "" : " ") + name;
    auto const find = [&](ArchiveNode const& root) {
      auto const* node = &root;
      for (std::size_t from = 0; node != nullptr && from <= name.size();) {
        auto const to = std::min(name.find('.', from), name.size());
        node = node->find(name.substr(from, to - from));
        from = to + 1;
      }
      REQUIRE(node != nullptr);
      return to_text(*node);
    };
    CHECK(find(after) == find(before));
    CHECK(find(after) != find(tree));
  }
  return names;
}
template <class T>
Folded folded(T& object) {
  return {[&](StateSaver& saver) { object.state(saver); }, [&](StateLoader& loader) { object.state(loader); }};
}
template <class T>
std::string told(T& saved, T& into) {
  return told_of(folded(saved), folded(into));
}
template <class T>
std::string told(T&& saved, T&& into) {
  return told<T>(saved, into);
}

/// Three moves of one schedule, resumed by another: it tells the names, and has the rate and momentum of its own after
/// three moves.
template <class S>
std::string resumed(S const& saved, S const& program) {
  Momentum with;
  with.kept = 0.5;
  using Set = loop::OptimizerSet<toy::Backend, OptimizerList<Scheduled<Momentum, S, true>>>;
  auto const make = [&](S const& schedule) {
    return optimizers(scheduled(Momentum(with), schedule, ScheduleOptions{}));
  };
  Set first(make(saved)), then(make(program)), own(make(program));
  for (int i = 0; i != 3; ++i) std::get<0>(first.schedulers).step(), std::get<0>(own.schedulers).step();
  auto const names = told(first, then);
  auto const &here = std::get<0>(then.optimizers), &right = std::get<0>(own.optimizers);
  CHECK(here.rate == right.rate);
  CHECK(here.kept == right.kept);
  CHECK(std::get<0>(then.schedulers).moves() == 3);
  auto list = names;  // without where they stand
  for (std::string const where = "schedulers.0.schedule."; list.find(where) != list.npos;)
    list.erase(list.find(where), where.size());
  return list;
}

struct Backboned {
  long size = 4;
  double lr = 1;
};

}  // namespace resume_options
using namespace resume_options;

TEST_CASE("resumed: a schedule with another constant gives the rate of this move at once, to each group") {
  Folder const folder;
  Rated first{cosine(4)};
  run(folder, first, quick(4));
  Rated then{cosine(8)};
  auto const said = run(folder, then, quick(8));
  REQUIRE(then.rates.size() == 8);
  for (std::size_t i = 0; i != 8; ++i) {
    double const factor = schedule::Cosine{8}(4 + static_cast<long>(i) / 2);
    CHECK(then.rates[i] == factor);
    CHECK(then.seconds[i] == 0.5 * factor);
  }
  CHECK(close(then.rates[0], 0.5));
  CHECK(count(said.text, "[fulgurite.resume.options]") == 1);
  CHECK(said.text.find("schedule.total' is 4 in the file and 8 in the program") != said.text.npos);
}

TEST_CASE("resumed: a schedule of ctx.estimated_steps() follows a max_epochs that was raised, from the first step on") {
  auto const make = [](auto optimizer, auto& ctx) {
    return scheduled(std::move(optimizer), schedule::Cosine{*ctx.estimated_steps()});
  };
  Folder const folder;
  Rated first{make};
  run(folder, first, quick(4));
  Rated then{make};
  run(folder, then, quick(8));
  REQUIRE(then.rates.size() == 8);
  for (std::size_t i = 0; i != 8; ++i) CHECK(then.rates[i] == schedule::Cosine{16}(8 + static_cast<long>(i)));
}

TEST_CASE("resumed: a learning rate that the program has changed is its own, with and without a schedule, in a product "
          "and inside an epoch") {
  for (bool const inside : {false, true}) {
    CAPTURE(inside);
    auto options = quick(2);
    if (inside) options.max_steps = 3;
    auto const other = [&](auto make, double given) {
      Folder const folder;
      Rated first{make};
      run(folder, first, options);
      Rated then{make};
      then.rate = given;
      auto const said = run(folder, then, quick(3));
      CHECK((count(said.text, "[fulgurite.resume.options]") == 1) == (given != 1));
      if (given != 1) CHECK(said.text.find("lr' is 1.0 in the file and 0.25 in the program") != said.text.npos);
      return std::pair(then.rates, then.seconds);
    };
    std::size_t const steps = inside ? 3 : 2;
    CHECK(other(plain, 0.25).first == std::vector<double>(steps, 0.25));
    CHECK(other(plain, 0.25).second == std::vector<double>(steps, 0.5));
    auto const product = [](auto optimizer) {
      return scheduled(scheduled(std::move(optimizer), schedule::Exponential{0.5}),
                       schedule::ReduceOnPlateau{Rated<int>::vl, {.factor = 0.5, .patience = 0}});
    };
    auto const same = other(product, 1), changed = other(product, 0.25);
    REQUIRE(same.first.size() == steps);
    for (std::size_t i = 0; i != steps; ++i) CHECK(changed.first[i] == same.first[i] * 0.25);
    CHECK(changed.second == same.second);
  }
}

TEST_CASE("resumed: a momentum that a schedule moves is that of the program's constants; one that none moves is the "
          "program's") {
  auto const cyclic = [](double most) {
    return [=](auto optimizer) {
      return scheduled(std::move(optimizer), schedule::Cyclic{.peak = 2, .step_size_up = 4, .max_momentum = most});
    };
  };
  Folder const folder;
  Rated first{cyclic(0.9)};
  run(folder, first, quick(1));
  Rated then{cyclic(0.95)};
  run(folder, then, quick(2));
  REQUIRE(then.momenta.size() == 2);
  for (std::size_t i = 0; i != 2; ++i)
    CHECK(then.momenta[i] ==
          *schedule::Cyclic{.peak = 2, .step_size_up = 4, .max_momentum = 0.95}.momentum(2 + static_cast<long>(i)));
  Folder const other;
  Rated without{plain};
  run(other, without, quick(1));
  Rated changed{plain};
  changed.kept = 0.75;
  auto const said = run(other, changed, quick(2));
  CHECK(changed.momenta == std::vector<double>(2, 0.75));
  CHECK(said.text.find("momentum' is 0.5 in the file and 0.75 in the program") != said.text.npos);
}

TEST_CASE("resumed: rates and momenta that were set by hand stay where the program gives the same numbers, which is no "
          "news") {
  auto const by_hand = [](Momentum& optimizer, long step) {
    if (step == 1) optimizer.set_lr(0, 0.125), optimizer.set_lr(1, 0.375), optimizer.set_momentum(0, 0.25);
  };
  auto const slow = cosine(9);  // which next moves at the epoch's end
  auto const check = [&](auto make, std::size_t stays) {
    for (long const cut : {2, 3}) {
      Rated whole{make};
      whole.by_hand = by_hand;
      Folder const nowhere;
      run(nowhere, whole, quick(3));
      Folder const folder;
      Rated first{make};
      first.by_hand = by_hand;
      auto options = quick(3);
      options.max_steps = cut;
      run(folder, first, options);
      Rated then{make};
      then.by_hand = by_hand;
      auto const said = run(folder, then, quick(3));
      auto const rest = [&](std::vector<double> all) {
        all.erase(all.begin(), all.begin() + cut);
        return all;
      };
      CHECK(then.rates == rest(whole.rates));
      CHECK(then.seconds == rest(whole.seconds));
      CHECK(then.momenta == rest(whole.momenta));
      CHECK(said.text.find("[fulgurite.resume.options]") == said.text.npos);
      CHECK(whole.rates[stays] == 0.125);
    }
  };
  check(plain, 5);
  check(slow, 1);
}

TEST_CASE("resumed: EarlyStopping has the program's patience and the file's count, also where the run had ended") {
  std::vector<double> const script = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  auto const start = [&](Folder const& folder, int patience) {
    Rated model{cosine(16)};
    model.script = script;
    return run_watched(folder, model, quick(16), patience);
  };
  Folder const folder;
  CHECK(start(folder, 3).epochs == 4);
  auto const longer = start(folder, 10);
  CHECK(longer.epochs == 11);
  CHECK(longer.text.find("patience' is 3 in the file and 10 in the program") != longer.text.npos);
  CHECK(count(longer.text, "[fulgurite.resume.options]") == 1);
  auto const again = start(folder, 10);
  CHECK(again.epochs == 11);
  CHECK(again.text.find("[fulgurite.resume.finished]") != again.text.npos);
  CHECK(again.text.find("[fulgurite.resume.options]") == again.text.npos);
}

TEST_CASE("resumed: one warning for all options that differ, and none where none does") {
  auto const start = [&](Folder const& folder, int epochs, double decay, int patience, int total, int k) {
    Rated model{cosine(total)};
    return run_watched(folder, model, quick(epochs), patience, decay, {.accumulate_grad_batches = k}).text;
  };
  Folder const folder;
  start(folder, 1, 0.9, 5, 9, 1);
  auto const same = start(folder, 2, 0.9, 5, 9, 1);
  CHECK(same.find("[fulgurite.resume.options]") == same.npos);
  auto const other = start(folder, 3, 0.5, 6, 10, 2);
  CHECK(count(other, "[fulgurite.resume.options]") == 1);
  for (auto const* what : {"decay' is 0.9 in the file and 0.5 in the program", "patience' is 5 in the file and 6",
                           "total' is 9 in the file and 10", "accumulate_grad_batches' is 1 in the file and 2"})
    CHECK(other.find(what) != other.npos);
}

namespace resume_options {
/// Notes the steps that come before each batch, and the limit of each clipping.
struct Windowed : Scripted {
  std::vector<long> steps = {};
  std::vector<double> limits = {};
  toy::Tensor training_step(double batch, auto& ctx) {
    steps.push_back(ctx.global_step());
    return Scripted::training_step(batch, ctx);
  }
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) {
    limits.push_back(clip.limit);
    ctx.clip_gradients(optimizer, clip);
  }
};
}  // namespace resume_options

TEST_CASE("resumed: clipping is the program's, and another window's length holds from the next window on") {
  Folder const folder;
  Windowed model;
  auto const start = [&](Automatic how, std::optional<CkptPath> const& from = std::nullopt) {
    auto options = quick(1);
    options.val_check_interval = 3;
    auto trainer = make_trainer<Windowed>(options, SavingDevice{}, Float32{}, how,
                                          ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1}});
    model = {};
    return said([&] { trainer.fit(model, toy::batches(6), toy::batches(1), from); });
  };
  start({.accumulate_grad_batches = 2, .clip = ClipNorm{1.0}});
  CHECK(model.steps == std::vector<long>{0, 0, 1, 1, 2, 2});
  auto const text =
      start({.accumulate_grad_batches = 3, .clip = ClipValue{0.5}}, CkptPath{folder / "epoch=0-step=1.safetensors"});
  CHECK(model.steps == std::vector<long>{1, 2, 2});
  CHECK(model.limits == std::vector<double>(2, 0.5));
  CHECK(count(text, "[fulgurite.resume.options]") == 1);
  for (auto const* what : {"accumulate_grad_batches' is 2 in the file and 3",
                           "clip' is \"norm\" in the file and \"value\"", "clip limit' is 1.0 in the file and 0.5"})
    CHECK(text.find(what) != text.npos);
}

TEST_CASE("options of each callback: all that differ are told, none is loaded") {
  auto const& vl = Scripted::vl;
  CHECK(told(EarlyStopping{vl,
                           {.min_delta = 1,
                            .patience = 2,
                            .strict = false,
                            .check_finite = false,
                            .stopping_threshold = 0.5,
                            .divergence_threshold = 9.0,
                            .check_on_train_epoch_end = true}},
             EarlyStopping{vl}) ==
        "patience min_delta strict check_finite stopping_threshold divergence_threshold check_on_train_epoch_end");
  CHECK(told(EarlyStopping{vl}, EarlyStopping{vl}).empty());
  CHECK(told(Timer{Seconds{5}, {.interval = Interval::epoch}}, Timer{}) == "duration interval");
  CHECK(told(SpikeDetection{vl,
                            {.mode = Mode::max,
                             .window = 3,
                             .warmup = 2,
                             .atol = 0.5,
                             .rtol = 0.25,
                             .exclude_batches_path = "other.json",
                             .finite_only = false}},
             SpikeDetection{vl}) == "mode window warmup atol rtol exclude_batches_path finite_only");
  CHECK(told(WeightAveraging{RunningMean{}, EachStep{}, {.use_buffers = false}}, WeightAveraging{}) == "use_buffers");
  CHECK(told(EMAWeightAveraging{{.decay = 0.5,
                                 .update_every_n_steps = 2,
                                 .update_starting_at_step = 3,
                                 .update_starting_at_epoch = 4,
                                 .use_buffers = false}},
             EMAWeightAveraging{}) ==
        "use_buffers average.decay should_update.update_every_n_steps should_update.update_starting_at_step "
        "should_update.update_starting_at_epoch");
  CHECK(told(StochasticWeightAveraging<>{{.swa_lrs = 0.5}},
             StochasticWeightAveraging<>{{.swa_lrs = {0.25, 0.5},
                                          .swa_epoch_start = 3,
                                          .annealing_epochs = 2,
                                          .annealing_strategy = Annealing::linear}}) ==
        "swa_lrs swa_epoch_start annealing_epochs annealing_strategy");
  CHECK(told(BackboneFinetuning{{.unfreeze_backbone_at_epoch = 2,
                                 .backbone_initial_ratio_lr = 0.5,
                                 .backbone_initial_lr = 0.25,
                                 .should_align = false,
                                 .train_bn = false}},
             BackboneFinetuning{}) ==
        "unfreeze_backbone_at_epoch backbone_initial_ratio_lr backbone_initial_lr should_align train_bn");
  CHECK(told(ModelPruning{{.amount = 0.25,
                           .parameters = {"p"},
                           .parameter_names = {"q"},
                           .use_global_unstructured = false,
                           .make_pruning_permanent = false,
                           .use_lottery_ticket_hypothesis = false,
                           .prune_on_train_epoch_end = false}},
             ModelPruning{}) == "amount parameters parameter_names use_global_unstructured make_pruning_permanent "
                                "use_lottery_ticket_hypothesis prune_on_train_epoch_end");
  CHECK(told(GradientAccumulationScheduler{{{0, 8}, {4, 2}}}, GradientAccumulationScheduler{{{0, 4}}}) == "scheduling");
  CHECK(
      told(
          LearningRateMonitor{
              {.logging_interval = Interval::step, .log_momentum = true, .log_weight_decay = true, .key_prefix = "x"}},
          LearningRateMonitor{}) == "logging_interval log_momentum log_weight_decay key_prefix");
  CHECK(told(ModelCheckpoint{vl,
                             {.filename = "x",
                              .save_top_k = 3,
                              .save_last = true,
                              .save_on_train_epoch_end = true,
                              .save_weights_only = true,
                              .save_on_exception = true,
                              .auto_insert_metric_name = false,
                              .enable_version_counter = false,
                              .extension = ".x"}},
             ModelCheckpoint{vl}) ==
        "filename save_top_k save_last save_on_train_epoch_end save_weights_only save_on_exception "
        "auto_insert_metric_name enable_version_counter extension");
  CHECK(told(LearningRateFinder<Backboned>{{.milestones = {3}}}, LearningRateFinder<Backboned>{}) == "milestones");
  CHECK(told(BatchSizeFinder<Backboned>{{.search = {.field = &Backboned::size}, .milestones = {3}}},
             BatchSizeFinder<Backboned>{{.search = {.field = &Backboned::size}}}) == "milestones");
}

TEST_CASE("a window of SpikeDetection that has become shorter holds at once") {
  std::vector<double> const losses = {1, 1, 1, 5, 5, 5};
  SpikeDetection before{Scripted::loss, {.window = 6}}, after{Scripted::loss, {.window = 2}};
  auto text = state_text(before);
  auto const list = text.find("\"recent\":[") + 10;
  text.insert(list, "1.0,1.0,1.0,5.0,5.0,5.0");
  load_state_text(after, text);
  CHECK(after.running_mean() == 5.0);
}

TEST_CASE("constants of each schedule: all that differ are told, and the rate is that of the program's") {
  using namespace schedule;
  CHECK(resumed(Constant{0.5}, Constant{0.25}) == "factor");
  CHECK(resumed(Step{2, 0.5}, Step{3, 0.25}) == "size gamma");
  CHECK(resumed(MultiStep{{1, 2}, 0.5}, MultiStep{{1, 4}, 0.25}) == "milestones gamma");
  CHECK(resumed(Exponential{0.5}, Exponential{0.25}) == "gamma");
  CHECK(resumed(Polynomial{4, 1}, Polynomial{8, 2}) == "total power");
  CHECK(resumed(Cosine{3, 0, false}, Cosine{8, 0.1, true}) == "total least periodic");
  CHECK(resumed(Linear{0.5, 1, 4}, Linear{0.25, 0.75, 8}) == "start_factor end_factor total");
  CHECK(resumed(LinearWarmup{2, 0}, LinearWarmup{8, 0.5}) == "steps from");
  CHECK(resumed(WarmupCosine{2, 4, 0}, WarmupCosine{1, 8, 0.5}) == "warmup total least");
  CHECK(resumed(CosineRestarts{2, 1, 0}, CosineRestarts{3, 2, 0.5}) == "first growth least");
  CHECK(resumed(Cyclic{2, 2, 3, Cyclic::Shape::triangular, 1, true, 0.8, 0.9},
                Cyclic{3, 3, 2, Cyclic::Shape::exp_range, 0.5, false, 0.7, 0.95}) ==
        "peak step_size_up step_size_down shape gamma cycle_momentum base_momentum max_momentum");
  CHECK(resumed(OneCycle{4, 0.3, OneCycle::Anneal::cos, true, 0.85, 0.95, 25, 1e4, false},
                OneCycle{9, 0.4, OneCycle::Anneal::linear, true, 0.8, 0.9, 20, 1e3, true}) ==
        "total pct_start anneal base_momentum max_momentum div_factor final_div_factor three_phase");
  CHECK(resumed(then(LinearWarmup{2}, 2, Cosine{4}), then(LinearWarmup{2}, 3, Cosine{8})) == "boundary second.total");
  CHECK(resumed(Step{2} * Cosine{4}, Step{3} * Cosine{8}) == "first.size second.total");
  CHECK(resumed(rate_only(OneCycle{.total = 4}), rate_only(OneCycle{.total = 8})) == "of.total");
  ReduceOnPlateau saved{Scripted::vl, {Mode::max, 0.5, 2, 0.1, ThresholdMode::abs, 1, 0.01, 0.1, false}};
  ReduceOnPlateau usual{Scripted::vl};
  CHECK(told(saved, usual) == "mode factor patience threshold threshold_mode cooldown min_lr eps strict");
  using Set = loop::OptimizerSet<toy::Backend, OptimizerList<Scheduled<Momentum, Step, true>>>;
  Set each(optimizers(scheduled(Momentum{}, Step{2}, {.interval = Interval::step, .frequency = 2})));
  Set other(optimizers(scheduled(Momentum{}, Step{2}, {.interval = Interval::epoch})));
  CHECK(told(each, other) == "schedulers.0.interval schedulers.0.frequency");
}

TEST_CASE("options of a loader: its seed, its shuffle and its batch size are the program's, inside an epoch an Error") {
  using namespace data;
  std::vector<double> const numbers(6);
  Loader saved{numbers, {.batch_size = 2, .shuffle = true, .seed = 3}}, into{numbers, {.batch_size = 3, .seed = 4}};
  CHECK(told(saved, into) == "rows of a batch sampler.shuffle sampler.seed");
  Loader inside{numbers, {.batch_size = 2, .shuffle = true, .seed = 3}};
  auto at = inside.begin();
  ++at;
  Loader other{numbers, {.batch_size = 2, .shuffle = true, .seed = 4}};
  CHECK(toy::refusal([&] { load_state_text(other, state_text(inside)); }) == "fulgurite.data.resume");
}
