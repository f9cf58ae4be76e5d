#pragma once
// The options of a program, each with its name, its kind, its meaning and the variable that it sets.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/hana/at.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/tuple.hpp>

#include <fulgurite/cli/text.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/report/reflected.hpp>

namespace fulgurite::cli {

// Suggestions for misspelt names.

/// The number of letters to insert, delete, replace or swap with their neighbour that turns one text into the other
/// (Damerau-Levenshtein distance, without moving a letter twice).
std::size_t distance(std::string_view a, std::string_view b);

/// The known name that was probably meant, or "": one that begins with `name`, else the nearest one. Compares whole
/// names, and the parts after the last point (`max_epochs` of `trainer.max_epochs`). At most one letter in three may be
/// wrong.
std::string nearest(std::string_view name, std::vector<std::string> const& known);

/// One option, such as `trainer.max_epochs`.
struct Entry {
  std::string name;
  std::string kind;     ///< the kind of its value, for --help
  std::string about;    ///< one line of explanation; may be empty
  std::string initial;  ///< the default value
  bool bare;            ///< true if a file has the value without quotes
  std::function<void(std::string_view)> read;
  std::function<std::string()> text;
  bool listed = true;        ///< true if it is written to files
  bool list = false;         ///< true if its value is a list
  std::string follows = {};  ///< the option from which it takes its value if it is not given
};

/// All options of a program, in the order of --help. The variables that they set must outlive the table.
class Table {
 public:
  /// Throws [fulgurite.cli.name] if the name is not possible on a command line or in a file.
  template <Textual T>
  void add(std::string name, T& value, std::string about = {}, bool listed = true) {
    check_name(name);
    entries_.push_back({std::move(name), std::string(Value<T>::kind), std::move(about), Value<T>::text(value),
                        Value<T>::bare, [&value](std::string_view text) { Value<T>::read(text, value); },
                        [&value] { return Value<T>::text(value); }, listed, is_list<T>});
  }
  /// Adds an option with a fixed set of values.
  void add_choice(std::string name, std::string& value, std::vector<std::string> names, std::string about);

  std::vector<Entry> const& entries() const { return entries_; }
  std::vector<std::string> names() const;
  Entry const* find(std::string_view name) const;

  /// If `source` is given and `name` is not, `name` gets the value of `source`: the maker of the table copies it.
  void link(std::string_view name, std::string source);
  /// True if the option is linked to another one, in either direction.
  bool is_linked(std::string_view name) const;

  /// True if the user has given the option.
  bool was_given(std::string_view name) const;

  /// Sets an option. `shown` is the option as the user wrote it, such as --trainer.max_epochs. Throws an Error if there
  /// is no such option, if the text is not a value of its type, or if a file has it with wrong quotes.
  void set(std::string_view name, Written const& value, std::string const& shown);
  [[noreturn]] void unknown(std::string_view name, std::string const& shown) const;

 private:
  /// A name has parts between points, each of letters (not only ASCII), digits, '_' and '-'.
  static void check_name(std::string_view name);

  std::vector<Entry> entries_{};
  std::vector<std::string> said_{};
};

/// A policy with the name by which it is chosen.
template <FixedString Name, class Policy>
struct Named {
  Policy policy;
  static constexpr std::string_view name = Name.view();
};
/// Names a policy: `named<"captured">(Captured{SingleDevice{cpu}})`.
template <FixedString Name, class Policy>
Named<Name, Policy> named(Policy policy) {
  return {std::move(policy)};
}

/// Adds `--trainer.OPTION NAME`, which chooses one of these policies; the default is the first. A trainer is
/// instantiated for each policy, and for each combination with other choices.
template <FixedString Option, class... Nameds>
class Choice {
 public:
  explicit Choice(Nameds... all) : all_(std::move(all)...), chosen_(name_of_first<Nameds...>()) {}

