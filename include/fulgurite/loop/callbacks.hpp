#pragma once
// The callbacks of a run as a list that does not depend on their types: each type has one table of functions, so that
// rare operations on all callbacks are ordinary loops. The actions that a program names for the profilers among them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// How a run ended, for loggers.
enum class Status : std::uint8_t { success, failed };

/// The result of `ctx.profile("name")`. The action lasts as long as this object. Empty if there is no profiler.
class OwnAction {
 public:
  struct Held : Pinned {
    Held() = default;
    virtual ~Held() = default;
  };
  OwnAction() = default;
  explicit OwnAction(std::unique_ptr<Held> held) : held_(std::move(held)) {}

 private:
  std::unique_ptr<Held> held_{};
};

namespace loop {

// The facts and functions that a run needs of a callback.

/// True if a participant gives the key of its state itself.
template <class C>
concept SaysKey = requires(C const& participant) { std::string(participant.state_key()); };

/// The key with the type appended, unless it begins with the type. So a state is never loaded into another type.
std::string key_with_type(std::string key, std::string_view type);

/// The name under which a participant's state is kept: its `state_key()` with its type, or else the name of its type.
template <class C>
auto state_key_of(C const& participant) {
  if constexpr (SaysKey<C>) return key_with_type(participant.state_key(), type_name<C>());
  else return type_name<C>();
}

/// True for a callback that reports, measures or saves, which barebones does not allow.
template <class C>
inline constexpr bool is_output = hook::log_metrics::named<C> || Profiler<C> || order_of<C>() == Order::progress ||
                                  order_of<C>() == Order::summary || order_of<C>() == Order::checkpoint;
/// True for a callback that reads metrics; barebones keeps none.
template <class Watches>
inline constexpr bool watches_some = false;
template <class M, class... Ms>
inline constexpr bool watches_some<MetricTypes<M, Ms...>> = true;
template <class C>
consteval bool is_watcher() {
  if constexpr (requires { typename C::Watches; }) return watches_some<typename C::Watches>;
  else return false;
}
/// True for a callback that does nothing in a fast_dev_run, because it saves, stops or logs for a real run.
template <class C>
consteval bool is_inert_in_dev_run() {
  if constexpr (FULGURITE_SAYS(C, bool, inert_in_dev_run)) return C::inert_in_dev_run;
  else return hook::log_metrics::named<C>;
}

/// The type of a callback as facts and functions. A function that the callback does not have is null.
struct CallbackTable {
  std::string_view type;   ///< the name of the type
  std::size_t size;        ///< of an object, in bytes; 0 if it is empty
  bool says_key;           ///< true if it has `state_key()`
  bool keeps_checkpoints;  ///< true if it saves files during training
  bool prepares_saving;    ///< true if it has `before_save` or `after_save`
  bool resumes_fit;        ///< true if a fit without a CkptPath resumes from a file of this callback
  bool knows_runs;         ///< true if it is a logger that knows the folders of its runs
  bool is_for_output;      ///< true if barebones does not allow it
  bool is_inert_in_dev_run;

  std::string (*state_key)(void const* callback);
  void (*save)(void* callback, StateSaver& archive);
  void (*load)(void* callback, StateLoader& archive);
  void (*log_metrics)(void* callback, std::span<Scalar const> row, long step);
  ProfiledAction const& (*log_metrics_action)();  ///< set if there is a profiler
  void (*log_hyperparams)(void* callback, std::span<Hyperparameter const> all);
  void (*finalize)(void* callback, Status status);
  void (*expect_again)(void* callback, long rows);
  void (*do_not_continue)(void* callback);
  void (*continue_in)(void* callback, std::filesystem::path const& folder);
  void (*end_if_asked)(void* callback);
  bool (*limits_time)(void* callback);
  bool (*resumes_hpc)(void* callback);
  std::vector<std::filesystem::path> (*last_checkpoints)(void* callback, CheckpointSearch const& search);
  std::vector<std::filesystem::path> (*hpc_checkpoints)(void* callback, CheckpointSearch const& search);
  std::vector<std::filesystem::path> (*earlier_runs)(void* callback, TrainerOptions const& options);
  std::filesystem::path (*best_model_path)(void* callback);
};

/// Makes the table of a type.
template <class C, bool Profiled>
struct CallbackTableOf {
  using Paths = std::vector<std::filesystem::path>;

