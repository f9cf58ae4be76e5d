#pragma once
// Policies that a command line chooses: from a list that the compiler knows, of which each is a trainer in the program,
// or made from a text.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/hana/at.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/tuple.hpp>

#include <fulgurite/cli/table.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/fixed_string.hpp>
#include <fulgurite/policy/precision.hpp>

namespace fulgurite::cli {

/// A policy under the name by which it is chosen.
template <FixedString Name, class Policy>
struct Named {
  Policy policy;
  static constexpr std::string_view name = Name.view();
};
/// `named<"captured">(Captured{SingleDevice{cpu}})`.
template <FixedString Name, class Policy>
Named<Name, Policy> named(Policy policy) {
  return {std::move(policy)};
}

/// `--trainer.OPTION NAME` picks one of these; the first is taken where none is named. A trainer is instantiated for
/// each, and for each combination with other choices.
template <FixedString Option, class... Nameds>
class Choice {
 public:
  explicit Choice(Nameds... all) : all_(std::move(all)...), chosen_(name_of_first<Nameds...>()) {}

  void add_to(Table& table) {
    table.add_choice("trainer." + std::string(Option.view()), chosen_, {std::string(Nameds::name)...}, "");
  }
  /// then(policy) with the one that was chosen.
  template <class Then>
  void with(Then&& then) const {
    boost::hana::for_each(all_, [&](auto const& one) {
      if (one.name == chosen_) then(one.policy);
    });
  }

 private:
  template <class First, class...>
  static std::string name_of_first() {
    return std::string(First::name);
  }
  boost::hana::tuple<Nameds...> all_;
  std::string chosen_;
};
/// `choice<"strategy">(named<"single">(SingleDevice{automatic}), named<"captured">(Captured{SingleDevice{cpu}}))`.
template <FixedString Option, class First, class... Rest>
Choice<Option, First, Rest...> choice(First first, Rest... rest) {
  return Choice<Option, First, Rest...>(std::move(first), std::move(rest)...);
}

/// A precision under the name that it gives itself, such as "bf16-mixed".
template <class P>
struct NamedPrecision {
  P policy = {};
  static constexpr std::string_view name = P::name;
};
/// `--trainer.precision bf16-mixed`: `precisions<Float32, Bf16Mixed>()`.
template <class... Ps>
  requires(sizeof...(Ps) != 0)
auto precisions() {
  return Choice<"precision", NamedPrecision<Ps>...>(NamedPrecision<Ps>{}...);
}

/// A policy that is made from a text: one trainer for all. `make(text)` may throw an Error, which is the program's.
template <FixedString Option, class Make>
class FromText {
 public:
  FromText(std::string usual, Make make, std::string about)
      : text_(std::move(usual)), make_(std::move(make)), about_(std::move(about)) {}

  void add_to(Table& table) { table.add("trainer." + std::string(Option.view()), text_, about_); }
  template <class Then>
  void with(Then&& then) const {
    then(made());
  }

 private:
  auto made() const {
    try {
      return make_(text_);
    } catch (Error const& error) {
      std::string const what = error.what();
      throw Error("fulgurite.cli.value", "--trainer." + std::string(Option.view()) + " = " + text_ + ": " +
                                             what.substr(error.identifier().size() + 3));
    }
  }

  std::string text_;
  Make make_;
  std::string about_;
};
/// `from_text<"device">("auto", [](std::string const& name) { return SingleDevice{NamedDevice{name}}; })`. `about` is
/// what --help says of it: "cpu, cuda, cuda:1 or auto".
template <FixedString Option, class Make>
FromText<Option, Make> from_text(std::string usual, Make make, std::string about = {}) {
  return {std::move(usual), std::move(make), std::move(about)};
}

/// A policy that the command line chooses, such as a from_text: it adds its own option to the table.
template <class T>
concept Chooses = requires(T& choice, Table& table) { choice.add_to(table); };

/// then(policies...) with what was chosen of each; what is no choice is a policy of every trainer.
template <class Then>
void with_chosen(Then&& then) {
  then();
}
template <class Then, class First, class... Rest>
void with_chosen(Then&& then, First& first, Rest&... rest) {
  auto const next = [&](auto const& policy) {
    with_chosen([&](auto const&... others) { then(policy, others...); }, rest...);
  };
  if constexpr (Chooses<First>) first.with(next);
  else next(first);
}

}  // namespace fulgurite::cli
