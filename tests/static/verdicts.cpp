// The verdict on whole trainers and calls: well-formed ones pass, and of two mistakes the more general one is named.
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

namespace {

struct Everything : toy::P {
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  void validation_step(double, auto&) {}
  int test_step(double) { return 0; }
  double predict_step(double batch) { return batch; }
  void on_train_start() {}
  Flow on_train_batch_start(auto&, auto&) { return Flow::proceed; }
  void on_train_batch_end(auto&, auto&, auto&) {}
  Stop on_validation_end() { return Stop{false}; }
  void on_exception(std::exception const&, auto&) {}
  void optimizer_step(auto& optimizer, auto closure) { optimizer.step(closure); }
  void configure_gradient_clipping(auto&, Clip, auto&) {}
  double on_after_batch_transfer(double batch) { return batch; }
};
struct ByHand : toy::P {
  void training_step(double, auto&) {}
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}, toy::Repeating{{{p}}}); }
};
struct Lines {
  void log_metrics(std::span<Scalar const>, long) {}
};
struct Rates {
  static constexpr bool needs_logger = true;
  void on_train_batch_start(auto&) {}
};
using Stopping = decltype(EarlyStopping{Everything::val_loss});
using Saving = decltype(ModelCheckpoint{Everything::val_loss, {.dirpath = "runs"}});
struct Watcher {
  void on_train_epoch_end(auto&) {}
};

/// Which hook a verdict is about, and what is wrong with it.
template <class V>
constexpr HookVerdict botched(V) {
  return V::Whom::hook;
}
/// It refuses this participant.
template <class T, class Rules, class Subject>
constexpr bool refuses(judge::Broken<Rules, judge::Refused<Subject>>) {
  return std::is_same_v<T, Subject>;
}
template <class T, class Rules, HookVerdict Hook, class Subject>
constexpr bool refuses(judge::Broken<Rules, judge::Botched<Hook, Subject>>) {
  return std::is_same_v<T, Subject>;
}

template <class M, class... Cs>
constexpr auto on_toy = judge::trainer<M, toy::Device, Float32, Automatic, Cs...>();
template <class M, class... Cs>
constexpr auto by_hand = judge::trainer<M, toy::Device, Float32, Manual, Cs...>();

}  // namespace

TEST_CASE("well-formed trainers pass", "[verdict]") {
  STATIC_REQUIRE(on_toy<toy::P>.ok);
  STATIC_REQUIRE(on_toy<toy::P, Watcher>.ok);
  STATIC_REQUIRE(on_toy<Everything, Watcher, Lines, Rates, ProgressBar>.ok);
  STATIC_REQUIRE(on_toy<Everything, Stopping, Saving>.ok);
  STATIC_REQUIRE(by_hand<ByHand>.ok);
  STATIC_REQUIRE(by_hand<ByHand, Watcher>.ok);
}

namespace {
using Loader = std::vector<double>;
template <class M, class Source, bool Waived = false, class... Cs>
constexpr auto fitting = judge::VerdictOnCall<
    judge::Training<judge::Fine, Run<M, toy::Device, Float32, Automatic>, Source, Waived, Cs...>>::judge();
template <class M, class Kind, class Source>
constexpr auto evaluating =
    judge::VerdictOnCall<judge::Request<judge::Fine, Run<M, toy::Device, Float32, Automatic>, Kind, Source>>::judge();

struct Data {
  Loader train_dataloader() { return {}; }
  std::tuple<Loader, Loader> val_dataloader() { return {}; }
};
}  // namespace

TEST_CASE("well-formed calls pass", "[verdict]") {
  STATIC_REQUIRE(fitting<toy::P, loop::GivenLoaders<Loader, NoModule>>.ok);
  STATIC_REQUIRE(fitting<Everything, loop::GivenLoaders<Loader, Loader>, false, Watcher>.ok);
  STATIC_REQUIRE(fitting<Everything, loop::GivenLoaders<Loader, NoValidation>, true>.ok);
  STATIC_REQUIRE(fitting<Everything, loop::ModuleLoaders<Data, true>>.ok);
  STATIC_REQUIRE(fitting<toy::P, loop::ModuleLoaders<Data, false>, true>.ok);
  STATIC_REQUIRE(evaluating<Everything, loop::Testing, loop::GivenLoaders<NoModule, toy::Unsized>>.ok);
  STATIC_REQUIRE(evaluating<Everything, loop::Prediction, loop::GivenLoaders<NoModule, std::tuple<Loader, Loader>>>.ok);
}