  void add_to(Table& table) {
    table.add_choice("trainer." + std::string(Option.view()), chosen_, {std::string(Nameds::name)...}, "");
  }
  /// Calls `then(policy)` with the chosen policy.
  void with(auto&& then) const {
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
/// Makes a choice: `choice<"strategy">(named<"single">(SingleDevice{automatic}),
/// named<"captured">(Captured{SingleDevice{cpu}}))`.
template <FixedString Option, class First, class... Rest>
Choice<Option, First, Rest...> choice(First first, Rest... rest) {
  return Choice<Option, First, Rest...>(std::move(first), std::move(rest)...);
}

/// A precision with its own name, such as "bf16-mixed".
template <class P>
struct NamedPrecision {
  P policy = {};
  static constexpr std::string_view name = P::name;
};
/// Adds `--trainer.precision bf16-mixed`: `precisions<Float32, Bf16Mixed>()`.
template <class... Ps>
  requires(sizeof...(Ps) != 0)
auto precisions() {
  return Choice<"precision", NamedPrecision<Ps>...>(NamedPrecision<Ps>{}...);
}

/// A policy that is made from a text at run time, so that one trainer is enough. `make(text)` may throw an Error.
template <FixedString Option, class Make>
class FromText {
 public:
  FromText(std::string initial, Make make, std::string about)
      : text_(std::move(initial)), make_(std::move(make)), about_(std::move(about)) {}

  void add_to(Table& table) { table.add("trainer." + std::string(Option.view()), text_, about_); }
  void with(auto&& then) const { then(made()); }

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
/// Makes a FromText: `from_text<"device">("auto", [](std::string const& name) { return SingleDevice{NamedDevice{name}};
/// })`. `about` is its explanation in --help: "cpu, cuda, cuda:1 or auto".
template <FixedString Option, class Make>
FromText<Option, Make> from_text(std::string initial, Make make, std::string about = {}) {
  return {std::move(initial), std::move(make), std::move(about)};
}

/// A policy that the command line chooses, such as a from_text. It adds its option to the table.
template <class T>
concept Chooses = requires(T& choice, Table& table) { choice.add_to(table); };

/// Calls `then(policies...)` with the chosen policies. Arguments that are no choices are passed on.
void with_chosen(auto&& then) { then(); }
template <class Then, class First, class... Rest>
void with_chosen(Then&& then, First& first, Rest&... rest) {
  auto const next = [&](auto const& policy) {
    with_chosen([&](auto const&... others) { then(policy, others...); }, rest...);
  };
  if constexpr (Chooses<First>) first.with(next);
  else next(first);
}

/// A comma-separated list of identifiers.
template <>
struct Value<Silence> {
  using Texts = Value<std::vector<std::string>>;
  static constexpr std::string_view kind = "A,B";
  static constexpr bool list = true, bare = true;
  static std::string text(Silence const& silence) {
    std::vector<std::string> all;
    for (auto const one : silence.all()) all.emplace_back(one);
    return Texts::text(all);
  }
  static void read(std::string_view from, Silence& to) {
    static std::set<std::string, std::less<>> kept;  // kept alive, since a Silence refers to its texts
    std::vector<std::string> texts;
    Texts::read(from, texts);
    std::vector<std::string_view> all;
    for (auto const& one : texts) all.push_back(*kept.insert(one).first);
    try {
      to = Silence(std::move(all));
    } catch (Error const&) {
      throw Expected{"identifiers of warnings, as fulgurite.options.few_rows, with commas between them"};
    }
  }
};

/// The explanations of a trainer's and its optimization's options in --help.
inline constexpr auto trainer_help = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"max_epochs", "passes over the training data; -1: no limit"},
    {"min_epochs", "training is not stopped before this many passes"},
    {"max_steps", "optimizer steps; -1: no limit"},
    {"min_steps", "training is not stopped before this many steps"},
    {"max_time", "time limit of training: days, hours, minutes, seconds"},
    {"limit_train_batches", "a count of batches, or a fraction of the loader"},
    {"limit_val_batches", "the same for the validation loader"},
    {"limit_test_batches", "the same for the test loader"},
    {"limit_predict_batches", "the same for the predict loader"},
    {"val_check_interval", "batches between validations, or a fraction of an epoch, or a time"},
    {"check_val_every_n_epoch", "epochs between validations; none: count batches across epochs"},
    {"num_sanity_val_steps", "validation batches that are run before training; -1: all"},
    {"log_every_n_steps", "steps between rows of the log; 0: never"},
    {"fast_dev_run", "run this many batches of every loop, as a test; 0: off"},
    {"overfit_batches", "train on the same first batches in every epoch"},
    {"reload_dataloaders_every_n_epochs", "make the loaders again after this many epochs; 0: never"},
    {"use_distributed_sampler", "each process gets its part of a loader"},
    {"inference_mode", "in validate, test and predict; false: no_grad"},
    {"non_finite", "if a loss or gradient is not finite: stop, skip or ignore"},
    {"detect_anomaly", "backward names the function that returns a nan; slow"},
    {"deterministic", "only algorithms that give the same bits each time"},
    {"benchmark", "cuDNN tries its algorithms and takes the fastest"},
    {"barebones", "only the loop: nothing is logged, shown or saved"},
    {"default_root_dir", "folder of logs and checkpoints"},
    {"save_in_background", "write checkpoints in another thread"},
    {"silence", "warnings that are not printed"},
    {"accumulate_grad_batches", "batches per optimizer step, whose gradients are averaged"},
    {"clip", "clip gradients, for example by \"norm 1.0\""},
    {"tbptt", "time steps per slice; 0: batches are not cut"},
});
/// The explanation of an option; empty if it has none.
constexpr std::string_view help_of(std::string_view name) {
  for (auto const& [known, about] : trainer_help)
    if (known == name) return about;
  return {};
}

/// Adds all fields that can be read from a text, in the group trainer.
void add_trainer_options(Table& table, auto& options) {
  reflect::each_field(options, [&]<class T>(std::string_view name, T& field) {
    if constexpr (Textual<T>) table.add("trainer." + std::string(name), field, std::string(help_of(name)));
  });
}

/// Checks the options by the trainer's own rules, before there is a trainer. Errors have the option's full name, and
/// its value in the form of a command line.
void check_trainer_options(Table const& table, auto const& options) {
  try {
    loop::check(options);
  } catch (Error const& error) {
    std::string what = error.what();
    what.erase(0, error.identifier().size() + 3);  // limit_val_batches = Fraction{1.500000}: the sentence
    auto const name = "trainer." + what.substr(0, what.find(' '));
    auto const* const entry = table.find(name);
    if (auto const end = std::min(what.find(": "), what.find(" with ")); entry && end != std::string::npos)
      what = name + " = " + entry->text() + what.substr(end);
    for (auto const& [code, word] :
         {std::pair("std::nullopt", "none"), std::pair("nullopt", "none"), std::pair("Fraction", "part")})
      for (auto at = what.find(code); at != std::string::npos; at = what.find(code, at))
        what.replace(at, std::string_view(code).size(), word);
    throw Error(error.identifier(), "--" + what);
  }
}

// Options for the hyper-parameters that a model or a data module declares, and the object that is made from them.

/// The settings of a class that has none.
struct NoSettings {};

/// `T::hparams` is a struct of settings from which a T can be constructed.
template <class T>
concept HasSettings = requires(T& object) { object.hparams; };

/// The type of a class's settings, as ::type; NoSettings if it has none.
template <class T>
struct SettingsOf : std::type_identity<NoSettings> {};
template <HasSettings T>
struct SettingsOf<T> : std::type_identity<std::remove_cvref_t<decltype(std::declval<T&>().hparams)>> {};

/// The explanation of a setting in --help.
template <class T, class Field>
struct About {
  Field T::* field;
  std::string_view text;
};
/// An element of the tuple `about` in a struct of settings:
///
///     static constexpr auto about = std::tuple(cli::about(&Settings::hidden, "units of the hidden layer"));
template <class T, class Field>
constexpr About<T, Field> about(Field T::* field, std::string_view text) {
  return {field, text};
}

/// The explanation of a field, found by its address: its struct's text about it, and its range.
template <class H, class V>
std::string about_field(H const& object, V const& value) {
  std::string text;
  [[maybe_unused]] auto const is_it = [&](auto const field) {
    return static_cast<void const*>(std::addressof(object.*field)) == static_cast<void const*>(std::addressof(value));
  };
  if constexpr (requires { H::about; })
    std::apply([&](auto const&... one) { ((is_it(one.field) ? void(text = one.text) : void()), ...); }, H::about);
  if constexpr (requires { H::ranges; }) {
    auto const add = [&](auto const& range) {
      if (is_it(range.field)) append_item(text, reflect::range_text(range));
    };
    std::apply([&](auto const&... one) { (add(one), ...); }, H::ranges);
  }
  return text;
}

/// Adds the members that a struct names in `hyperparameters(list)`; it is passed as that list.
template <class H>
class MemberList {
 public:
  MemberList(Table& table, std::string group, H& object) : table_(table), group_(std::move(group)), object_(object) {}

