#pragma once
// tune::sweep: trains many small models of one type in one process, in parallel, and finds the best of them.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/tuner/race.hpp>
#include <fulgurite/tuner/space.hpp>

namespace fulgurite::tune {

/// One member: its index in the space, its hyper-parameters, and its result.
template <class Setting>
struct SweepRow : Standing {
  std::size_t member = 0;
  Setting setting{};
};

/// The results of a sweep, with the best row first. `before` in race.hpp defines the order of members that did not
/// train equally long.
template <class Setting, class Member>
class SweepResults {
 public:
  using Row = SweepRow<Setting>;
  using Columns = std::vector<typename Space<Setting>::Column>;

  SweepResults(std::string_view metric, Columns columns, std::vector<Row> rows, std::unique_ptr<Member> best,
               int signal)
      : metric_(metric),
        columns_(std::move(columns)),
        rows_(std::move(rows)),
        best_(std::move(best)),
        signal_(signal) {}

  std::vector<Row> const& rows() const { return rows_; }
  /// The signal that interrupted the sweep, such as SIGINT after Ctrl-C; 0 if there was none. By convention a program
  /// that ends because of it returns 128 + signal.
  int signal() const { return signal_; }

  /// The best member. Throws [fulgurite.tune.none], with the message of the first failed member, if no member has a
  /// value.
  Row const& best() const {
    if (best_) return rows_.front();
    std::string said;
    for (auto const& row : rows_)
      if (said.empty()) said = row.why;
    throw Error("fulgurite.tune.none", "no member of the sweep has come to a value of " + metric_ +
                                           (said.empty() ? std::string(": it was ended before") : ": " + said));
  }
  Setting const& setting() const { return best().setting; }
  /// The best member's model, on the CPU, as of the end of its training.
  typename Member::Model& model() const { return best(), best_->model; }
  /// The trainer of the best member.
  typename Member::Trainer& trainer() const { return best(), best_->trainer; }

  /// A table of the first `most` rows (0: all) to be read by people, with the errors of members that failed.
  std::string table(std::size_t most = 0) const {
    std::vector<report::TextTable::Column> titles{{"rank"}, {"member"}};
    for (auto const& column : columns_) titles.push_back({column.name});
    for (std::string_view const title : {std::string_view(metric_), std::string_view("epochs"),
                                         std::string_view("seconds"), std::string_view("how it ended")})
      titles.push_back({std::string(title)});
    report::TextTable table(titles);
    std::size_t const shown = most == 0 ? rows_.size() : std::min(most, rows_.size());
    for (std::size_t i = 0; i != shown; ++i) {
      auto const& row = rows_[i];
      auto cells = settings_of(i, false);
      cells.push_back(row.value ? report::formatted("%.6g", *row.value) : "");
      cells.push_back(std::to_string(row.epochs()));
      cells.push_back(report::formatted("%.2f", row.seconds));
      cells.push_back(std::string(name_of(row.fate)) + (row.why.empty() ? "" : ": " + first_line(row.why)));
      table.add(std::move(cells));
    }
    return table.text();
  }

  /// A plot of all members' curves over their epochs, with names for the best three: `plot().save("sweep.svg")` or
  /// `.text()`.
  report::Plot plot() const {
    report::Plot plot{.title = "A sweep of " + std::to_string(rows_.size()) + " members",
                      .x = {.name = "epoch"},
                      .y = {.name = metric_}};
    for (std::size_t i = 0; i != rows_.size(); ++i) {
      auto const& row = rows_[i];
      if (row.curve.empty()) continue;
      report::Curve curve{.y = row.curve, .faint = i >= named};
      for (int epoch = 1; epoch <= row.epochs(); ++epoch) curve.x.push_back(epoch);
      if (i < named) curve.label = label_of(i);
      plot.curves.push_back(std::move(curve));
    }
    if (best_)
      plot.marks.push_back(
          {static_cast<double>(best().epochs()), *best().value, report::formatted("%.6g", *best().value)});
    return plot;
  }

