#pragma once
// What a trainer is, in words: the exact program that its types make, and what its options switch off.

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/constant_text.hpp>

namespace fulgurite {

namespace report {

/// The name of a group of callbacks.
constexpr std::string_view stage_name(Order order) {
  constexpr std::array<std::string_view, 7> names{"tuner",   "normal",  "timer",     "progress",
                                                  "summary", "monitor", "checkpoint"};
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
      out << "    " << stage_name(order_of<C>());
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
    if constexpr (!std::is_same_v<typename Parts::Schedule, NoSchedule>)
      out << " with " << type_name<typename Parts::Schedule>();
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
    event<hook::prepare_data>("  ");
    of_strategy<hook::process_dataloader>("  ");
    event<hook::setup>("  ");
    event<hook::configure_model>("  ");
    action<hook::configure_optimizers>("  ", "");
    event<hook::on_fit_start>("  ");
    event<hook::on_sanity_check_start>("  ");
    event<hook::on_sanity_check_end>("  ");
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
        evaluation_rows<on_validation_model_eval, on_validation_start, on_validation_epoch_start,
                        on_validation_batch_start, V, on_validation_batch_end, on_validation_epoch_end,
                        on_validation_end, on_validation_model_train>();
      else if constexpr (std::is_same_v<Step, T>)
        evaluation_rows<on_test_model_eval, on_test_start, on_test_epoch_start, on_test_batch_start, T,
                        on_test_batch_end, on_test_epoch_end, on_test_end, on_test_model_train>();
      else
        evaluation_rows<on_predict_model_eval, on_predict_start, on_predict_epoch_start, on_predict_batch_start, Step,
                        on_predict_batch_end, on_predict_epoch_end, on_predict_end>();
    }
  }
  template <class... Hooks>
  constexpr void evaluation_rows() {
    (event<Hooks>("  "), ...);
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

template <class T>
struct Described;
template <class M, class S, class P, class O, class... Cs>
struct Described<Trainer<M, S, P, O, Cs...>> {
  template <class Text>
  using Writer = Describer<Text, M, S, P, O, Cs...>;
  static constexpr std::string_view view = ConstantText<Writer>::view;
};

}  // namespace report

/// The program that a trainer's types make, as a constant of the compiler. Print it, or test it:
/// `static_assert(description<decltype(trainer)>.find("Adam") != std::string_view::npos)`.
template <class Trainer>
inline constexpr std::string_view description = report::Described<std::remove_cvref_t<Trainer>>::view;

/// `std::cout << describe(trainer);` prints the same, and below it what only this trainer object knows: what its
/// options add and switch off, and, where its strategy has an `account()`, what the strategy has done so far.
template <class M, class S, class P, class O, class... Cs>
std::string describe(Trainer<M, S, P, O, Cs...> const& trainer) {
  std::string text(description<Trainer<M, S, P, O, Cs...>>);
  auto const& o = trainer.options();
  std::string options;
  auto const say = [&](std::string const& line) { options += "  " + line + "\n"; };
  auto const number = [](auto const& n) { return n && *n >= 0 ? std::to_string(*n) : std::string("no limit"); };
  if (o.fast_dev_run != 0) {
    std::string idle;
    ((loop::is_inert_in_dev_run<Cs>() ? void(idle += " " + std::string(type_name<Cs>())) : void()), ...);
    say("fast_dev_run = " + std::to_string(o.fast_dev_run) + ": idle are" + (idle.empty() ? " none" : idle));
  }
  if (o.barebones) say("barebones: nothing is logged, no sanity check");
  if (o.overfit_batches) say("overfit_batches: the same first batches in every epoch, in order");
  say("epochs: " + number(o.max_epochs) + ", steps: " + number(o.max_steps) +
      (o.max_time ? ", seconds: " + std::to_string(o.max_time->count()) : ""));
  if constexpr (O::automatic) {
    auto const& how = trainer.optimization();
    say("batches a step: " + std::to_string(how.accumulate_grad_batches));
    if (how.clip.kind != Clip::Kind::none)
      say(std::string("gradients limited by ") + (how.clip.kind == Clip::Kind::norm ? "norm " : "value ") +
          std::to_string(how.clip.limit));
    if (how.tbptt != 0) say("batches cut along time, every " + std::to_string(how.tbptt) + " steps");
  }
  auto const loop_off = [&](Limit const& limit, char const* what) {
    if (limit.none()) say(std::string(what) + ": off, its limit is 0");
  };
  loop_off(o.limit_train_batches, "training");
  loop_off(o.limit_val_batches, "validation");
  loop_off(o.limit_test_batches, "test");
  loop_off(o.limit_predict_batches, "predict");
  if (o.num_sanity_val_steps == 0) say("sanity check: off, num_sanity_val_steps is 0");
  if (o.log_every_n_steps == 0) say("rows of steps: off, log_every_n_steps is 0");
  text += "\noptions\n" + options;
  if constexpr (requires { trainer.strategy().account(); }) {
    text += "\nstrategy\n";
    for (std::string const& line : trainer.strategy().account()) text += "  " + line + "\n";
  }
  return text;
}

}  // namespace fulgurite
