#pragma once
// The description of a trainer's types, as a constant: its parts, who hears what in which order, what is off, and what
// a checkpoint holds.

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/described_functions.hpp>

namespace fulgurite {

namespace report {

/// The name of a group of callbacks.
constexpr std::string_view order_name(Order order) {
  constexpr std::array<std::string_view, 8> names{"profiler", "tuner",   "normal",  "timer",
                                                  "progress", "summary", "monitor", "checkpoint"};
  return names[static_cast<std::size_t>(order)];
}

/// Writes the description of one trainer type.
template <class Text, class M, class S, class P, class O, class... Cs>
class Describer {
  using R = Run<M, S, P, O>;
  using Callbacks = Pack<Cs...>;
  static constexpr bool automatic = O::automatic;
  static constexpr bool scheduled = []<class... Ss>(std::type_identity<std::tuple<Ss...>>) {
    return (Ss::exists || ...);
  }(std::type_identity<decltype(loop::Optimizers<R>::schedulers)>{});

 public:
  static consteval auto build() {
    Describer d;
    d.head();
    d.fit();
    d.evaluation<hook::validation_step>("validation");
    d.evaluation<hook::test_step>("test");
    d.evaluation<hook::predict_step>("predict");
    d.rows();
    d.functions();
    d.off();
    d.state();
    return d.out;
  }

 private:
  Text out{};

  // ---- who
  template <std::size_t I>
  using At = typename Callbacks::template At<Callbacks::firing_order[I]>;
  template <class F>
  static constexpr void each_callback(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f.template operator()<At<I>>(), ...);
    }(std::make_index_sequence<sizeof...(Cs)>{});
  }
  template <class Hook>
  static constexpr bool heard() {
    return (Hook::template named<Cs> || ... ||
            (Hook::template named<M> || (loop::strategy_hears<Hook> && Hook::template named<S>)));
  }

  /// Writes the name of a hook that somebody has, and who hears it, in order.
  template <class Hook>
  constexpr void event(std::string_view indent) {
    if constexpr (heard<Hook>() && (automatic || Hook::in_manual)) {
      out << indent << Hook::name();
      out.to_column(34);
      bool any = false;
      auto const name = [&](std::string_view who) {
        out << (any ? ", " : "") << who;
        any = true;
      };
      each_callback([&]<class C>() {
        if (Hook::template named<C> && !(hook::model_before_monitors<Hook> && order_of<C>() >= Order::monitor))
          name(type_name<C>());
      });
      if (Hook::template named<M>) name(type_name<M>());
      each_callback([&]<class C>() {
        if (Hook::template named<C> && hook::model_before_monitors<Hook> && order_of<C>() >= Order::monitor)
          name(type_name<C>());
      });
      if (loop::strategy_hears<Hook> && Hook::template named<S>) name(type_name<S>());
      out << "\n";
    }
  }
  /// A function that is asked of callbacks alone, and who has it.
  template <class Hook>
  constexpr void of_callbacks(std::string_view indent) {
    if constexpr ((Hook::template named<Cs> || ...)) {
      out << indent << Hook::name();
      out.to_column(34);
      bool any = false;
      each_callback([&]<class C>() {
        if (Hook::template named<C>) out << (std::exchange(any, true) ? ", " : "") << type_name<C>();
      });
      out << "\n";
    }
  }
  /// A function that a strategy may have.
  template <class Hook>
  constexpr void of_strategy(std::string_view indent) {
    if constexpr (Hook::template named<S>) {
      out << indent << Hook::name();
      out.to_column(34) << type_name<S>() << "\n";
    }
  }
  /// Writes what the loop does at a hook that a model may override: the model's function where it has one, else
  /// `otherwise`.
  template <class Hook>
  constexpr void action(std::string_view indent, std::string_view otherwise) {
    if constexpr (!automatic && !Hook::in_manual) return;
    out << indent << Hook::name();
    out.to_column(34) << (Hook::template named<M> ? type_name<M>() : otherwise) << "\n";
  }

