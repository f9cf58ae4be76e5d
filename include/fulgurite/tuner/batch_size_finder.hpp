#pragma once
// The search for a batch size: tries sizes until one is the largest that fits. It runs alone, or as a callback when a
// fit starts and at milestones.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

namespace fulgurite::tune {

// The member in which a model or a data module keeps the batch size of its loaders.

/// The types in which a model may keep its batch size.
template <class T>
inline constexpr bool is_count = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_const_v<T>;

/// `&Net::batch_size` or `&Data::batch_size`: the member from which train_dataloader() and the other functions make
/// their loaders. If it is not given, the size of the loader or data module is set directly. The type must be an
/// integer.
template <class Model, class Data>
class SizeField {
 public:
  SizeField() = default;
  template <class T, class Owner>
  SizeField(T Owner::* field) {
    constexpr bool in_model = std::derived_from<Model, Owner>, in_data = std::derived_from<Data, Owner>;
    constexpr bool a_count = is_count<T>, of_these = in_model || in_data, factory = !loop::ReadItself<Data>;
    static_assert(a_count, "[fulgurite.tuner.size_type] a batch size is put into a member that is an integer and no "
                           "constant: write `long batch_size = 2;`");
    static_assert(of_these, "[fulgurite.tuner.size_holder] this member belongs neither to the model nor to the data "
                            "module: name one of theirs, &Data::batch_size");
    static_assert(factory,
                  "[fulgurite.tuner.needs_factory] a loader that is there already is not made again from a "
                  "field: pass a data module, or the model, with train_dataloader(), or leave .field out where "
                  "the loader has set_batch_size(long)");
    if constexpr (a_count && of_these && factory) {
      most_ = static_cast<long>(std::min<std::make_unsigned_t<long>>(
          static_cast<std::make_unsigned_t<T>>(std::numeric_limits<T>::max()),
          static_cast<std::make_unsigned_t<long>>(std::numeric_limits<long>::max())));
      in_data_ = !in_model;
      use_ = [field]([[maybe_unused]] Model& model, [[maybe_unused]] Data* data, long const* to) {
        auto& size = [&]() -> T& {
          if constexpr (in_model) return model.*field;
          else return data->*field;
        }();
        if (to != nullptr) size = static_cast<T>(*to);
        return static_cast<long>(size);
      };
    }
  }

  bool is_given() const { return use_ != nullptr; }
  bool is_in_data() const { return in_data_; }
  /// The largest number that the member holds.
  long most() const { return most_; }
  /// Returns the size in the object that has the member, after setting it to `*to` unless `to` is null.
  long use(Model& model, Data* data, long const* to) const { return use_(model, data, to); }

 private:
  bool in_data_ = false;
  std::function<long(Model&, Data*, long const*)> use_ = nullptr;
  long most_ = std::numeric_limits<long>::max();
};

/// How the next size is chosen. `power`: doubles it until memory runs out, and takes the last that fitted. `binsearch`:
/// doubles it, too, then bisects between the largest that fitted and the smallest that did not.
enum class SizeMode : std::uint8_t { power, binsearch };
using enum SizeMode;

/// The options of a search for a batch size, an aggregate: `{.mode = tune::binsearch, .field = &Data::batch_size}`.
template <class Model, class Data = NoModule>
struct BatchSizeSearch {
  SizeMode mode = power;              ///< how the next size is chosen
  long init_val = 2;                  ///< the first size
  int max_trials = 25;                ///< limit of trials; with binsearch, of those that fit
  long steps_per_trial = 3;           ///< optimizer steps; in evaluations: batches
  long max_val = 8192;                ///< the largest size to try
  double margin = 0.05;               ///< binsearch: fraction subtracted from the result if memory ran out
  SizeField<Model, Data> field = {};  ///< the member that receives the size; not given: the loader or the data module
  bool show = true;                   ///< print a line for each trial
  std::FILE* stream = stderr;         ///< where these lines are printed
};

/// Throws [fulgurite.tuner.batch_size_option] if a number of the search is out of range.
template <class Model, class Data>
void check(BatchSizeSearch<Model, Data> const& search) {
  auto const at_least = [](char const* name, long value, long least) {
    if (value < least)
      loop::refuse_option("fulgurite.tuner.batch_size_option", name, value,
                          "it must be at least " + std::to_string(least));
  };
  at_least(".init_val", search.init_val, 1);
  at_least(".max_trials", search.max_trials, 1);
  at_least(".steps_per_trial", search.steps_per_trial, 1);
  at_least(".max_val", search.max_val, search.init_val);
  if (!(search.margin >= 0 && search.margin < 1))
    loop::refuse_option("fulgurite.tuner.batch_size_option", ".margin", search.margin,
                        "it must be a fraction from 0 to below 1");
}

/// Thrown if there is no place where a size would reach the batches of this run.
class NoPlaceForSize : public Error {
 public:
  using Error::Error;
};

// The arithmetic of the search: which size is tried next, and which one is found.

/// The caller tries `next()` and reports `fits()` or `fails()`, until there is no next size.
class SizeSteps {
 public:
  /// `most`: the largest size to try.
  template <class Model, class Data>
  SizeSteps(BatchSizeSearch<Model, Data> const& search, long most)
      : mode_(search.mode),
        max_trials_(search.max_trials),
        margin_(search.margin),
        most_(std::min(search.max_val, most)),
        size_(std::min(search.init_val, most_)) {}

