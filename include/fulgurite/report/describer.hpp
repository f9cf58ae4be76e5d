#pragma once
// The description of a trainer's types, as a constant: its parts, which parts are notified of each event and in which
// order, what is off, and what a checkpoint contains.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::report {

/// Collects a text at compile time; without memory it only counts. It is not a template, so that the functions which
/// write to it are compiled once for both uses.
struct TextBuilder {
  char* text;
  std::size_t size = 0;

  constexpr explicit TextBuilder(char* memory = nullptr) : text(memory) {}

  constexpr TextBuilder& operator<<(std::string_view more) {
    if (text != nullptr) std::copy(more.begin(), more.end(), text + size);
    size += more.size();
    auto const end = more.rfind('\n');
    line_ = end == more.npos ? line_ + more.size() : more.size() - end - 1;
    return *this;
  }
  /// Appends spaces up to a column of the last line, at least one.
  constexpr TextBuilder& to_column(std::size_t column) {
    do *this << " ";
    while (line_ < column);
    return *this;
  }

 private:
  std::size_t line_ = 0;  ///< characters in the current line
};

// A description before it becomes text: parts, which the compiler assembles quickly for each trainer type, and which
// ordinary code converts to text.

/// A text, a column up to which spaces follow, or a line for a hook: its name, and the parts that have it, in the order
/// in which they are notified.
struct DescribedPart {
  enum class Kind : std::uint8_t { text, column, hook };
  char const* text = nullptr;
  std::uint16_t size = 0;  ///< length of the text; or the column
  Kind kind = Kind::text;
  std::uint8_t indent = 0;  ///< for a hook
  bool model = false, strategy = false;
  bool model_before_monitors = false;  ///< false: the model follows all callbacks
};

/// Collects parts at compile time; without memory it only counts.
struct DescribedParts {
  DescribedPart* parts = nullptr;
  bool* who = nullptr;  ///< which callbacks have a hook, in order of declaration: a group for each hook
  std::size_t size = 0, who_size = 0;

  constexpr DescribedParts& operator<<(std::string_view text) {
    if (!text.empty()) add({text.data(), static_cast<std::uint16_t>(text.size())});
    return *this;
  }
  constexpr DescribedParts& to_column(std::uint16_t column) {
    add({nullptr, column, DescribedPart::Kind::column});
    return *this;
  }
  constexpr void hook(std::string_view name, std::size_t indent, std::span<bool const> callbacks, bool model = false,
                      bool strategy = false, bool model_before_monitors = false) {
    add({name.data(), static_cast<std::uint16_t>(name.size()), DescribedPart::Kind::hook,
         static_cast<std::uint8_t>(indent), model, strategy, model_before_monitors});
    if (who != nullptr) std::copy(callbacks.begin(), callbacks.end(), who + who_size);
    who_size += callbacks.size();
  }

 private:
  constexpr void add(DescribedPart const& part) {
    if (parts != nullptr) parts[size] = part;
    ++size;
  }
};

/// The parts of one trainer type, and the names that occur in the lines for hooks.
struct Description {
  std::span<DescribedPart const> parts;
  std::span<bool const> who;
  std::string_view model, strategy;
  std::span<std::string_view const> callbacks;  ///< names of their types, in order of declaration
  std::span<Order const> orders;                ///< the Order of each callback
  std::span<std::size_t const> firing_order;    ///< positions of the callbacks

  /// Writes the text to the builder, and returns the builder.
  constexpr TextBuilder write(TextBuilder out) const {
    auto rest = who;
    for (auto const& part : parts) {
      if (part.kind == DescribedPart::Kind::text) {
        out << std::string_view(part.text, part.size);
      } else if (part.kind == DescribedPart::Kind::column) {
        out.to_column(part.size);
      } else {
        line(out, part, rest.first(callbacks.size()));
        rest = rest.subspan(callbacks.size());
      }
    }
    return out;
  }