  /// All rows as CSV, with the metric after each epoch in columns `epoch 1`, `epoch 2`, ... The numbers read back
  /// exactly.
  std::string csv() const {
    std::size_t longest = 0;
    for (auto const& row : rows_) longest = std::max(longest, row.curve.size());
    std::vector<std::string> names{"rank", "member"};
    for (auto const& column : columns_) names.push_back(column.name);
    for (std::string_view const name : {std::string_view(metric_), std::string_view("epochs"),
                                        std::string_view("seconds"), std::string_view("fate"), std::string_view("why")})
      names.emplace_back(name);
    for (std::size_t i = 0; i != longest; ++i) names.push_back("epoch " + std::to_string(i + 1));
    auto text = logger::csv_row(names);
    for (std::size_t i = 0; i != rows_.size(); ++i) {
      auto const& row = rows_[i];
      auto cells = settings_of(i, true);
      cells.push_back(row.value ? exact_number(*row.value) : "");
      cells.push_back(std::to_string(row.epochs()));
      cells.push_back(exact_number(row.seconds));
      cells.emplace_back(name_of(row.fate));
      cells.push_back(row.why);
      for (double const value : row.curve) cells.push_back(std::isnan(value) ? "" : exact_number(value));
      cells.resize(names.size());
      text += logger::csv_row(cells);
    }
    return text;
  }
  /// Writes `csv()`. On an Error, [fulgurite.file.write], the file is unchanged.
  void save_csv(std::filesystem::path const& file) const { write_durably(file, csv()); }

 private:
  static constexpr std::size_t named = 3;

  std::string label_of(std::size_t i) const {
    return listed(columns_, [&](auto const& column) {
      return std::string(column.name) + ' ' + column.text(rows_[i].setting, false);
    });
  }
  std::vector<std::string> settings_of(std::size_t i, bool exactly) const {
    std::vector<std::string> cells{std::to_string(i + 1), std::to_string(rows_[i].member)};
    for (auto const& column : columns_) cells.push_back(column.text(rows_[i].setting, exactly));
    return cells;
  }
  static std::string first_line(std::string const& text) { return text.substr(0, text.find('\n')); }

  std::string metric_;
  Columns columns_;
  std::vector<Row> rows_;
  std::unique_ptr<Member> best_;
  int signal_;
};

/// Batches that all members read and none writes: a container, which must outlive the sweep. A loader has a position in
/// its data and cannot be shared: give each member a copy of the loader, which has the same tensors.
template <class Batches>
struct Shared {
  Batches const* batches;
};
/// The return type of `shared` for a loader that cannot be shared, in addition to the error message.
struct NotShared {};
/// Stored batches that all members read without copies: `tune::shared(batches)`. They must outlive the sweep.
template <class Batches>
auto shared(Batches const& batches) {
  constexpr bool stored = StoredBatches<Batches const>;
  static_assert(stored, "[fulgurite.tune.shared] only a container of batches can be read by several members at once: "
                        "give each a copy of this loader, which has the data in common with it");
  if constexpr (stored) return Shared<Batches>{&batches};
  else return NotShared{};
}
/// Temporary batches cannot be shared.
template <class Batches>
void shared(Batches const&&) = delete;

/// Stands for data that a member does not have.
struct NoData {};

/// The return type of the function that makes a member. The trainer must have the sweep's probe among its callbacks.
/// The data are one loader or data module, or one for training and one for validation, or none, if the model has the
/// loaders:
///
///     [&](Setting const& setting, auto probe) {
///       return tune::Member{Net(setting), make_trainer<Net>(options, SingleDevice{cpu}, NoDefaults{}, probe),
///                           data};  // copied: the copies have the same tensors
///     }
template <class M, class T, class Train = NoData, class Val = NoData>
struct Member {
  using Model = M;
  using Trainer = T;

  M model;
  T trainer;
  Train train = {};
  Val validation = {};

  /// Trains the member by `trainer.fit(model, train, validation)`.
  void fit() {
    if constexpr (std::is_same_v<Train, NoData>) trainer.fit(model);
    else if constexpr (std::is_same_v<Val, NoData>) trainer.fit(model, seen(train));
    else trainer.fit(model, seen(train), seen(validation));
  }