  std::optional<long> next() const;
  /// Limits batches to the number of samples, which is known when the first size is tried.
  void bound(long samples);
  long size() const { return size_; }

  void fits();
  void fails();

  /// The largest size that was tried and fitted; with binsearch less the margin, if memory ran out. nullopt if no size
  /// fitted.
  std::optional<long> found() const;
  /// The smallest size that did not fit.
  std::optional<long> high() const { return high_; }

 private:
  long twice() const;
  void between();

  SizeMode mode_;
  int max_trials_;
  double margin_;
  long most_, size_;
  long samples_ = std::numeric_limits<long>::max();
  long trials_ = 0, fitted_ = 0;
  long low_ = 0;  ///< the largest size that fitted
  std::optional<long> high_ = std::nullopt;
  bool over_ = false;
};

// Whether an exception means that memory has run out.

/// True for the C++ library's exception, the tensor library's, or one that is nested in an exception that adds context.
template <class Backend>
bool out_of_memory(std::exception const& error) {
  if (dynamic_cast<std::bad_alloc const*>(&error) != nullptr || Backend::out_of_memory(error)) return true;
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& inner) { return out_of_memory<Backend>(inner); } catch (...) {
  }
  return false;
}

// The result of a search for a batch size, with measurements.

/// One trial.
struct BatchSizeTrial {
  long size = 0;
  bool fits = true;                                       ///< false: memory ran out
  std::optional<double> seconds_per_step = std::nullopt;  ///< nullopt if there was no clock
  std::optional<double> samples_per_second = std::nullopt;
  std::optional<double> peak_bytes = std::nullopt;  ///< peak memory of the device; on the CPU: of the process
};

/// The result of tune::scale_batch_size. `size` is the largest that fits, which was set. It is rarely much faster than
/// the smallest fast one, see `fastest()`; a smaller batch gives more steps per epoch.
struct FoundBatchSize {
  long size = 0;
  bool searched = true;  ///< false in a fast_dev_run, in which nothing is searched
  std::vector<BatchSizeTrial> trials{};

  /// The size with the most samples per second; nullopt if none was timed.
  std::optional<long> fastest() const;

  /// A table with a line for each trial.
  std::string table() const;
  /// The trials as CSV: batch_size,fits,seconds_per_step,samples_per_second,peak_bytes.
  std::string csv() const;
  /// A plot of samples per second over sizes, with the found and the fastest one marked.
  report::Plot plot() const;
  /// Writes the CSV if the name ends in .csv, else the plot, as .svg or .txt. Throws [fulgurite.file.write] or
  /// [fulgurite.report.plot_name].
  void save(std::filesystem::path const& file) const;
};

// What a trial observes: rows of its first batch, whether a pass has a second batch, steps and their time.

/// Notified of each step of a trial, when it begins and when it ends. A step that is repeated is notified again.
struct SeenTrial {
  using Clock = TrainerOptions::Clock;

  std::optional<long> batches{};  ///< batches of a pass, if the loader has a size
  long rows = 0;                  ///< rows of the first batch
  long number = -1;               ///< number of the current step
  long steps = 0;                 ///< steps done
  bool several = false;           ///< true once a pass had more than one batch