TEST_CASE("every step has its loader and the reverse (W44)", "[verdict]") {
  STATIC_REQUIRE(fitting<Everything, loop::GivenLoaders<Loader, NoModule>>.id() == "fulgurite.data.unused_validation");
  STATIC_REQUIRE(fitting<toy::P, loop::ModuleLoaders<Data, true>>.id() == "fulgurite.data.unused_loader");
  STATIC_REQUIRE(botched(evaluating<Everything, loop::Testing, loop::ModuleLoaders<Data, true>>).fault ==
                 HookFault::no_loader);
  STATIC_REQUIRE(botched(evaluating<toy::P, loop::Testing, loop::GivenLoaders<NoModule, Loader>>).fault ==
                 HookFault::missing_step);
}

namespace {
struct Bare {};
struct Wrong {
  void on_train_start(int) {}
};
struct WrongAndMisspelt : Wrong {
  void on_epoch_end() {}
};
struct NoBackend {};
}  // namespace

TEST_CASE("of two mistakes the more general one is named, and only it", "[verdict]") {
  STATIC_REQUIRE(judge::trainer<int, NoBackend, int, int, int>().id() == "fulgurite.policy.strategy");
  STATIC_REQUIRE(judge::trainer<int, toy::Device, int, int, int>().id() == "fulgurite.policy.precision");
  STATIC_REQUIRE(judge::trainer<int, toy::Device, Fp16Mixed, Automatic, int>().id() ==
                 "fulgurite.policy.fp16_needs_gpu");
  STATIC_REQUIRE(judge::trainer<int, toy::Device, Float32, Automatic, int>().id() == "fulgurite.model.class");
  STATIC_REQUIRE(on_toy<Bare, Bare>.id() == "fulgurite.model.training_step");
  STATIC_REQUIRE(on_toy<toy::P, Watcher, Bare, Watcher>.id() == "fulgurite.callback.twice");
  STATIC_REQUIRE(on_toy<toy::P, Bare, Wrong>.id() == "fulgurite.callback.inert");
  STATIC_REQUIRE(botched(on_toy<toy::P, Wrong>).fault == HookFault::parameters);
  STATIC_REQUIRE(botched(on_toy<toy::P, Wrong>).hook == HookId::on_train_start);
  STATIC_REQUIRE(botched(on_toy<toy::P, WrongAndMisspelt>).fault == HookFault::near_miss);
  STATIC_REQUIRE(botched(on_toy<toy::P, WrongAndMisspelt>).hook == HookId::on_epoch_end);
  STATIC_REQUIRE(judge::trainer<ByHand, toy::Device, Float32, Automatic>().id() == "fulgurite.model.one_optimizer");
}

namespace {
/// A strategy that captures, and what its steps would leave out.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Inside {
  void on_after_backward() {}
};
struct Speaks : Inside {
  static constexpr bool acts_on_tensors = true;
};
struct Sliced : toy::P {
  using Hidden = toy::Tensor;
};
struct Skips : toy::P {
  std::optional<toy::Tensor> training_step(double) { return {}; }
};
template <class M, class... Cs>
constexpr auto captured = judge::trainer<M, Recorded, Float32, Automatic, Cs...>();
}  // namespace

TEST_CASE("a captured step: who would not be called in a replay is named, with the hook", "[verdict]") {
  STATIC_REQUIRE(captured<toy::P, Watcher, Speaks>.ok);
  STATIC_REQUIRE(botched(captured<toy::P, Watcher, Speaks, Inside>).fault == HookFault::captured);
  STATIC_REQUIRE(botched(captured<toy::P, Watcher, Speaks, Inside>).hook == HookId::on_after_backward);
  STATIC_REQUIRE(refuses<Inside>(captured<toy::P, Watcher, Speaks, Inside>));
  STATIC_REQUIRE(captured<Sliced>.id() == "fulgurite.capture.hidden");
  STATIC_REQUIRE(judge::trainer<Sliced, Recorded, Float32, Manual>().id() == "fulgurite.capture.automatic");
  using Skipping = loop::GivenLoaders<Loader, NoModule>;
  STATIC_REQUIRE(judge::VerdictOnCall<
                     judge::Training<judge::Fine, Run<Skips, Recorded, Float32, Automatic>, Skipping, false>>::judge()
                     .id() == "fulgurite.capture.skip");
  STATIC_REQUIRE(fitting<Skips, Skipping>.ok);
}

