#pragma once
// A description of a trainer: the exact program that its types make, and what its options switch off.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/report/describer.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

// The trainer's options as text for a person, one a line.

/// How much of a loader is used: "all", "10 batches" or "0.5 of it".
std::string field_text(Limit const& limit);
std::string field_text(ValidationInterval const& every);
std::string field_text(Clip const& clip);
std::string field_text(RootFolder const& folder);
std::string field_text(NonFinite what);
std::string field_text(Silence const& silence);

namespace report {

/// Calls f(name, option) for each option, in order, except for the clock, and for default_root_dir: a run's folder is
/// not a part of what it does.
template <class F>
void each_option(TrainerOptions const& o, F f) {
  f("max_epochs", o.max_epochs), f("min_epochs", o.min_epochs), f("max_steps", o.max_steps);
  f("min_steps", o.min_steps), f("max_time", o.max_time);
  f("limit_train_batches", o.limit_train_batches), f("limit_val_batches", o.limit_val_batches);
  f("limit_test_batches", o.limit_test_batches), f("limit_predict_batches", o.limit_predict_batches);
  f("val_check_interval", o.val_check_interval), f("check_val_every_n_epoch", o.check_val_every_n_epoch);
  f("num_sanity_val_steps", o.num_sanity_val_steps), f("log_every_n_steps", o.log_every_n_steps);
  f("fast_dev_run", o.fast_dev_run), f("overfit_batches", o.overfit_batches);
  f("reload_dataloaders_every_n_epochs", o.reload_dataloaders_every_n_epochs);
  f("use_distributed_sampler", o.use_distributed_sampler), f("inference_mode", o.inference_mode);
  f("non_finite", o.non_finite), f("detect_anomaly", o.detect_anomaly), f("deterministic", o.deterministic);
  f("benchmark", o.benchmark), f("barebones", o.barebones), f("save_in_background", o.save_in_background),
      f("silence", o.silence);
}

/// The options of automatic optimization; nullptr in manual optimization.
template <class Optimization>
Automatic const* automatic_options(Optimization const& how) {
  if constexpr (std::is_convertible_v<Optimization const*, Automatic const*>) return &how;
  else return nullptr;
}

/// All options with their values, including defaults, such as `max_epochs = 10`; then those of the optimization.
std::string options_text(TrainerOptions const& options, Automatic const* how);

template <class T>
struct DescribedTrainer;
template <class M, class S, class P, class O, class... Cs>
struct DescribedTrainer<Trainer<M, S, P, O, Cs...>> : ConstantText<Describer<M, S, P, O, Cs...>> {};

/// A line's first column, of at least 24 characters.
std::string first_column(std::string_view name);
/// A line for a loader: its type, and the functions that it has.
template <class L>
std::string described_loader(std::string_view from) {
  using Loader = std::remove_cvref_t<L>;
  std::string line = first_column(from), names;
  line += type_name<Loader>();
  each_function_of_loader<Loader>([&](std::string_view name) {
    names += names.empty() ? ": " : ", ";
    names += name;
  });
  return line + names + "\n";
}
/// A line for each loader of a tuple.
template <class L>
std::string described_loaders(std::string_view from) {
  if constexpr (!loop::is_tuple<std::remove_cvref_t<L>>) return described_loader<L>(from);
  else
    return [&]<class... Ls>(std::type_identity<std::tuple<Ls...>>) {
      return (std::string() + ... + described_loader<Ls>(from));
    }(std::type_identity<std::remove_cvref_t<L>>());
}
/// The data of a call: for a data module, its functions and the loaders that it returns; otherwise a loader.
template <class D>
std::string described_data() {
  if constexpr (!DataModuleLike<D>) return described_loaders<D>("loader");
  else {
    std::string text;
    auto const loader_of = [&]<class Hook>(std::type_identity<Hook>) {
      if constexpr (Hook::template accepts<D>)
        text += described_loaders<decltype(Hook::call(std::declval<D&>()))>(Hook::name());
    };
    auto const has = [&]<class Hook>(std::type_identity<Hook>) {
      if (!Hook::template named<D>) return;
      text += first_column(Hook::name());
      text += type_name<D>();
      text += "\n";
    };
    has(std::type_identity<hook::prepare_data>());
    has(std::type_identity<hook::setup>());
    loader_of(std::type_identity<hook::train_dataloader>());
    loader_of(std::type_identity<hook::val_dataloader>());
    loader_of(std::type_identity<hook::test_dataloader>());
    loader_of(std::type_identity<hook::predict_dataloader>());
    has(std::type_identity<hook::on_before_batch_transfer>());
    has(std::type_identity<hook::transfer_batch_to_device>());
    has(std::type_identity<hook::on_after_batch_transfer>());
    has(std::type_identity<hook::teardown>());
    return text;
  }
}

}  // namespace report

/// The program that a trainer's types make, as a compile-time constant. Print it, or test it:
/// `static_assert(description<decltype(trainer)>.find("Adam") != std::string_view::npos)`.
template <class Trainer>
inline constexpr std::string_view description = report::DescribedTrainer<std::remove_cvref_t<Trainer>>::view;

namespace report {

/// A description, and what the options of a trainer add to its program and switch off. `idle`: the callbacks that a
/// fast_dev_run leaves out.
std::string program_text(Description const& description, TrainerOptions const& options, Automatic const* how,
                         std::span<bool const> idle);

/// The program that a trainer's types make, and what its options add and switch off.
template <class M, class S, class P, class O, class... Cs>
std::string program_text(std::type_identity<Trainer<M, S, P, O, Cs...>>, TrainerOptions const& options, O const& how) {
  static constexpr std::array<bool, sizeof...(Cs)> idle{loop::is_inert_in_dev_run<Cs>()...};
  return program_text(Described<Describer<M, S, P, O, Cs...>>::description, options, automatic_options(how), idle);
}

}  // namespace report

/// Describes a trainer: `std::cout << describe(trainer);` prints the program that its types make, then what only this
/// object knows: what its options add and switch off, and, if its strategy has an `account()`, what the strategy has
/// done so far. `describe(trainer, train, val)`, or `describe(trainer, data_module)`, also lists the functions of each
/// loader that are called; no loader is read.
template <class M, class S, class P, class O, class... Cs, class... Data>
std::string describe(Trainer<M, S, P, O, Cs...> const& trainer, Data const&...) {
  std::string text =
      report::program_text(std::type_identity<Trainer<M, S, P, O, Cs...>>(), trainer.options(), trainer.optimization());
  if constexpr (sizeof...(Data) != 0) {
    text += "\ndata\n";
    ((text += report::described_data<Data>()), ...);
  }
  if constexpr (hook::account::named<S>) {
    text += "\nstrategy\n";
    for (std::string const& line : trainer.strategy().account()) text += "  " + line + "\n";
  }
  return text;
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/describe.ipp>
#endif
