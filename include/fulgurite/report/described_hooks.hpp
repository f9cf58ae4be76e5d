#pragma once
// A line for a hook in the description of a trainer: its name, and who has it, in the order in which they hear it.

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/constant_text.hpp>

namespace fulgurite::report {

/// Writes such lines for one trainer type.
template <class M, class S, class P, class O, class... Cs>
class DescribedHooks {
 protected:
  using R = Run<M, S, P, O>;
  using Callbacks = Pack<Cs...>;
  static constexpr bool automatic = O::automatic;
  static constexpr bool scheduled = []<class... Ss>(std::type_identity<std::tuple<Ss...>>) {
    return (Ss::exists || ...);
  }(std::type_identity<decltype(loop::Optimizers<R>::schedulers)>{});

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
  constexpr void event(Hook, std::string_view indent) {
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
  constexpr void of_callbacks(Hook, std::string_view indent) {
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
  constexpr void of_strategy(Hook, std::string_view indent) {
    if constexpr (Hook::template named<S>) {
      out << indent << Hook::name();
      out.to_column(34) << type_name<S>() << "\n";
    }
  }
  /// Writes what the loop does at a hook that a model may override: the model's function where it has one, else
  /// `otherwise`.
  template <class Hook>
  constexpr void action(Hook, std::string_view indent, std::string_view otherwise) {
    if constexpr (!automatic && !Hook::in_manual) return;
    out << indent << Hook::name();
    out.to_column(34) << (Hook::template named<M> ? type_name<M>() : otherwise) << "\n";
  }

  TextBuilder out{};
};

}  // namespace fulgurite::report