  /// Converts any range of file names.
  static Paths as_paths(auto&& files) {
    if constexpr (std::is_same_v<decltype(files), Paths&&>) return std::move(files);
    else return Paths(std::begin(files), std::end(files));
  }
  /// A hook of a callback as a function of the callback's address; null if the callback has no such hook.
  template <class Hook, class Result, class... Args>
  static consteval auto hook_function() {
    using Function = Result (*)(void*, Args...);
    constexpr bool lists = std::is_same_v<Result, Paths>;
    if constexpr (!Hook::template accepts<C, std::remove_reference_t<Args>...>) return Function(nullptr);
    else if constexpr (lists)
      return Function(
          [](void* callback, Args... args) { return as_paths(Hook::call(*static_cast<C*>(callback), args...)); });
    else if constexpr (requires(C& callback, std::remove_reference_t<Args>&... args) {
                         static_cast<Result>(Hook::call(callback, args...));
                       })
      return Function([](void* callback, Args... args) {
        return static_cast<Result>(Hook::call(*static_cast<C*>(callback), args...));
      });
    else return Function(nullptr);
  }
  /// The function by which a callback lists files; its search argument is optional.
  template <class Hook>
  static consteval auto search_function() {
    using Function = Paths (*)(void*, CheckpointSearch const&);
    if constexpr (!Hook::template accepts<C, CheckpointSearch const> && Hook::template accepts<C>)
      return Function(
          [](void* callback, CheckpointSearch const&) { return as_paths(Hook::call(*static_cast<C*>(callback))); });
    else return hook_function<Hook, Paths, CheckpointSearch const&>();
  }
  static std::string state_key(void const* callback) {
    return std::string(state_key_of(*static_cast<C const*>(callback)));
  }
  template <class Archive>
  static consteval auto state_function() {
    using Function = void (*)(void*, Archive&);
    if constexpr (Stateful<C, Archive>)
      return Function([](void* callback, Archive& archive) { static_cast<C*>(callback)->state(archive); });
    else return Function(nullptr);
  }
  static consteval auto log_metrics_action() {
    using Function = ProfiledAction const& (*)();
    if constexpr (Profiled && hook::log_metrics::named<C>)
      return Function(&action::action_of<action::HookOf<"Logger", C, hook::log_metrics, RunPart::logging>>);
    else return Function(nullptr);
  }
  static consteval auto expect_again() {
    using Function = void (*)(void*, long);
    if constexpr (requires(C& callback, long rows) { callback.expect_again(rows); })
      return Function([](void* callback, long rows) { static_cast<C*>(callback)->expect_again(rows); });
    else return Function(nullptr);
  }
  static consteval bool knows_runs() {
    return hook::earlier_runs::accepts<C, TrainerOptions const> || requires(C& callback) { callback.log_dir(); };
  }

  static constexpr CallbackTable table{
      .type = type_name<C>(),
      .size = std::is_empty_v<C> ? 0 : sizeof(C),
      .says_key = SaysKey<C>,
      .keeps_checkpoints = judge::keeps_checkpoints<C>(),
      .prepares_saving = hook::before_save::named<C> || hook::after_save::named<C>,
      .resumes_fit = loop::resumes_fit<C>,
      .knows_runs = knows_runs(),
      .is_for_output = is_output<C> || is_watcher<C>(),
      .is_inert_in_dev_run = loop::is_inert_in_dev_run<C>(),
      .state_key = &state_key,
      .save = state_function<StateSaver>(),
      .load = state_function<StateLoader>(),
      .log_metrics = hook_function<hook::log_metrics, void, std::span<Scalar const>, long>(),
      .log_metrics_action = log_metrics_action(),
      .log_hyperparams = hook_function<hook::log_hyperparams, void, std::span<Hyperparameter const>>(),
      .finalize = hook_function<hook::finalize, void, Status>(),
      .expect_again = expect_again(),
      .do_not_continue = hook_function<hook::do_not_continue, void>(),
      .continue_in = hook_function<hook::continue_in, void, std::filesystem::path const&>(),
      .end_if_asked = hook_function<hook::end_if_asked, void>(),
      .limits_time = hook_function<hook::limits_time, bool>(),
      .resumes_hpc = hook_function<hook::resumes_hpc, bool>(),
      .last_checkpoints = search_function<hook::last_checkpoints>(),
      .hpc_checkpoints = search_function<hook::hpc_checkpoints>(),
      .earlier_runs = hook_function<hook::earlier_runs, Paths, TrainerOptions const&>(),
      .best_model_path = hook_function<hook::best_model_path, std::filesystem::path>(),
  };
};

/// A callback of a run.
struct AnyCallback {
  void* object;
  CallbackTable const* table;
  std::size_t given;  ///< its position among the arguments of make_trainer