 private:
  /// Writes the line of a hook; nothing if no part has the hook.
  constexpr void line(TextBuilder& out, DescribedPart const& hook, std::span<bool const> have) const {
    bool any = false;
    auto const name = [&](std::string_view one) {
      if (any) out << ", ";
      else (out << blanks.substr(0, hook.indent) << std::string_view(hook.text, hook.size)).to_column(34);
      out << one;
      any = true;
    };
    auto const name_callbacks = [&](bool behind_model) {
      for (std::size_t const at : firing_order)
        if (have[at] && (hook.model_before_monitors && orders[at] >= Order::monitor) == behind_model)
          name(callbacks[at]);
    };
    name_callbacks(false);
    if (hook.model) name(model);
    name_callbacks(true);
    if (hook.strategy) name(strategy);
    if (any) out << "\n";
  }
  static constexpr std::string_view blanks = "      ";
};

// The optional functions of a part that are not events: functions of callbacks, optimizers, schedules, strategies and
// loaders that the loops only call if they exist.

/// Calls f(name) if `T` has the function with these arguments.
template <class Hook, class T, class... Args, class F>
constexpr void name_if(F& f) {
  if constexpr (Hook::template accepts<T, Args...>) f(Hook::name());
}

/// Calls f(name) for each optional function that an optimizer has.
template <class O, class F>
constexpr void each_function_of_optimizer(F f) {
  using namespace hook::of_optimizer;
  name_if<momentum, O, std::size_t>(f);
  name_if<set_momentum, O, std::size_t, double>(f);
  name_if<weight_decay, O, std::size_t>(f);
  name_if<group_name, O, std::size_t>(f);
  name_if<gradients_finite, O>(f);
  name_if<received, O>(f);
  if constexpr (Stateful<O, ArchiveProbe>) f(std::string_view("state"));
}

/// Calls f(name) for each optional function that a schedule on an optimizer `O` has.
template <class S, class O, class F>
constexpr void each_function_of_schedule(F f) {
  using namespace hook::of_schedule;
  name_if<attach, S, O>(f);
  name_if<move, S, O>(f);
  name_if<hook::of_schedule::metric, S const>(f);
  name_if<strict, S const>(f);
  name_if<observe, S, double, O>(f);
  name_if<momentum, S const, long>(f);
  name_if<moves_momentum, S const>(f);
  name_if<check, S const>(f);
  if constexpr (Stateful<S, ArchiveProbe>) f(std::string_view("state"));
}

/// Calls f(name) for each optional function that a strategy has, except for those around a step.
template <class S, class F>
constexpr void each_function_of_strategy(F f) {
  using namespace hook::of_strategy;
  name_if<world, S>(f);
  name_if<local_rank, S>(f);
  name_if<agree, S, bool>(f);
  name_if<reduce, S, double, Reduce>(f);
  name_if<reduce_in_place, S, std::span<double>, std::span<Reduce const>>(f);
  name_if<reduce_gradients, S, std::span<double>, std::tuple<>>(f);
  if constexpr (broadcast::accepts_given<S, std::string>) f(broadcast::name());
  if constexpr (gather::accepts_given<S, std::string>) f(gather::name());
  name_if<barrier, S, std::string_view>(f);
  name_if<matmul_scope, S>(f);
  name_if<share_state, S, std::tuple<>>(f);
  name_if<whole_state, S, std::tuple<>>(f);
  name_if<share_statistics, S, std::tuple<>>(f);
  if constexpr (abort::accepts_given<S, char const*>) f(abort::name());
  name_if<hook::account, S>(f);
}

/// Calls f(name) for each function of a callback that names files, or of a logger that concerns its folders.
template <class C, class F>
constexpr void each_function_of_callback(F f) {
  if constexpr (loop::SaysKey<C>) f(hook::state_key::name());
  if constexpr (loop::NamesLast<C>) f(hook::last_checkpoints::name());
  if constexpr (loop::NamesHpc<C>) f(hook::hpc_checkpoints::name());
  name_if<hook::resumes_hpc, C>(f);
  if constexpr (loop::NamesBest<C>) f(hook::best_model_path::name());
  name_if<hook::do_not_continue, C>(f);
  name_if<hook::continue_in, C, std::filesystem::path const>(f);
  name_if<hook::earlier_runs, C, TrainerOptions const>(f);
}

