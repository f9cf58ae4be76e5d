#pragma once
// The description of a trainer's types, as a constant: its parts, who hears what in which order, what is off, and what
// a checkpoint holds.

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/described_calls.hpp>
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
template <class M, class S, class P, class O, class... Cs>
class Describer : DescribedCalls<M, S, P, O, Cs...> {
  using Base = DescribedCalls<M, S, P, O, Cs...>;
  using R = Run<M, S, P, O>;
  using Base::automatic;
  using Base::each_callback;
  using Base::of_callbacks;
  using Base::scheduled;

 public:
  /// Puts the text where the builder says, and returns the builder.
  static constexpr TextBuilder build(TextBuilder text) {
    Describer d;
    d.out = text;
    d.head();
    d.fit();
    d.evaluation(hook::validation_step{}, "validation");
    d.evaluation(hook::test_step{}, "test");
    d.evaluation(hook::predict_step{}, "predict");
    d.rows();
    d.functions();
    d.off();
    d.state();
    return d.out;
  }

 private:
  constexpr void head() {
    this->out << "Trainer of " << type_name<M>() << "\n  strategy      " << type_name<S>() << "\n  precision     "
              << type_name<P>() << "\n  optimization  " << type_name<O>() << "\n  optimizers    ";
    optimizers(static_cast<typename loop::AsList<judge::Returned<R>>::type*>(nullptr));
    this->out << "\n  metrics       ";
    bool any = false;
    R::Metrics::each([&](std::size_t, auto const& metric) {
      this->out << (any ? ", " : "") << metric.name() << (metric.prog_bar ? " (bar)" : "");
      any = true;
    });
    this->out << (any ? "\n" : "none\n");
    if (sizeof...(Cs) != 0) this->out << "  callbacks, in firing order\n";
    each_callback([&]<class C>() {
      this->out << "    " << order_name(order_of<C>());
      this->out.to_column(16) << type_name<C>();
      touches<C>();
      this->out << "\n";
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
    this->out << (std::exchange(any, true) ? ", " : "") << type_name<typename judge::Parts<T>::Optimizer>();
    schedules(std::type_identity<typename Parts::Schedulers>{});
  }
  template <class... Ss>
  constexpr void schedules(std::type_identity<std::tuple<Ss...>>) {
    std::string_view before = " with ";
    auto const one = [&]<class Scheduler>(std::type_identity<Scheduler>) {
      if constexpr (Scheduler::exists)
        this->out << std::exchange(before, " and ") << type_name<typename Scheduler::Schedule>();
    };
    (one(std::type_identity<Ss>{}), ...);
  }
  /// Writes what a callback reads and writes, as its constants `Watches`, `reads` and `writes` say.
  template <class C>
  constexpr void touches() {
    bool any = false;
    auto const read = [&](std::string_view what) {
      if (what.empty()) return;
      if (!any) this->out.to_column(42);
      this->out << (any ? ", " : "reads ") << what;
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
      if (!any) this->out.to_column(42);
      this->out << (any ? "; writes " : "writes ") << C::writes;
    }
  }

  /// What the loops ask of a part only where it is there.
  constexpr void functions() {
    this->out << "\nfunctions that are no events\n";
    functions_of(type_name<S>(), [](auto f) { each_function_of_strategy<S>(f); });
    functions_of(type_name<M>(), [](auto f) { name_if<hook::hyperparameters, M const, HyperparameterList>(f); });
    each_callback([&]<class C>() { functions_of(type_name<C>(), [](auto f) { each_function_of_callback<C>(f); }); });
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
      if (any) this->out << ", ";
      else (this->out << "  " << part).to_column(34);
      this->out << name;
      any = true;
    });
    if (any) this->out << "\n";
  }

  constexpr void off() {
    this->out << "\noff\n";
    auto const without = [&](bool there, std::string_view what, std::string_view why) {
      if (there) return;
      this->out << "  " << what;
      this->out.to_column(34) << why << "\n";
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
    this->out << "\nsaved in a checkpoint\n";
    of_callbacks(hook::before_save{}, "  ");
    of_callbacks(hook::after_save{}, "  ");
    this->out << "  weights and buffers\n  counters of the run\n";
    if (Stateful<M, ArchiveProbe>) this->out << "  state of " << type_name<M>() << "\n";
    if (Stateful<S, ArchiveProbe>) this->out << "  state of " << type_name<S>() << "\n";
    if (P::scales_loss) this->out << "  scale of the loss\n";
    if (scheduled) this->out << "  schedules\n";
    each_callback([&]<class C>() {
      if (Stateful<C, ArchiveProbe>) this->out << "  state of " << type_name<C>() << "\n";
    });
    bool any = false;
    each_callback([&]<class C>() {
      if (Stateful<C, ArchiveProbe> || std::is_empty_v<C>) return;
      this->out << (std::exchange(any, true) ? ", " : "not saved, by choice\n  ") << type_name<C>();
    });
    if (any) this->out << "\n";
  }
};

}  // namespace report
}  // namespace fulgurite