  void opens(RehearsedStep const& step);
  /// Called when a step ends. `samples`: those of all of its batches.
  void closes(RehearsedStep const& step, long samples, Clock::time_point now);

  /// Sets seconds per step and samples per second, without the first step, which includes all preparations. If there is
  /// only one step, it counts, from `begin` on. Sets nothing if there was no clock.
  void rate(BatchSizeTrial& trial, Clock::time_point begin) const;

 private:
  long opened_ = 0;  ///< the first batch of the current step
  Clock::time_point first_{}, last_{};
  long samples_ = 0, first_samples_ = 0;
};

/// Tries sizes one after the other, and records the measurements of each. A tried or found size is set in a member, in
/// the loader, or in the data module.
template <class R, class Model, class Data>
class SizeTrials {
  using Backend = typename R::Backend;

 public:
  /// Throws NoPlaceForSize, as [fulgurite.tuner.needs_factory], [fulgurite.tuner.no_data_module] or
  /// [fulgurite.tuner.no_size].
  SizeTrials(Rehearser<R>& rehearser, BatchSizeSearch<Model, Data> const& search)
      : rehearser_(rehearser), search_(search), steps_(search, search.field.most()) {
    auto& sizes = rehearser.batch_sizes();
    auto const& field = search.field;
    if (field.is_given() && !sizes.makes_loaders())
      throw NoPlaceForSize(
          "fulgurite.tuner.needs_factory",
          "a loader that is there already is not made again from a field: pass a data module, or the model, "
          "with train_dataloader(), or leave .field out where the loader has set_batch_size(long)");
    if (field.is_in_data()) {
      data_ = static_cast<Data*>(sizes.data_module(typeid(Data)));
      if (data_ == nullptr)
        throw NoPlaceForSize("fulgurite.tuner.no_data_module",
                             "the batch size is a member of " + std::string(type_name<Data>()) +
                                 ", and this run has another data module, or one that is const: pass that type");
    }
    if (!field.is_given() && !sizes.now())
      throw NoPlaceForSize(
          "fulgurite.tuner.no_size",
          "neither the loader nor the data module has a batch size that can be set: give it `long batch_size() const` "
          "and `void set_batch_size(long)`, or make its loaders from a field, .field = &Data::batch_size");
  }

  /// The current size.
  long size() const { return search_.field.is_given() ? used(nullptr) : rehearser_.batch_sizes().now().value_or(0); }

  void put(long size) const {
    write(size);
    rehearser_.batch_sizes().changed();
  }

  /// Sets the found size. If the search fails, the size is unchanged.
  FoundBatchSize run() {
    long const before = size();
    try {
      while (auto const size = steps_.next()) {
        found_.trials.push_back(tried(*size));
        say(described(found_.trials.back()));
      }
      if (auto const size = steps_.found()) found_.size = *size;
      else
        throw Error("fulgurite.tuner.out_of_memory",
                    "no batch size fits into memory: the smallest that was tried is " +
                        std::to_string(found_.trials.back().size) +
                        (steps_.high() == 1 ? "; make the model smaller, or take a device with more memory"
                                            : "; begin lower, by .init_val, or allow more of .max_trials"));
    } catch (...) {
      write(before);
      throw;
    }
    put(found_.size);
    std::string line = "batch size: " + std::to_string(found_.size);
    if (auto const fastest = found_.fastest()) line += ", the fastest: " + std::to_string(*fastest);
    say(line);
    return std::move(found_);
  }

 private:
  long used(long const* to) const { return search_.field.use(rehearser_.context().model(), data_, to); }
  void write(long size) const {
    if (search_.field.is_given()) used(&size);
    else rehearser_.batch_sizes().set(size);
  }

  BatchSizeTrial tried(long size) {
    write(size);
    auto const device = rehearser_.context().device();
    Backend::restart_peak_memory(device);
    report::restart_host_peak();
    auto const begin = now();
    SeenTrial seen;
    auto const fits = steps_made(size, seen);
    auto peak = Backend::peak_memory(device);
    if (!peak) peak = report::host_peak();
    Backend::free_caches(device);
    if (!fits) {
      long const failed = steps_.size();
      steps_.fails();
      return {.size = failed, .fits = false, .peak_bytes = peak};
    }
    BatchSizeTrial trial{.size = steps_.size(), .peak_bytes = peak};
    seen.rate(trial, begin);
    steps_.fits();
    return trial;
  }