 private:
  template <class D>
  static D& seen(D& data) {
    return data;
  }
  template <class Batches>
  static Batches const& seen(Shared<Batches>& data) {
    return *data.batches;
  }
};
template <class M, class T, class... Data>
Member(M, T, Data...) -> Member<M, T, Data...>;

/// True if T is a Member.
template <class T>
inline constexpr bool is_member = is_of<Member, T>;
/// True if a member has data that it may read; false after `shared` has refused them, so that no second error follows.
template <class T>
inline constexpr bool has_data = false;
template <class M, class T, class Train, class Val>
inline constexpr bool has_data<Member<M, T, Train, Val>> =
    !std::is_same_v<Train, NotShared> && !std::is_same_v<Val, NotShared>;

namespace judge_member {

/// The parts of a trainer's type.
template <class T>
struct Parts;
template <class M, class S, class P, class O, class... Cs>
struct Parts<fulgurite::Trainer<M, S, P, O, Cs...>> {
  using Strategy = S;
  template <class Callback>
  static constexpr bool has = (std::is_same_v<Callback, Cs> || ...);
  static constexpr bool catches_signals = (requires { Cs::catches_signals; } || ...);
  static constexpr bool draws_on_terminal = (requires { Cs::draws_on_terminal; } || ...);
  static constexpr bool records_process = (requires { Cs::records_process; } || ...);
};

/// Checks that a member can be trained in parallel with others. Each rule has one error message.
template <class Probe, class Member>
consteval bool can_be_swept() {
  using Has = Parts<typename Member::Trainer>;
  using S = typename Has::Strategy;
  constexpr bool sees = Has::template has<Probe>;
  constexpr bool on_cpu = S::on_gpu != Known::yes && !S::is_distributed;
  constexpr bool apart = requires { typename S::Backend::Apart; };
  static_assert(sees, "[fulgurite.tune.probe] the sweep cannot see this member: put the probe, which the function that "
                      "makes it gets, among the callbacks of its trainer");
  static_assert(on_cpu,
                "[fulgurite.tune.device] members of a sweep train on the CPU, in one process: random numbers of "
                "a GPU belong to all of them");
  static_assert(apart, "[fulgurite.tune.backend] this tensor library has no random numbers for one thread alone: its "
                       "backend needs a class Apart");
  static_assert(!Has::catches_signals, "[fulgurite.tune.signals] the sweep ends its members itself after Ctrl-C: leave "
                                       "Signals out of their trainers");
  static_assert(!Has::draws_on_terminal, "[fulgurite.tune.terminal] bars of several members would overwrite one "
                                         "another: give their trainers NoDefaults{} or NoProgressBar{}, and say "
                                         ".verbose = true to the sweep");
  static_assert(!Has::records_process, "[fulgurite.tune.profiler] there is one recording of operators in a process: "
                                       "leave AdvancedProfiler out, and record a fit of one setting by itself");
  return sees && on_cpu && apart && !Has::catches_signals && !Has::draws_on_terminal && !Has::records_process &&
         has_data<Member>;
}

}  // namespace judge_member

// The threads of a sweep: they make the members, train them, and keep the best one.

/// An error that concerns all members; it ends the sweep.
class Refusal : public Error {
 public:
  using Error::Error;
};

/// A running sweep: each member is made and trained in a thread of its own, and the race limits how many run at a time.
template <class Make, class Setting, class M>
class Heat {
 public:
  using Probe = tune::Probe<M>;
  using Member = std::remove_cvref_t<std::invoke_result_t<Make&, Setting const&, Probe>>;
  using Backend = typename Member::Trainer::Run::Backend;

  Heat(Make& make, Space<Setting> const& space, M metric, SweepOptions const& options)
      : make_(make),
        space_(space),
        metric_(metric),
        options_(options),
        threads_(threads_of(options, space.settings.size())),
        race_(std::make_shared<Race>(space.settings.size(), threads_, options)),
        members_(space.settings.size()) {}

  SweepResults<Setting, Member> run() {
    {
      CaughtSignals const caught({SIGINT, SIGTERM});
      Threads threads{std::vector<std::thread>(members_.size())};
      auto const poll = [&] {
        if (int const signal = CaughtSignals::caught(); signal != 0 && !race_->ended()) race_->end(signal);
      };
      try {
        for (std::size_t i = 0; i != members_.size() && race_->take_turn(i, poll); ++i) {
          threads.all[i] = std::thread([this, i] { train(i); });
          for (std::size_t j = 0; j != i; ++j)
            if (threads.all[j].joinable() && race_->has_ended(j)) threads.all[j].join();
        }
        race_->wait_for_all(poll);
      } catch (...) {
        race_->end(0);  // a thread failed to start
        throw;
      }
    }
    if (refused_) std::rethrow_exception(refused_);
    return results();
  }