  std::string state_key() const { return table->state_key(object); }
  void state(StateSaver& archive) const { table->save(object, archive); }
  void state(StateLoader& archive) const { table->load(object, archive); }
};

/// The callbacks of a run, in firing order.
using Callbacks = std::span<AnyCallback const>;

template <class... Cs>
std::array<AnyCallback, sizeof...(Cs)> callbacks_of(Pack<Cs...>& pack) {
  std::array<AnyCallback, sizeof...(Cs)> all;
  pack.each([at = all.data(), given = Pack<Cs...>::firing_order.data()]<class C>(C& callback) mutable {
    *at++ = {&callback, &CallbackTableOf<C, Pack<Cs...>::profiles>::table, *given++};
  });
  return all;
}

// The names under which participants keep their states in the run's files.

/// The names of all callbacks in firing order: those of `each_remembering`, and of callbacks without a state. Files use
/// them to say who was notified of an event.
std::vector<std::string> names_of_callbacks(Callbacks callbacks);

/// The name of the callback at this address; a base or a member of it is enough. Empty if there is none.
std::string name_of_callback(Callbacks callbacks, void const* part);

/// Calls f(callback, name) for each callback that has a state. Returns the names.
std::set<std::string> each_remembering(Callbacks callbacks,
                                       FunctionRef<void(AnyCallback const&, std::string const& name)> f);

// Optional functions of callbacks: each function here calls them for all callbacks that have them.

/// Throws if the program should end. Called between the batches of a pass without hooks, and when a run has ended well.
void end_if_asked(Callbacks callbacks);
void finalize_loggers(Callbacks callbacks, Status status);
/// Notifies loggers how many of their last rows will be written again by a fit that resumes from the file written next.
void expect_rows(Callbacks callbacks, long rows);

// Actions that a program names for profilers.

/// Part of a run's state: gives contexts, which do not know the callbacks' types, access to the profilers among them.
class OwnActions {
 public:
  /// Sets the pack of callbacks for the next run.
  template <class Pack>
  void given_to(Pack& pack) {
    if constexpr (Pack::profiles) {
      pack_ = &pack;
      open_ = [](void* to, ProfiledAction const& action) -> std::unique_ptr<OwnAction::Held> {
        struct Held : OwnAction::Held {
          Held(Pack& p, ProfiledAction const& a) : watched(p.watch(a)) {}
          decltype(std::declval<Pack&>().watch(std::declval<ProfiledAction const&>())) watched;
        };
        return std::make_unique<Held>(*static_cast<Pack*>(to), action);
      };
    }
  }
  OwnAction begin(std::string_view name);
  /// Begins an action of the library, for code that is no template.
  OwnAction begin(ProfiledAction const& action);
  /// Begins the writing of a checkpoint, which has Lightning's name for it.
  OwnAction begin_saving();

 private:
  void* pack_ = nullptr;
  std::unique_ptr<OwnAction::Held> (*open_)(void*, ProfiledAction const&) = nullptr;
  std::map<std::string, ProfiledAction, std::less<>> actions_{};
};

}  // namespace loop
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/callbacks.ipp>
#endif
