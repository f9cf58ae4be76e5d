#pragma once
// The options of a trainer, each with a line that says what it is.

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/cli/list_text.hpp>
#include <fulgurite/cli/table.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/checked_options.hpp>
#include <fulgurite/loop/silence.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/report/reflected_options.hpp>

namespace fulgurite::cli {

/// A list of identifiers.
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
    static std::set<std::string, std::less<>> kept;  // a Silence borrows its texts
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

/// What --help says of each option of a trainer and of its optimization.
inline constexpr auto trainer_help = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"max_epochs", "passes over the training data; -1: no limit"},
    {"min_epochs", "passes that stopping early waits for"},
    {"max_steps", "optimizer steps; -1: no limit"},
    {"min_steps", "steps that stopping early waits for"},
    {"max_time", "training ends after it: days, hours, minutes, seconds"},
    {"limit_train_batches", "a count, or a part of the loader"},
    {"limit_val_batches", "the same of the validation loader"},
    {"limit_test_batches", "the same of the test loader"},
    {"limit_predict_batches", "the same of the predict loader"},
    {"val_check_interval", "validate after so many batches, after each such part of an epoch, or after so much time"},
    {"check_val_every_n_epoch", "validate every so many epochs; none: batches count across epochs"},
    {"num_sanity_val_steps", "validation batches tried before training; -1: all"},
    {"log_every_n_steps", "steps between rows of the log; 0: never"},
    {"fast_dev_run", "so many batches of every loop, to see that all runs; 0: off"},
    {"overfit_batches", "the same first batches in every epoch"},
    {"reload_dataloaders_every_n_epochs", "loaders are made anew so often; 0: never"},
    {"use_distributed_sampler", "each process gets its part of a loader"},
    {"inference_mode", "in validate, test and predict; false: no_grad"},
    {"non_finite", "where a loss or gradient is not finite: stop, skip or ignore"},
    {"detect_anomaly", "backward names the function that returns a nan; slow"},
    {"deterministic", "only algorithms that give the same bits each time"},
    {"benchmark", "cuDNN tries its algorithms and takes the fastest"},
    {"barebones", "the loop alone: nothing logged, shown or saved"},
    {"default_root_dir", "folder of logs and checkpoints"},
    {"save_in_background", "a thread of its own writes checkpoints"},
    {"silence", "warnings that are not printed"},
    {"accumulate_grad_batches", "batches of which a step is the mean"},
    {"clip", "gradients are clipped, as: \"norm 1.0\""},
    {"tbptt", "time steps of a slice; 0: batches are not cut"},
});
/// The line of --help for one of them; empty for a name that has none.
constexpr std::string_view help_of(std::string_view name) {
  for (auto const& [known, about] : trainer_help)
    if (known == name) return about;
  return {};
}

/// All fields that a text can give, under trainer.
template <class Options>
void add_trainer_options(Table& table, Options& options) {
  reflect::each_field(options, [&]<class T>(std::string_view name, T& field) {
    if constexpr (Textual<T>) table.add("trainer." + std::string(name), field, std::string(help_of(name)));
  });
}

/// The rules that a trainer asks, before there is one; an Error has the option's whole name, and its value as it is
/// written here rather than in a program.
template <class Options>
void check_trainer_options(Table const& table, Options const& options) {
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

}  // namespace fulgurite::cli