 private:
  struct Threads {
    std::vector<std::thread> all;
    ~Threads() {
      for (auto& thread : all)
        if (thread.joinable()) thread.join();
    }
  };

  void train(std::size_t i) {
    auto fate = Fate::failed;
    std::string why;
    try {
      [[maybe_unused]] auto const own = apart_.thread(options_.seed);
      make(i);
      check(*members_[i]);
      members_[i]->fit();
      check_random();
      if (race_->standing(i).value) fate = Fate::completed;
      else why = WatchedMetric(metric_).written() + " was not logged by the end of the fit";
    } catch (Interrupted const& interrupted) {
      fate = Fate::interrupted;
      race_->end(interrupted.signal());
    } catch (SweepEnded const&) { fate = Fate::interrupted; } catch (Refusal const&) {
      std::lock_guard const lock(one_at_a_time_);
      if (!refused_) refused_ = std::current_exception();
      race_->end(0);
    } catch (std::exception const& error) { why = error.what(); } catch (...) {
      why = "an exception that is no std::exception";
    }
    settle(i, fate, std::move(why));
  }

  /// Called by one thread at a time, since the user's function may use data that all threads share.
  void make(std::size_t i) {
    std::lock_guard const lock(one_at_a_time_);
    race_->require_running();
    members_[i].reset(new Member(make_(space_.settings[i], Probe(metric_, race_, i))));  // constructed in place
    check_random();
  }

  void check(Member const& member) const {
    auto const& options = member.trainer.options();
    using Run = typename Member::Trainer::Run;
    if constexpr (Run::Strategy::on_gpu == Known::at_run_time)
      if (member.trainer.strategy().is_on_gpu())
        throw Refusal("fulgurite.tune.device", "members of a sweep train on the CPU, since random numbers of a GPU "
                                               "belong to all of them: use SingleDevice{cpu}");
    if constexpr (Run::Precision::autocasts)
      if (threads_ > 1)
        throw Refusal("fulgurite.tune.autocast", "a mixed precision keeps what it has cast in one place for the whole "
                                                 "process, where members would drop one another's: say .threads = 1, "
                                                 "or use Float32{} or Bf16True{}");
    if (options_.rungs.empty()) return;
    if (options.min_epochs.value_or(0) > 0 || options.min_steps.value_or(0) > 0)
      throw Refusal("fulgurite.tune.minima", "a member that is not kept ends at a rung, and min_epochs or min_steps "
                                             "would make it continue: leave them out, or the rungs");
    if (options.max_time)
      throw Refusal("fulgurite.tune.max_time",
                    "max_time would keep running while a member waits at a rung for the others: "
                    "set max_epochs, or leave the rungs out");
    if (auto const most = options.max_epochs; most && *most >= 0 && options_.rungs.back() > *most)
      throw Refusal("fulgurite.tune.rungs", "a rung after " + std::to_string(options_.rungs.back()) +
                                                " epochs is never reached where max_epochs = " + std::to_string(*most));
  }

  /// Throws if the process's random numbers were used: members draw from their own generators, and would otherwise
  /// differ from members trained alone.
  void check_random() {
    if (!apart_.disturbed()) return;
    throw Refusal("fulgurite.tune.process_random",
                  "random numbers of the whole process were drawn or seeded while members trained, which have their "
                  "own: leave out manual_seed (.seed of the sweep does it), draw in the member's own thread and not "
                  "in workers, and nothing beside the sweep");
  }

  void settle(std::size_t i, Fate fate, std::string why) {
    auto const now = race_->ended(i, fate, std::move(why));
    std::lock_guard const lock(one_at_a_time_);
    ++done_;
    keep(i, now);
    if (options_.verbose) print_lines(stderr, line(i, now) + "\n");
  }

  /// Frees the models of members that can no longer be the best. With rungs all members are kept: all of them exist at
  /// the same time anyway, and the next rung may change their order.
  void keep(std::size_t i, Standing const& now) {
    bool const counts = now.has_value();
    if (!counts) members_[i].reset();
    if (!counts || !options_.rungs.empty()) return;
    bool const better = !best_ || is_before(i, now, *best_, race_->standing(*best_));
    if (better && best_) members_[*best_].reset();
    if (!better) members_[i].reset();
    if (better) best_ = i;
  }
  /// Among equals the member with the lower index is first.
  bool is_before(std::size_t i, Standing const& a, std::size_t j, Standing const& b) const {
    return before(options_.mode.mode, a, b) || (i < j && !before(options_.mode.mode, b, a));
  }