/// Calls f(name) for each function that a loader has in addition to `begin` and `end`.
template <class L, class F>
constexpr void each_function_of_loader(F f) {
  if constexpr (SizedLoader<L>) f(std::string_view("size"));
  if constexpr (SettableBatchSize<L>) f(std::string_view("batch_size"));
  if constexpr (ShardableLoader<L>) f(std::string_view("shard"));
  name_if<hook::set_epoch, L, long>(f);
  name_if<hook::in_order, L, bool>(f);
  name_if<hook::limit_each, L, double>(f);
  name_if<hook::resume_at, L, long>(f);
  name_if<hook::batch_is_ready, L>(f);
  if constexpr (Stateful<L, ArchiveProbe>) f(std::string_view("state"));
}

/// The name of a group of callbacks.
constexpr std::string_view order_name(Order order) {
  constexpr std::array<std::string_view, 8> names{"profiler", "tuner",   "normal",  "timer",
                                                  "progress", "summary", "monitor", "checkpoint"};
  return names[static_cast<std::size_t>(order)];
}

/// The description of one trainer type.
template <class M, class S, class P, class O, class... Cs>
class Describer {
 public:
  DescribedParts out;

  constexpr explicit Describer(DescribedParts memory = {}) : out(memory) {
    head();
    fit();
    evaluation(hook::validation_step{}, "validation");
    evaluation(hook::test_step{}, "test");
    evaluation(hook::predict_step{}, "predict");
    rows();
    functions();
    off();
    state();
  }
  static constexpr Description describe(std::span<DescribedPart const> parts, std::span<bool const> who) {
    return {parts, who, model, strategy, names, group, Callbacks::firing_order};
  }

 private:
  using R = Run<M, S, P, O>;
  using Callbacks = Pack<Cs...>;
  static constexpr bool automatic = O::automatic;
  static constexpr bool scheduled = []<class... Ss>(std::type_identity<std::tuple<Ss...>>) {
    return (Ss::exists || ...);
  }(std::type_identity<decltype(loop::Optimizers<R>::schedulers)>{});
  static constexpr std::string_view model = type_name<M>(), strategy = type_name<S>();
  static constexpr std::array<std::string_view, sizeof...(Cs)> names{type_name<Cs>()...};
  static constexpr std::array<Order, sizeof...(Cs)> group{order_of<Cs>()...};
  static constexpr std::array<bool, sizeof...(Cs)> none{};
  template <class Hook>
  static constexpr std::array<bool, sizeof...(Cs)> have{Hook::template named<Cs>...};