  // ---- parts
  constexpr void head() {
    out << "Trainer of " << type_name<M>() << "\n  strategy      " << type_name<S>() << "\n  precision     "
        << type_name<P>() << "\n  optimization  " << type_name<O>() << "\n  optimizers    ";
    optimizers(static_cast<typename loop::AsList<judge::Returned<R>>::type*>(nullptr));
    out << "\n  metrics       ";
    bool any = false;
    R::Metrics::each([&](std::size_t, auto const& metric) {
      out << (any ? ", " : "") << metric.name() << (metric.prog_bar ? " (bar)" : "");
      any = true;
    });
    out << (any ? "\n" : "none\n");
    if (sizeof...(Cs) != 0) out << "  callbacks, in firing order\n";
    each_callback([&]<class C>() {
      out << "    " << order_name(order_of<C>());
      out.to_column(16) << type_name<C>();
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
    using Parts = loop::Entry<typename R::Backend, T>;
    out << (std::exchange(any, true) ? ", " : "") << type_name<typename judge::Parts<T>::Optimizer>();
    schedules(std::type_identity<typename Parts::Schedulers>{});
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
  /// Writes what a callback reads and writes, as its constants `Watches`, `reads` and `writes` say.
  template <class C>
  constexpr void touches() {
    bool any = false;
    auto const read = [&](std::string_view what) {
      if (what.empty()) return;
      if (!any) out.to_column(42);
      out << (any ? ", " : "reads ") << what;
      any = true;
    };
    if constexpr (requires {
                    typename C::Watches;
                    requires !std::is_same_v<typename C::Watches, C>;
                  })
      [&]<class... Ms>(MetricTypes<Ms...>) { (read(Ms::name()), ...); }(typename C::Watches{});
    // Only texts that are known while compiling count. A data member of that name is something else.
    if constexpr (FULGURITE_SAYS_TEXT(C, reads)) read(C::reads);
    if constexpr (FULGURITE_SAYS_TEXT(C, writes)) {
      if (!any) out.to_column(42);
      out << (any ? "; writes " : "writes ") << C::writes;
    }
  }

  constexpr void fit() {
    out << "\nfit\n";
    of_callbacks<hook::limits_time>("  ");
    of_callbacks<hook::profile_action>("  ");
    event<hook::prepare_data>("  ");
    of_strategy<hook::process_dataloader>("  ");
    event<hook::setup>("  ");
    event<hook::configure_model>("  ");
    action<hook::configure_optimizers>("  ", "");
    event<hook::on_fit_start>("  ");
    of_callbacks<hook::log_hyperparams>("  ");
    event<hook::on_sanity_check_start>("  ");
    event<hook::on_sanity_check_end>("  ");
    event<hook::train_dataloader>("  ");
    event<hook::on_train_start>("  ");
    out << "  each epoch\n";
    event<hook::on_train_epoch_start>("    ");
    out << "    each batch\n";
    batch();
    if constexpr (hook::validation_step::named<M>) {
      out << "    validation, when it is due\n";
      event<hook::on_validation_model_zero_grad>("      ");
    }
    event<hook::on_train_epoch_end>("    ");
    of_callbacks<hook::before_statistics_pass>("  ");
    event<hook::on_train_end>("  ");
    event<hook::on_fit_end>("  ");
    event<hook::teardown>("  ");
    event<hook::on_exception>("  ");
    of_callbacks<hook::end_if_asked>("  ");
  }
  constexpr void batch() {
    transfer("      ");
    event<hook::on_train_batch_start>("      ");
    action<hook::training_step>("      ", "");
    event<hook::on_before_zero_grad>("      ");
    action<hook::optimizer_zero_grad>("      ", "optimizer.zero_grad(), at the first batch of a window");
    of_strategy<hook::pre_backward>("      ");
    event<hook::on_before_backward>("      ");
    action<hook::backward>("      ", automatic ? "loss.backward(1 / batches of the window)"
                                               : "ctx.backward(loss), by training_step");
    event<hook::on_after_backward>("      ");
    of_strategy<hook::post_backward>("      ");
    if constexpr (!automatic) of_strategy<hook::no_sync>("      ");
    event<hook::on_before_optimizer_step>("      ");
    action<hook::configure_gradient_clipping>("      ", "as optimization says");
    action<hook::optimizer_step>("      ", "optimizer.step(), at the last batch of a window");
    if constexpr (scheduled) action<hook::lr_scheduler_step>("      ", "scheduler.step()");
    event<hook::on_train_batch_end>("      ");
  }
  constexpr void transfer(std::string_view indent) {
    event<hook::on_before_batch_transfer>(indent);
    event<hook::transfer_batch_to_device>(indent);
    event<hook::on_after_batch_transfer>(indent);
  }

  template <class Step>
  constexpr void evaluation(std::string_view name) {
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
    (event<Hooks>("  "), ...);
  }

  /// What loggers hear, in a fit as elsewhere.
  constexpr void rows() {
    if constexpr ((hook::log_metrics::named<Cs> || ...)) {
      out << "\nrows of metrics\n";
      of_callbacks<hook::log_metrics>("  ");
      of_callbacks<hook::finalize>("  ");
    }
  }
  /// What the loops ask of a part only where it is there.
  constexpr void functions() {
    out << "\nfunctions that are no events\n";
    functions_of(type_name<S>(), [](auto f) { each_function_of_strategy<S>(f); });
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
    of_callbacks<hook::before_save>("  ");
    of_callbacks<hook::after_save>("  ");
    out << "  weights and buffers\n  counters of the run\n";
    if (Stateful<M, ArchiveProbe>) out << "  state of " << type_name<M>() << "\n";
    if (Stateful<S, ArchiveProbe>) out << "  state of " << type_name<S>() << "\n";
    if (P::scales_loss) out << "  scale of the loss\n";
    if (scheduled) out << "  schedules\n";
    each_callback([&]<class C>() {
      if (Stateful<C, ArchiveProbe>) out << "  state of " << type_name<C>() << "\n";
    });
    bool any = false;
    each_callback([&]<class C>() {
      if (Stateful<C, ArchiveProbe> || std::is_empty_v<C>) return;
      out << (std::exchange(any, true) ? ", " : "not saved, by choice\n  ") << type_name<C>();
    });
    if (any) out << "\n";
  }
};

}  // namespace report
}  // namespace fulgurite