  bool steps_made(long size, SeenTrial& seen) {
    // If a loader does not know its number of batches, a second one is requested to find out whether there are several.
    long const steps = std::max(2L, search_.steps_per_trial);
    RehearsalPlan plan{.steps = steps, .fresh_loader = true, .non_finite = NonFinite::ignore};
    plan.options = [&](TrainerOptions& options) {
      // Each epoch has at least one step, unless hooks skip it.
      long const last = rehearser_.context().current_epoch() + steps;
      options.max_epochs = static_cast<int>(std::min<long>(last, std::numeric_limits<int>::max()));
      options.limit_train_batches = options.limit_val_batches = options.limit_test_batches =
          options.limit_predict_batches = {};
    };
    plan.on_loader = [&](LoaderFacts const& facts) {
      seen.batches = facts.batches;
      if (facts.samples) steps_.bound(*facts.samples);
    };
    plan.before_step = [&](RehearsedStep& step) { seen.opens(step); };
    plan.after_step = [&](RehearsedStep& step) {
      Backend::synchronize(rehearser_.context().device());
      long const rows = step.batch_size() == 0 ? size : step.batch_size();
      seen.closes(step, rows * rehearser_.batch_sizes().batches_of_step(), now());
      if (steps > search_.steps_per_trial && (seen.batches || seen.several)) step.stop();
    };
    bool fits = true;
    try {
      rehearser_.rehearse(plan);
    } catch (loop::NotRestored const&) { throw; } catch (std::exception const& error) {
      if (!out_of_memory<Backend>(error)) throw;
      fits = false;
    }
    if (seen.number >= 0) look_at_rows(size, seen);
    if (fits && seen.steps == 0)
      throw Error("fulgurite.tuner.no_steps", "no step could be made with a batch size of " + std::to_string(size) +
                                                  ": a hook leaves each epoch, or the loader has no batch");
    return fits;
  }

  /// Checks that the number of rows of a trial's first batch follows its size, up to the number of samples.
  void look_at_rows(long size, SeenTrial const& seen) {
    long const rows = seen.rows;
    bool const whole = seen.batches ? *seen.batches <= 1 : !seen.several && rows < size && rows_before_ == size_before_;
    if (rows > 0 && rows == rows_before_ && size != size_before_ && !whole)
      throw NoPlaceForSize("fulgurite.tuner.unused_size",
                           "batches have " + std::to_string(rows) + " rows with a batch size of " +
                               std::to_string(size_before_) + " and of " + std::to_string(size) +
                               ": let the loaders be made from the field, or go by what set_batch_size said");
    if (whole) steps_.bound(rows > 0 && rows < size ? rows : size);
    rows_before_ = rows;
    size_before_ = size;
  }

  auto now() const { return rehearser_.context().options().now(); }

  static std::string described(BatchSizeTrial const& trial) {
    std::string line = "batch size " + std::to_string(trial.size) + (trial.fits ? ": fits" : ": out of memory");
    if (trial.seconds_per_step) {
      line += report::formatted(", %.4g s/step", *trial.seconds_per_step);
      line += report::formatted(", %.4g samples/s", *trial.samples_per_second);
    }
    if (trial.peak_bytes) line += ", peak memory " + report::bytes_text(static_cast<std::int64_t>(*trial.peak_bytes));
    return line;
  }
  void say(std::string const& line) const {
    if (!search_.show) return;
    print_lines(search_.stream, line + "\n");
    std::fflush(search_.stream);
  }

  Rehearser<R>& rehearser_;
  BatchSizeSearch<Model, Data> const& search_;
  SizeSteps steps_;
  Data* data_ = nullptr;  ///< the data module that has the member
  FoundBatchSize found_{};
  long rows_before_ = 0, size_before_ = 0;
};

}  // namespace fulgurite::tune