  template <std::size_t I>
  using At = typename Callbacks::template At<Callbacks::firing_order[I]>;
  template <class F>
  static constexpr void each_callback(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f.template operator()<At<I>>(names[Callbacks::firing_order[I]]), ...);
    }(std::make_index_sequence<sizeof...(Cs)>{});
  }

  /// Adds the line of a hook, if any part has it: the parts that are notified, in order.
  template <class Hook>
  constexpr void event(Hook, std::string_view indent) {
    if (automatic || Hook::in_manual)
      out.hook(Hook::name(), indent.size(), have<Hook>, Hook::template named<M>,
               loop::strategy_listens<Hook> && Hook::template named<S>, hook::model_before_monitors<Hook>);
  }
  /// Adds a function that only callbacks have, and which of them have it.
  template <class Hook>
  constexpr void of_callbacks(Hook, std::string_view indent) {
    out.hook(Hook::name(), indent.size(), have<Hook>);
  }
  /// Adds a function that a strategy may have.
  template <class Hook>
  constexpr void of_strategy(Hook, std::string_view indent) {
    out.hook(Hook::name(), indent.size(), none, false, Hook::template named<S>);
  }
  /// Adds the action of a hook that a model may override: the model if it has the function, else `otherwise`.
  template <class Hook>
  constexpr void action(Hook, std::string_view indent, std::string_view otherwise) {
    if (!automatic && !Hook::in_manual) return;
    (out << indent << Hook::name()).to_column(34) << (Hook::template named<M> ? model : otherwise) << "\n";
  }

  constexpr void head() {
    out << "Trainer of " << model << "\n  strategy      " << strategy << "\n  precision     " << type_name<P>()
        << "\n  optimization  " << type_name<O>() << "\n  optimizers    ";
    optimizers(static_cast<typename loop::AsList<judge::Returned<R>>::type*>(nullptr));
    out << "\n  metrics       ";
    bool any = false;
    R::Metrics::each([&](std::size_t, auto const& metric) {
      out << (any ? ", " : "") << metric.name() << (metric.prog_bar ? " (bar)" : "");
      any = true;
    });
    out << (any ? "\n" : "none\n");
    if (sizeof...(Cs) != 0) out << "  callbacks, in firing order\n";
    each_callback([&]<class C>(std::string_view name) {
      out << "    " << order_name(order_of<C>());
      out.to_column(16) << name;
      touches<C>();
      out << "\n";
    });
  }
  template <class... Os>
  constexpr void optimizers(OptimizerList<Os...>*) {
    bool any = false;
    (optimizer<Os>(any), ...);
  }
  template <class T>
  constexpr void optimizer(bool& any) {
    using Entry = loop::Entry<typename R::Backend, T>;
    out << (std::exchange(any, true) ? ", " : "") << type_name<typename judge::Parts<T>::Optimizer>();
    schedules(std::type_identity<typename Entry::Schedulers>{});
  }
  template <class... Ss>
  constexpr void schedules(std::type_identity<std::tuple<Ss...>>) {
    std::string_view before = " with ";
    auto const one = [&]<class Scheduler>(std::type_identity<Scheduler>) {
      if constexpr (Scheduler::exists)
        out << std::exchange(before, " and ") << type_name<typename Scheduler::Schedule>();
    };
    (one(std::type_identity<Ss>{}), ...);
  }
  /// Adds what a callback reads and writes, from its constants `Watches`, `reads` and `writes`.
  template <class C>
  constexpr void touches() {
    bool any = false;
    auto const read = [&](std::string_view what) {
      if (what.empty()) return;
      if (!any) out.to_column(42);
      out << (any ? ", " : "reads ") << what;
      any = true;
    };
    if constexpr (judge::SaysWatches<C>)
      [&]<class... Ms>(MetricTypes<Ms...>) { (read(Ms::name()), ...); }(typename C::Watches{});
    // Only texts that are constants count. A data member of that name means something else.
    if constexpr (FULGURITE_SAYS_TEXT(C, reads)) read(C::reads);
    if constexpr (FULGURITE_SAYS_TEXT(C, writes)) {
      if (!any) out.to_column(42);
      out << (any ? "; writes " : "writes ") << C::writes;
    }
  }

  // The calls in a fit and in an evaluation, from first to last.

  constexpr void fit() {
    out << "\nfit\n";
    of_callbacks(hook::limits_time{}, "  ");
    of_callbacks(hook::profile_action{}, "  ");
    event(hook::prepare_data{}, "  ");
    of_strategy(hook::process_dataloader{}, "  ");
    event(hook::setup{}, "  ");
    event(hook::configure_model{}, "  ");
    action(hook::configure_optimizers{}, "  ", "");
    event(hook::on_fit_start{}, "  ");
    of_callbacks(hook::log_hyperparams{}, "  ");
    event(hook::on_sanity_check_start{}, "  ");
    event(hook::on_sanity_check_end{}, "  ");
    event(hook::train_dataloader{}, "  ");
    event(hook::on_train_start{}, "  ");
    out << "  each epoch\n";
    event(hook::on_train_epoch_start{}, "    ");
    out << "    each batch\n";
    batch();
    if constexpr (hook::validation_step::named<M>) {
      out << "    validation, when it is due\n";
      event(hook::on_validation_model_zero_grad{}, "      ");
    }
    event(hook::on_train_epoch_end{}, "    ");
    of_callbacks(hook::before_statistics_pass{}, "  ");
    event(hook::on_train_end{}, "  ");
    event(hook::on_fit_end{}, "  ");
    event(hook::teardown{}, "  ");
    event(hook::on_exception{}, "  ");
    of_callbacks(hook::end_if_asked{}, "  ");
  }
  constexpr void batch() {
    transfer("      ");
    event(hook::on_train_batch_start{}, "      ");
    action(hook::training_step{}, "      ", "");
    event(hook::on_before_zero_grad{}, "      ");
    action(hook::optimizer_zero_grad{}, "      ", "optimizer.zero_grad(), at the first batch of a window");
    of_strategy(hook::pre_backward{}, "      ");
    event(hook::on_before_backward{}, "      ");
    action(hook::backward{}, "      ",
           automatic ? "loss.backward(1 / batches of the window)" : "ctx.backward(loss), by training_step");
    event(hook::on_after_backward{}, "      ");
    of_strategy(hook::post_backward{}, "      ");
    if constexpr (!automatic) of_strategy(hook::no_sync{}, "      ");
    event(hook::on_before_optimizer_step{}, "      ");
    action(hook::configure_gradient_clipping{}, "      ", "as optimization says");
    action(hook::optimizer_step{}, "      ", "optimizer.step(), at the last batch of a window");
    if constexpr (scheduled) action(hook::lr_scheduler_step{}, "      ", "scheduler.step()");
    event(hook::on_train_batch_end{}, "      ");
  }
  constexpr void transfer(std::string_view indent) {
    event(hook::on_before_batch_transfer{}, indent);
    event(hook::transfer_batch_to_device{}, indent);
    event(hook::on_after_batch_transfer{}, indent);
  }

  template <class Step>
  constexpr void evaluation(Step, std::string_view name) {
    if constexpr (Step::template named<M>) {
      out << "\n" << name << "\n";
      using V = hook::validation_step;
      using T = hook::test_step;
      using namespace hook;
      if constexpr (std::is_same_v<Step, V>)
        evaluation_rows<val_dataloader, on_validation_model_eval, on_validation_start, on_validation_epoch_start,
                        on_validation_batch_start, V, on_validation_batch_end, on_validation_epoch_end,
                        on_validation_end, on_validation_model_train>();
      else if constexpr (std::is_same_v<Step, T>)
        evaluation_rows<test_dataloader, on_test_model_eval, on_test_start, on_test_epoch_start, on_test_batch_start, T,
                        on_test_batch_end, on_test_epoch_end, on_test_end, on_test_model_train>();
      else
        evaluation_rows<predict_dataloader, on_predict_model_eval, on_predict_start, on_predict_epoch_start,
                        on_predict_batch_start, Step, on_predict_batch_end, on_predict_epoch_end, on_predict_end>();
    }
  }
  template <class... Hooks>
  constexpr void evaluation_rows() {
    (event(Hooks{}, "  "), ...);
  }

  /// Adds the functions of loggers, which are called in a fit and elsewhere.
  constexpr void rows() {
    if constexpr ((hook::log_metrics::named<Cs> || ...)) {
      out << "\nrows of metrics\n";
      of_callbacks(hook::log_metrics{}, "  ");
      of_callbacks(hook::finalize{}, "  ");
    }
  }

  /// Adds the optional functions of all parts.
  constexpr void functions() {
    out << "\nfunctions that are no events\n";
    functions_of(strategy, [](auto f) { each_function_of_strategy<S>(f); });
    functions_of(model, [](auto f) { name_if<hook::hyperparameters, M const, HyperparameterList>(f); });
    each_callback(
        [&]<class C>(std::string_view name) { functions_of(name, [](auto f) { each_function_of_callback<C>(f); }); });
    functions_of_optimizers(static_cast<typename loop::AsList<judge::Returned<R>>::type*>(nullptr));
  }
  template <class... Os>
  constexpr void functions_of_optimizers(OptimizerList<Os...>*) {
    (functions_of_optimizer<Os>(), ...);
  }
  template <class T>
  constexpr void functions_of_optimizer() {
    using Driven = typename loop::Entry<typename R::Backend, T>::Optimizer;
    functions_of(type_name<typename judge::Parts<T>::Optimizer>(),
                 [](auto f) { each_function_of_optimizer<Driven>(f); });
    [&]<class... Ss>(std::type_identity<std::tuple<Ss...>>) {
      (functions_of(type_name<typename Ss::Schedule>(),
                    [](auto f) { each_function_of_schedule<typename Ss::Schedule, Driven>(f); }),
       ...);
    }(std::type_identity<typename loop::Entry<typename R::Backend, T>::Schedulers>{});
  }
  template <class Each>
  constexpr void functions_of(std::string_view part, Each each) {
    bool any = false;
    each([&](std::string_view name) {
      if (any) out << ", ";
      else (out << "  " << part).to_column(34);
      out << name;
      any = true;
    });
    if (any) out << "\n";
  }

  constexpr void off() {
    out << "\noff\n";
    auto const without = [&](bool there, std::string_view what, std::string_view why) {
      if (there) return;
      out << "  " << what;
      out.to_column(34) << why << "\n";
    };
    without(hook::validation_step::named<M>, "validation", "the model has no validation_step");
    without(hook::test_step::named<M>, "test", "the model has no test_step");
    without(hook::predict_step::named<M>, "predict", "the model has no predict_step");
    without((hook::log_metrics::named<Cs> || ...), "rows of metrics", "there is no logger among the callbacks");
    without(automatic, "accumulation, clipping, schedules", "Manual: training_step does them itself");
    without(P::autocasts, "autocast", "the precision computes in one type");
    without(P::scales_loss, "loss scaling", "the precision does not scale");
    without(S::captures, "capture and replay", "the strategy runs every step");
    without(S::is_distributed, "processes", "the strategy works alone");
  }
  constexpr void state() {
    out << "\nsaved in a checkpoint\n";
    of_callbacks(hook::before_save{}, "  ");
    of_callbacks(hook::after_save{}, "  ");
    out << "  weights and buffers\n  counters of the run\n";
    if (Stateful<M, ArchiveProbe>) out << "  state of " << model << "\n";
    if (Stateful<S, ArchiveProbe>) out << "  state of " << strategy << "\n";
    if (P::scales_loss) out << "  scale of the loss\n";
    if (scheduled) out << "  schedules\n";
    each_callback([&]<class C>(std::string_view name) {
      if (Stateful<C, ArchiveProbe>) out << "  state of " << name << "\n";
    });
    bool any = false;
    each_callback([&]<class C>(std::string_view name) {
      if (Stateful<C, ArchiveProbe> || std::is_empty_v<C>) return;
      out << (std::exchange(any, true) ? ", " : "not saved, by choice\n  ") << name;
    });
    if (any) out << "\n";
  }
};

/// The parts as a constant, in exactly the memory that they need: they are counted first, then made.
template <class Describer>
struct Described {
  static constexpr DescribedParts counted = Describer().out;
  static constexpr auto made = [] {
    struct {
      std::array<DescribedPart, counted.size> parts{};
      std::array<bool, counted.who_size> who{};
    } all;
    Describer({all.parts.data(), all.who.data()});
    return all;
  }();
  static constexpr Description description = Describer::describe(made.parts, made.who);
};

/// The text of a description as a constant. Separate from the parts, since it compiles more slowly, and few programs
/// use it.
template <class Describer>
struct ConstantText {
  static constexpr auto const& description = Described<Describer>::description;
  static constexpr std::size_t size = description.write(TextBuilder()).size;
  static constexpr auto built = [] {
    std::array<char, size> text{};
    description.write(TextBuilder(text.data()));
    return text;
  }();
  static constexpr std::string_view view{built.data(), size};
};

}  // namespace fulgurite::report