namespace {
template <HookId Hook>
concept HasSentences = requires { sizeof(refusal::About<Hook>); };
template <std::size_t... I>
constexpr bool all_have_sentences(std::index_sequence<I...>) {
  for (bool has : {HasSentences<static_cast<HookId>(I + 1)>...})  // clang folds at most 256
    if (!has) return false;
  return true;
}

// HookId::none, and one for each row of the tables.
#define FULGURITE_ROW(...) +1
constexpr std::size_t names = 1 FULGURITE_EVENTS(FULGURITE_ROW) FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_DATA_HOOKS(FULGURITE_ROW) FULGURITE_LOGGER_HOOKS(FULGURITE_ROW) FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
        FULGURITE_FILE_HOOKS(FULGURITE_ROW) FULGURITE_SETTINGS_HOOKS(FULGURITE_ROW)
            FULGURITE_NEAR_MISSES_OF_CALLBACKS(FULGURITE_ROW) FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
                FULGURITE_LOADER_HOOKS(FULGURITE_ROW) FULGURITE_STEPS(FULGURITE_ROW)
                    FULGURITE_NEAR_MISSES_OF_LOADERS(FULGURITE_ROW) FULGURITE_NEAR_MISSES(FULGURITE_ROW)
                        FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW) FULGURITE_NEAR_MISSES_OF_OPTIMIZERS(FULGURITE_ROW)
                            FULGURITE_NEAR_MISSES_OF_SCHEDULES(FULGURITE_ROW)
                                FULGURITE_NEAR_MISSES_OF_STRATEGIES(FULGURITE_ROW)
                                    FULGURITE_OPTIMIZER_FUNCTIONS(FULGURITE_ROW)
                                        FULGURITE_OPTIMIZER_HOOKS(FULGURITE_ROW) FULGURITE_SCHEDULE_HOOKS(FULGURITE_ROW)
                                            FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_ROW)
                                                FULGURITE_DISTRIBUTED_FUNCTIONS(FULGURITE_ROW)
                                                    FULGURITE_STRATEGY_ANSWERS(FULGURITE_ROW);
#undef FULGURITE_ROW
}  // namespace

TEST_CASE("every name of the tables of hooks has its sentences", "[verdict]") {
  STATIC_REQUIRE(names > 100);
  STATIC_REQUIRE(all_have_sentences(std::make_index_sequence<names - 1>{}));
  STATIC_REQUIRE(!HasSentences<static_cast<HookId>(names)>);
}

namespace own_name {
/// Its own name is that of a list which callbacks may declare.
struct Watches {
  void on_train_start() {}
};
struct Hooks {
  void on_train_start() {}
};
/// Or that of a hook.
struct setup {
  void on_train_start() {}
};
struct backward {
  void on_train_start() {}
};
struct log_metrics {
  void on_train_start() {}
};
struct on_fit_start {};
struct Derived : on_fit_start {
  void on_fit_start(int) {}
};
}  // namespace own_name

TEST_CASE("a callback may be called Watches or Hooks, or as a hook is", "[verdict]") {
  STATIC_REQUIRE(judge::trainer<toy::P, toy::Device, Float32, Automatic, own_name::Watches, own_name::Hooks>().ok);
  STATIC_REQUIRE(on_toy<toy::P, own_name::setup>.ok);
  STATIC_REQUIRE(on_toy<toy::P, own_name::backward>.ok);
  STATIC_REQUIRE(on_toy<toy::P, own_name::log_metrics>.ok);
  STATIC_REQUIRE(on_toy<toy::P, own_name::on_fit_start>.id() == "fulgurite.callback.inert");
  STATIC_REQUIRE(botched(on_toy<toy::P, own_name::Derived>).hook == HookId::on_fit_start);
}