namespace fulgurite {

/// The search of a BatchSizeFinder, and the epochs before which it searches again.
template <class Model, class Data = NoModule>
struct BatchSizeFinderOptions {
  /// The sizes to try, and how many steps each; see tune::BatchSizeSearch.
  tune::BatchSizeSearch<Model, Data> search = {};
  std::vector<int> milestones = {};  ///< epochs before which it searches again, such as those that unfreeze layers
};

/// A callback that finds a batch size when the fit starts:
///
///     BatchSizeFinder<Net>{{.search = {.mode = tune::binsearch}, .milestones = {5, 10}}}
///
/// It runs trial steps with several sizes (see tune::scale_batch_size), restores all state, and continues with the
/// largest size that fits. The size is set in the loader or data module if that has set_batch_size. Otherwise it is set
/// in a field of the model, `.field = &Net::batch_size`, or of the data module, `BatchSizeFinder<Net, Data>` and
/// `.field = &Data::batch_size`, and the loaders are made again. It does the same at each milestone, for the epochs
/// that follow. validate, test and predict begin with a search over their own batches, which does not change the fit's
/// size in a file; if they have no place for a size, there is a warning and no search.
///
/// A fit that resumes from a file uses the size that was found before. A schedule that was made from
/// `ctx.estimated_steps()` keeps the number of steps that it was made with. To search at other times, derive from this
/// class, hide its hooks, and call `scale_batch_size(ctx)` from yours.
template <class Model, class Data = NoModule>
class BatchSizeFinder {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_epoch_start>;
  static constexpr Order order = Order::tuner;
  static constexpr bool searches = true, finds_batch_size = true, needs_single_process = true,
                        needs_one_eval_loader = true, inert_in_dev_run = true;
  static constexpr bool needs_data_module = !std::is_same_v<Data, NoModule>;
  static constexpr std::string_view writes = "the batch size of loaders, or the field of it";

  explicit BatchSizeFinder(BatchSizeFinderOptions<Model, Data> options = {}) : options_(std::move(options)) {
    tune::check(options_.search);
    tune::check_milestones("BatchSizeFinder", options_.milestones);
  }

  void setup(auto& ctx) {
    if (ctx.stage() == Stage::fit) size_ = 0;
    else scale_batch_size(ctx);
  }
  void on_fit_start(auto& ctx) {
    if (size_ == 0) return scale_batch_size(ctx);
    ctx.request_setting([this]<class R>(Rehearser<R>& rehearser) {
      tune::SizeTrials<R, Model, Data>(rehearser, options_.search).put(size_);
    });
  }
  void on_train_epoch_start(auto& ctx) {
    if (tune::is_milestone(ctx.current_epoch(), options_.milestones)) scale_batch_size(ctx);
  }

  /// The result of the last search; without trials if there was none.
  tune::FoundBatchSize const& results() const { return found_; }

  void state(auto& archive) { archive("size", size_).option("milestones", options_.milestones); }

 protected:
  /// Requests a search at the next boundary between two epochs. In an evaluation the search takes place before the
  /// first batch, and can be requested in `setup` only.
  void scale_batch_size(auto& ctx) {
    if (ctx.dev_run()) return;
    ctx.request_search([this]<class R>(Rehearser<R>& rehearser) {
      bool const in_fit = rehearser.context().stage() == Stage::fit;
      try {
        found_ = tune::SizeTrials<R, Model, Data>(rehearser, options_.search).run();
        if (in_fit) size_ = found_.size;
      } catch (tune::NoPlaceForSize const& why) {
        if (in_fit) throw;
        rehearser.context().warn_each(
            "fulgurite.tuner.not_searched",
            std::string("no batch size was searched for in an evaluation that has no place for one: ") + why.what());
      }
    });
  }

 private:
  BatchSizeFinderOptions<Model, Data> options_;
  tune::FoundBatchSize found_{};
  long size_ = 0;  ///< found in this fit, or in the one that it resumes
};

}  // namespace fulgurite