  std::string line(std::size_t i, Standing const& now) const {
    auto text = "sweep: " + std::to_string(done_) + " of " + std::to_string(members_.size()) + ", member " +
                std::to_string(i) + ' ';
    (text += name_of(now.fate)) += " after " + std::to_string(now.epochs()) + " epochs";
    if (now.value) append_item(text, WatchedMetric(metric_).written() + " = " + report::formatted("%.6g", *now.value));
    if (!now.why.empty()) (text += ": ") += now.why;
    return text;
  }

  SweepResults<Setting, Member> results() {
    race_->close();
    std::vector<SweepRow<Setting>> rows;
    for (std::size_t i = 0; i != members_.size(); ++i) rows.push_back({race_->standing(i), i, space_.settings[i]});
    std::ranges::sort(rows, [&](auto const& a, auto const& b) { return is_before(a.member, a, b.member, b); });
    auto best = rows.front().has_value() ? std::move(members_[rows.front().member]) : nullptr;
    return {WatchedMetric(metric_).written(), space_.columns, std::move(rows), std::move(best), race_->signal()};
  }

  Make& make_;
  Space<Setting> const& space_;
  M metric_;
  SweepOptions const& options_;
  std::size_t threads_;
  typename Backend::Apart apart_{};
  std::shared_ptr<Race> race_;
  std::mutex one_at_a_time_;
  std::vector<std::unique_ptr<Member>> members_;
  std::optional<std::size_t> best_ = std::nullopt;
  std::size_t done_ = 0;
  std::exception_ptr refused_ = nullptr;
};

namespace sweeping {

template <class Make, class Setting, class Probe>
consteval bool makes_members() {
  if constexpr (std::invocable<Make&, Setting const&, Probe>)
    return is_member<std::remove_cvref_t<std::invoke_result_t<Make&, Setting const&, Probe>>>;
  else return false;
}

template <class Make, class Setting, class Probe>
consteval bool judged() {
  constexpr bool makes = makes_members<Make, Setting, Probe>();
  static_assert(makes,
                "[fulgurite.tune.make] the function that makes a member takes (Setting const&, probe) and returns "
                "tune::Member{model, trainer, data}");
  if constexpr (!makes) return false;
  else
    return judge_member::can_be_swept<Probe, std::remove_cvref_t<std::invoke_result_t<Make&, Setting const&, Probe>>>();
}

}  // namespace sweeping

/// Trains one member for each setting of the space, several at a time, each in a thread of its own with its own random
/// numbers and one core. The bits are those of the same member trained alone after seeding with `.seed`.
///
///     auto const results = tune::sweep(
///         [&](Setting const& setting, auto probe) {
///           return tune::Member{Net(setting), make_trainer<Net>(options, SingleDevice{cpu}, Float32{}, Automatic{},
///                                                               probe), data};
///         },
///         tune::grid(tune::values<&Setting::rate>(1e-3, 1e-2), tune::values<&Setting::width>(32, 64)),
///         Net::val_accuracy, {.mode = Mode::max, .rungs = {1, 3}});
///     std::cout << results.table();
///
/// `make` is called in the member's thread, by one thread at a time. A member that throws becomes a row with the
/// message. After Ctrl-C (SIGINT) or SIGTERM all members end after their batch, and the results so far are returned; a
/// second signal ends the program. With rungs, a waiting member keeps its thread. Throws an Error for a problem that
/// concerns all members, and if any code draws from the process's random numbers meanwhile.
template <class Make, class Setting, Watchable M>
auto sweep(Make&& make, Space<Setting> const& space, M metric, SweepOptions const& options) {
  using MakeType = std::remove_reference_t<Make>;
  constexpr bool fits = sweeping::judged<MakeType, Setting, Probe<M>>();
  if constexpr (fits) {
    tune::check(options);
    if (space.settings.empty())
      throw Error("fulgurite.tune.empty", "a space without a setting: a sweep has one member or more");
    return Heat<MakeType, Setting, M>(make, space, metric, options).run();
  }
}

}  // namespace fulgurite::tune
