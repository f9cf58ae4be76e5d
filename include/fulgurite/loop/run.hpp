#pragma once
// The key of a run (its four types) and everything a run keeps between steps.

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/known.hpp>
#include <fulgurite/hook/call.hpp>
#include <fulgurite/loop/manual_watch.hpp>
#include <fulgurite/loop/no_optimizer.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/progress.hpp>
#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

/// Which of the trainer's functions is at work.
enum class Stage : std::uint8_t { fit, validate, test, predict };

/// The four types that decide everything a step sees; contexts are keyed on it, so they never know the callbacks.
template <class M, class S, class P, class O>
struct Run {
  using Model = M;
  using Strategy = S;
  using Precision = P;
  using Optimization = O;
  using Backend = typename S::Backend;
  using Value = typename Backend::Value;
  using Metrics = typename MetricsOf<M>::type;
  static constexpr bool automatic = O::automatic;
};

/// What a callback asks the trainer to write at the next safe point.
struct CheckpointRequest {
  std::filesystem::path path;
  std::vector<std::filesystem::path> also = {};    ///< copies under other names, such as last
  std::vector<std::filesystem::path> remove = {};  ///< files this one displaces; deleted once it is safely on disk
  std::filesystem::path link = {};                 ///< a symbolic link to it, such as last; replaces one that is there
  bool save_weights_only = false;                  ///< without the state of optimizers, schedules and callbacks: nothing can go on from it

  CheckpointRequest(std::filesystem::path to, std::vector<std::filesystem::path> copies = {},
                    std::vector<std::filesystem::path> displaced = {})
      : path(std::move(to)), also(std::move(copies)), remove(std::move(displaced)) {}
  CheckpointRequest(char const* to) : CheckpointRequest(std::filesystem::path(to)) {}
  CheckpointRequest(std::string const& to) : CheckpointRequest(std::filesystem::path(to)) {}
};

/// What a run has to show for itself; callbacks fill it, the last line of a fit is made of it.
struct Outcome {
  std::string best_metric = {};
  std::optional<double> best_value = std::nullopt;
  int best_epoch = 0;
  std::filesystem::path best_file = {};
  std::filesystem::path last_file = {};
  std::filesystem::path metrics_file = {};
};


namespace phase {
struct Fit;
}
template <class R, class Phase>
class Context;

namespace loop {

/// Facts of the batch, the loader and the stage at hand, set by the loops and read through contexts.
struct Facts {
  Stage stage = Stage::fit;
  long batch_idx = 0;
  long batch_size = 0;
  bool is_last_batch = false;
  bool accumulating = false;  ///< the batch at hand does not end its window
  bool in_batch = false;
  bool left_out = false;  ///< the batch at hand is none: its loader left it out
  bool has_gradients = false;  ///< some batch of the window at hand ran backward; kept where a precision scales the loss
  bool sanity_checking = false;
  bool validating = false;
  bool has_validation = false;
  std::size_t loader = 0;
  std::size_t board = 0;  ///< of eval_boards: the loader's, or with several loaders, outside of them, one more
  std::optional<long> train_batches = std::nullopt;
  std::optional<long> eval_batches = std::nullopt;
};

template <class R>
decltype(auto) configure_optimizers(typename R::Model& model, Context<R, phase::Fit>& ctx) {
  if constexpr (requires { model.configure_optimizers(ctx); }) return model.configure_optimizers(ctx);
  else return model.configure_optimizers();
}

template <class R>
using Optimizers = OptimizerSet<
    typename R::Backend,
    typename AsList<std::remove_cvref_t<decltype(configure_optimizers<R>(
        std::declval<typename R::Model&>(), std::declval<Context<R, phase::Fit>&>()))>>::type>;

/// A window of several batches: what it asks of the optimizer, as soon as both are known.
template <class R>
void check_window(char const* name, int batches) {
  if (batches < 1) refuse_option("fulgurite.options.accumulate", name, batches, "a window has at least 1 batch");
  if (Optimizers<R>::needs_closure && batches > 1)
    throw Error("fulgurite.optimizer.closure_accumulates",
                "an optimizer that evaluates its closure several times would see only the last of " + std::to_string(batches) +
                    " accumulated batches: use " + name + " = 1");
}

struct NoScaler {};
template <class Backend, class P>
struct ScalerOf {
  using type = NoScaler;
};
template <class Backend, class P>
  requires P::scales_loss
struct ScalerOf<Backend, P> {
  using type = std::optional<typename Backend::template Scaler<P>>;
};

/// The state of a run. The trainer owns it; loops, contexts and steps borrow it.
template <class R>
struct State {
  using Key = R;
  using Board = fulgurite::Board<typename R::Metrics, typename R::Backend>;
  static constexpr std::size_t metrics = R::Metrics::size;

  TrainerOptions options;
  typename R::Strategy strategy;
  typename R::Precision precision;
  typename R::Optimization optimization;

  typename R::Model* model = nullptr;
  std::optional<Optimizers<R>> optimizers = std::nullopt;
  typename ScalerOf<typename R::Backend, typename R::Precision>::type scaler{};

  Progress progress{};
  Facts facts{};
  Board train_board{};
  std::vector<Board> eval_boards = std::vector<Board>(1);
  std::array<Figures, metrics> results{};  ///< of the last finished epoch or evaluation, merged over loaders

  std::function<std::optional<long>()> count_training = {};  ///< asks the training loader for its size, loading it if need be
  std::vector<std::string> loader_names{};                          ///< of the evaluation loaders: their own, or their positions
  std::vector<std::array<Figures, metrics>> loader_results{};  ///< the same as `results` of each of them
  std::optional<typename HiddenOf<typename R::Model>::type> hidden = std::nullopt;  ///< carried from one slice of time to the next
  typename R::Value last_loss{};  ///< of the last batch, where a model's own optimizer_step may ask for it
  int window = 1;               ///< accumulate_grad_batches of this epoch
  std::conditional_t<R::automatic, ManualWatch<0>, ManualWatch<Optimizers<R>::count>> manual_watch{};
  int train_loaded_in = 0;      ///< epoch in which the training loader was asked for
  int val_loaded_in = 0;        ///< epoch whose validation was the first with these loaders
  bool stop_requested = false;
  bool statistics_requested = false;
  std::vector<std::string> warned{};  ///< what `warn` has said
  std::optional<TrainerOptions::Clock::time_point> fit_began = std::nullopt;
  std::optional<TrainerOptions::Clock::time_point> last_validation = std::nullopt;
  std::vector<CheckpointRequest> requests{};
  std::vector<std::pair<std::string, double>> posted{};  ///< rows of callbacks, on their way to the loggers
  std::filesystem::path log_dir{};
  Outcome outcome{};

  /// What may be meant and mostly is not: said once for each identifier, on stderr.
  void warn(std::string const& identifier, std::string const& sentence) {
    for (auto const& said : warned)
      if (said.starts_with("[" + identifier + "]")) return;
    warned.push_back("[" + identifier + "] " + sentence);
    if (strategy.rank() == 0) std::fprintf(stderr, "warning: %s\n", warned.back().c_str());
  }

  double seconds_since_fit_start() const {
    return fit_began ? Seconds(options.now() - *fit_began).count() : 0.0;
  }
};

}  // namespace loop
}  // namespace fulgurite