namespace {
/// Traits that only a run would know.
struct Late {
  using Stateless = ByChoice;
  bool needs_logger = true;
  void on_train_start() {}
};
struct Idle {
  static inline bool inert_in_dev_run = true;
  void on_train_start() {}
};
struct LateNet : toy::P {
  bool acts_on_tensors = true;
};
struct OneGpu : toy::Device {
  bool needs_gpu = false;
};
}  // namespace

TEST_CASE("a trait that is a variable is not taken for one that is not said", "[verdict]") {
  STATIC_REQUIRE(on_toy<toy::P, Watcher, Late>.id() == "fulgurite.trainer.trait");
  STATIC_REQUIRE(refuses<Late>(on_toy<toy::P, Watcher, Late>));
  STATIC_REQUIRE(on_toy<toy::P, Idle>.id() == "fulgurite.trainer.trait");
  STATIC_REQUIRE(on_toy<LateNet>.id() == "fulgurite.trainer.trait");
  STATIC_REQUIRE(judge::trainer<toy::P, OneGpu, Float32, Automatic>().id() == "fulgurite.trainer.trait");
  STATIC_REQUIRE(refuses<OneGpu>(judge::trainer<toy::P, OneGpu, Float32, Automatic>()));
}

namespace legal {
/// Virtual hooks, and nothing that a checkpoint could forget.
struct Virtual {
  virtual void on_fit_start() {}
  virtual ~Virtual() = default;
};
/// Functions of its own, under names that mean something in loggers and data modules.
struct Reports : toy::P {
  void finalize(int) {}
  void log_metrics(double, double) {}
};
/// Data members of such names, and what a class may call itself.
struct Kept : toy::P {
  using Stateless = ByChoice;
  bool limits_time = false;
};
struct Watches {
  using Stateless = ByChoice;
  bool prepare_data = false;
  void on_train_start() {}
  int account() const { return 3; }
};
struct Module {
  std::vector<double> train_dataloader() { return toy::batches(4); }
  void process_dataloader(auto&) {}
  void log_metrics(double, double) {}
  void finalize() {}
};
struct Where : toy::Device {
  bool training_step = true;
  void log_metrics(double) {}
};
/// Data members under names of functions that speak of files, and such names in another meaning.
struct Notes {
  using Stateless = ByChoice;
  void on_train_start() {}
  bool do_not_continue = false;
  int log_dir = 0;

 private:
  [[maybe_unused]] double best_model_path = 0, last_checkpoints = 0, stateKey = 0;
};
struct Settled : toy::P {
  int hyperparameters() const { return 3; }
};
struct Rows : toy::Unsized {
  using toy::Unsized::Unsized;
  int batch_size(int of) { return of; }
  int shard() const { return 1; }
  bool set_batch_size = false;
};
/// What a precision keeps for itself.
struct Rounded : Float32 {
  bool setup = false;
  int digits() const { return 3; }
};
/// A function where a trait would be.
struct Asks {
  void on_train_start() {}
  static constexpr bool needs_logger() { return false; }
};
}  // namespace legal

TEST_CASE("virtual callbacks without members, and names that mean something elsewhere, are no mistakes", "[verdict]") {
  STATIC_REQUIRE(judge::trainer<toy::P, toy::Device, Float32, Automatic, legal::Virtual>().ok);
  STATIC_REQUIRE(judge::trainer<legal::Reports, toy::Device, Float32, Automatic, legal::Asks>().ok);
  STATIC_REQUIRE(judge::trainer<legal::Kept, legal::Where, Float32, Automatic, legal::Watches>().ok);
  STATIC_REQUIRE(!judge::foreign_to_data<legal::Module>());
  STATIC_REQUIRE(judge::trainer<toy::P, toy::Device, legal::Rounded, Automatic>().ok);
  STATIC_REQUIRE(judge::trainer<legal::Settled, toy::Device, Float32, Automatic, legal::Notes>().ok);
  STATIC_REQUIRE(!judge::loader_hooks<legal::Rows>());
}