namespace fulgurite::tune {

/// The steps to try: those of training, or of one kind of evaluation.
enum class Method : std::uint8_t { fit, validate, test, predict };
using enum Method;

/// The number of loaders for these steps.
template <Method Tried, class Data>
consteval std::size_t loaders_of() {
  using D = std::remove_const_t<Data>;
  if constexpr (Tried == fit || loop::ReadItself<Data>) return 1;
  else if constexpr (loop::is_tuple<D>) return std::tuple_size_v<D>;
  else {
    using Hook = std::conditional_t<Tried == validate, hook::val_dataloader,
                                    std::conditional_t<Tried == test, hook::test_dataloader, hook::predict_dataloader>>;
    using Source = loop::ModuleLoaders<Data, true>;
    if constexpr (!Source::template evaluates<Hook>) return 1;  // refused elsewhere
    else return std::tuple_size_v<decltype(std::declval<Source&>().template evaluation<Hook>())>;
  }
}

/// The options of the search, for loaders passed directly, by a data module, or by the model.
template <class Trainer, class Data>
using BatchSizeSearchOf =
    BatchSizeSearch<ModelOf<Trainer>, std::conditional_t<std::is_const_v<Data>, NoModule, std::remove_const_t<Data>>>;

/// Finds the largest batch size that fits into memory. Each size is tried with a few steps of the real trainer, until
/// memory runs out or a batch has all samples; then all state is restored, as tune::rehearse does. The size is set in
/// the loader or data module if that has set_batch_size, or else in `.field`, from which a data module or the model
/// makes its loaders. `scale_batch_size<tune::test>(...)` tries test_step with its loader; tune::validate and
/// tune::predict likewise. Call it between fits, in one process. In a fast_dev_run nothing is tried.
///
///     auto const found = tune::scale_batch_size(trainer, net, data, {.mode = tune::binsearch});
///     std::cout << found.table();              // for each size: time, samples per second, peak memory
///     found.save("sizes.csv"), found.save("sizes.svg");
///
/// Linux overcommits memory, and kills a process that uses too much of it. So on the CPU set .max_val, or a limit
/// (`ulimit -v`) that makes allocations throw. Errors: [fulgurite.tuner.out_of_memory] if no size fits,
/// [fulgurite.tuner.no_size] and others if no size can be set, and what the steps throw. After an error the size is
/// unchanged.
template <Method Tried = fit, class Trainer, class Data>
  requires(!is_of<BatchSizeSearch, std::remove_const_t<Data>>)
FoundBatchSize scale_batch_size(Trainer& trainer, ModelOf<Trainer>& model, Data& data,
                                BatchSizeSearchOf<Trainer, Data> const& search = {}) {
  using R = typename Trainer::Run;
  using D = std::conditional_t<std::is_const_v<Data>, NoModule, std::remove_const_t<Data>>;
  using Rules = judge::NeedRules<R, loop::Optimizers<R>::count, BatchSizeFinder<ModelOf<Trainer>>>;
  static_cast<void>(Rules::template judge<true>());
  constexpr bool one = loaders_of<Tried, Data>() == 1, settable = !loop::ReadItself<Data> || SettableBatchSize<Data>;
  static_assert(one,
                "[fulgurite.tuner.one_eval_loader] batch sizes are tried on one evaluation loader: pass each alone");
  static_assert(settable,
                "[fulgurite.tuner.no_size] this loader's batch size cannot be set: give it `long batch_size() "
                "const` and `void set_batch_size(long)`, or pass a data module that makes it from a field, "
                ".field = &Data::batch_size");
  check(search);
  FoundBatchSize found;
  RunSearch<R> const what = [&](Rehearser<R>& rehearser) {
    SizeTrials<R, ModelOf<Trainer>, D> trials(rehearser, search);
    if (trainer.options().fast_dev_run == 0) found = trials.run();
    else found = {.size = trials.size(), .searched = false};
  };
  if constexpr (decltype(Rules::judge())::ok && one && settable) {
    if constexpr (Tried == fit) trainer.search(model, data, what);
    else if constexpr (Tried == validate) trainer.template search_evaluation<loop::Validation>(model, data, what);
    else if constexpr (Tried == test) trainer.template search_evaluation<loop::Testing>(model, data, what);
    else trainer.template search_evaluation<loop::Prediction>(model, data, what);
    // If the size is part of what model or data module save, the search has restored the old one.
    if (!found.searched) return found;
    if (search.field.is_given()) {
      if constexpr (!loop::ReadItself<Data>) search.field.use(model, &data, &found.size);
    } else if constexpr (SettableBatchSize<Data>) {
      loop::set_batch_size_of(data, found.size);
    }
  }
  return found;
}
/// For a model that has the loaders itself.
template <Method Tried = fit, class Trainer>
FoundBatchSize scale_batch_size(Trainer& trainer, ModelOf<Trainer>& model,
                                BatchSizeSearchOf<Trainer, ModelOf<Trainer>> const& search = {}) {
  return scale_batch_size<Tried>(trainer, model, model, search);
}

}  // namespace fulgurite::tune
#if !defined(FULGURITE_COMPILED)
#include <fulgurite/tuner/batch_size_finder.ipp>
#endif