  /// Values outside of the object, such as constants, are not options.
  template <class V>
  MemberList& operator()(std::string_view name, V const& value) {
    if constexpr (Textual<V>)
      if (is_member(value)) {
        std::string whole = group_;
        ((whole += '.') += name);
        auto& member = const_cast<V&>(value);  // the object itself is not const
        table_.add(std::move(whole), member, about_field(object_, value));
      }
    return *this;
  }

 private:
  bool is_member(auto const& value) const {
    auto const* const at = reinterpret_cast<std::byte const*>(std::addressof(value));
    auto const* const begin = reinterpret_cast<std::byte const*>(std::addressof(object_));
    return !std::less<>{}(at, begin) && std::less<>{}(at, begin + sizeof(H));
  }

  Table& table_;
  std::string group_;
  H& object_;
};

/// Adds all settings, each as `group.field`: the fields of a struct that Boost.Hana reflects, including those of nested
/// structs, or else the fields that it names in hyperparameters(list).
template <class H>
void add_settings(Table& table, std::string const& group, H& settings) {
  if constexpr (reflect::Reflected<H>)
    reflect::each_leaf(settings, [&]<class V>(std::string_view name, V& field, auto const& owner) {
      if constexpr (Textual<V>) table.add(group + "." + std::string(name), field, about_field(owner, field));
    });
  else if constexpr (requires(MemberList<H> list) { std::as_const(settings).hyperparameters(list); }) {
    MemberList<H> list(table, group, settings);
    std::as_const(settings).hyperparameters(list);
  }
}

/// Throws an Error with the option's full name if a field is outside of its declared range.
template <class H>
void check_settings(std::string const& group, H const& settings) {
  if constexpr (reflect::Reflected<H>) {
    try {
      static_cast<void>(reflect::checked(settings));
    } catch (Error const& error) {
      std::string const what = error.what();
      throw Error(error.identifier(), "--" + group + "." + what.substr(error.identifier().size() + 3));
    }
  }
}

/// Makes a T from its settings, or T() if it declares none.
template <class T>
T made(typename SettingsOf<T>::type const& settings) {
  constexpr bool takes = std::constructible_from<T, typename SettingsOf<T>::type const&>;
  constexpr bool alone = !HasSettings<T> && std::default_initializable<T>;
  static_assert(takes || alone, "[fulgurite.cli.construction] a command line makes the model and the data from their "
                                "settings: write `explicit Net(Settings)` with a member `Settings hparams`, or a "
                                "constructor without parameters");
  if constexpr (takes) return T(settings);
  else if constexpr (alone) return T();
  else return refusal::nothing<T>();
}

}  // namespace fulgurite::cli

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/cli/table.ipp>
#endif
