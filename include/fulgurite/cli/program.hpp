#pragma once
// A program with a command line: its options, what they resolve to, and the verb that runs.

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/cli/before_data.hpp>
#include <fulgurite/cli/choice.hpp>
#include <fulgurite/cli/help.hpp>
#include <fulgurite/cli/resolve.hpp>
#include <fulgurite/cli/save_config.hpp>
#include <fulgurite/cli/settings.hpp>
#include <fulgurite/cli/trainer_options.hpp>
#include <fulgurite/cli/verbs.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/defaults/callbacks.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::cli {

/// What run() does, with the words, the environment and the streams given: for tests, and for programs that have more
/// to do. It stays where it was made.
template <class Model, class Data, class Make, class... Choices>
class Program {
 public:
  explicit Program(Make make, Choices... choices) : make_(std::move(make)), choices_(std::move(choices)...) {
    table_.add("seed_everything", seed_, "seed of the weights and of what draws without a seed of its own");
    table_.add("ckpt_path", ckpt_path_,
               "a checkpoint, or last: fit goes on from it, validate, test and predict take its weights");
    add_trainer_options(table_, options_);
    if constexpr (automatic) add_trainer_options(table_, optimization_);
    std::apply(
        [&](auto&... one) {
          [[maybe_unused]] auto const add = [&](auto& choice) {
            if constexpr (Chooses<std::remove_cvref_t<decltype(choice)>>) choice.add_to(table_);
          };
          (add(one), ...);
        },
        choices_);
    add_settings(table_, "model", model_);
    add_settings(table_, "data", data_);
    if constexpr (seeds_data) table_.link("data.seed", "seed_everything");
    if constexpr (tunes) tuning_.add_to(table_, SettableBatchSize<Data>);
  }
  Program(Program const&) = delete;

  Table const& table() const { return table_; }

  /// The status of the process: 0; 1 where the run failed; 2 where the words were wrong; 128 and the signal's number
  /// where one ended the run. What went wrong is one line on `err`.
  int run(std::string const& name, std::vector<std::string> const& words, char const* const* environment = nullptr,
          std::FILE* out = stdout, std::FILE* err = stderr) {
    try {
      name_ = name;
      auto const said = read_words(words, table_, verb_names());
      if (said.help || (said.verb.empty() && !said.print_config)) {
        auto* const to = said.help ? out : err;
        std::fputs(help_page(name, verbs(), table_, report::text_columns(to, 0)).c_str(), to);
        return said.help ? 0 : 2;
      }
      for (auto const& warning : resolve(table_, said, environment))
        if (!options_.silence.has("fulgurite.cli.variable")) tell(err, warning);
      if constexpr (seeds_data)
        if (table_.was_said("seed_everything") && !table_.was_said("data.seed"))
          data_.seed = static_cast<decltype(data_.seed)>(seed_);  // loaders draw by a seed of their own
      check_trainer_options(table_, options_);
      if constexpr (automatic) check_trainer_options(table_, optimization_);
      check_settings("model", model_);
      check_settings("data", data_);
      if (said.print_config) print_config(out);
      else go(said.verb, out, err);
      return 0;
    } catch (Interrupted const& end) {
      std::fprintf(err, "%s\n", end.what());
      return end.exit_code();
    } catch (Error const& error) {
      std::fprintf(err, "%s\n", error.what());
      bool const words_were_wrong = error.identifier().starts_with("fulgurite.cli.") ||
                                    error.identifier().starts_with("fulgurite.options.") ||
                                    error.identifier() == "fulgurite.tuner.range";
      return words_were_wrong ? 2 : 1;
    } catch (std::exception const& error) {
      std::string_view const what = error.what();
      auto const sentence = what.substr(0, what.find("\nException raised from "));  // LibTorch adds a backtrace
      std::fprintf(err, "%.*s\n", static_cast<int>(sentence.size()), sentence.data());
      return 1;
    }
  }

 private:
  using Able = Can<Model, Data>;
  static constexpr bool automatic = !(OptimizationLike<Choices> || ...);
  static constexpr bool tunes = automatic && has_rate<Model>;
  static constexpr bool seeds_data =
      requires(typename SettingsOf<Data>::type data) { requires std::integral<decltype(data.seed)>; };

  static std::vector<std::pair<std::string, std::string>> verbs() {
    std::vector<std::pair<std::string, std::string>> all{{"fit", "trains, and validates on the way"}};
    if (Able::validate) all.emplace_back("validate", "one pass over the validation data");
    if (Able::test) all.emplace_back("test", "one pass over the test data");
    if (Able::predict) all.emplace_back("predict", "one pass that hands predictions to the callbacks");
    if (tunes) all.emplace_back("tune", "searches for settings, and prints a file that has them");
    return all;
  }
  static std::vector<std::string> verb_names() {
    std::vector<std::string> names;
    for (auto const& [verb, about] : verbs()) names.push_back(verb);
    return names;
  }

  /// Once, where a launcher has started several processes of the program.
  void print_config(std::FILE* out) {
    bool first = true;
    [[maybe_unused]] auto const look = [&](auto const& policy) {
      if constexpr (requires { policy.rank(); }) first = first && policy.rank() == 0;
    };
    std::apply(
        [&](auto&... choice) { with_chosen([&](auto const&... policies) { (look(policies), ...); }, choice...); },
        choices_);
    if (first) std::fputs(to_toml(table_).c_str(), out);
  }
  void go(std::string const& verb, std::FILE* out, std::FILE* err) {
    std::apply(
        [&](auto&... choice) {
          with_chosen([&](auto const&... policies) { go_with(verb, out, err, policies...); }, choice...);
        },
        choices_);
  }
  /// Everything that make_trainer may be given, in any order but for the options.
  template <class... Policies>
  auto made_trainer(Policies const&... policies) {
    SaveConfig config("# What a run was told. To repeat it: " + name_ + " fit --config THIS_FILE\n" + to_toml(table_));
    if constexpr (automatic) return make_(options_, optimization_, policies..., std::move(config));
    else return make_(options_, policies..., std::move(config));
  }
  template <class... Policies>
  void go_with(std::string const& verb, [[maybe_unused]] std::FILE* out, [[maybe_unused]] std::FILE* err,
               Policies const&... policies) {
    using Made = decltype(made_trainer(policies...));
    if constexpr (has_all_parts<Made>()) {
      check_ckpt_path(ckpt_path_);
      check_devices(policies...);
      if constexpr (tunes)
        if (verb == "tune") tuning_.template check<Model>(SettableBatchSize<Data>);
      auto trainer = made_trainer(policies...);
      if (verb == "fit") check_end(trainer);
      Made::Run::Backend::seed(seed_);
      Model model = made<Model>(model_);
      Data data = made<Data>(data_);  // may read, or download: nothing that was said is wrong by now
      std::optional<CkptPath> from;
      if (ckpt_path_) from.emplace(*ckpt_path_);
      if (verb == "fit") return trainer.fit(model, data, from);
      if constexpr (Able::validate)
        if (verb == "validate") return static_cast<void>(trainer.validate(model, data, from));
      if constexpr (Able::test)
        if (verb == "test") return static_cast<void>(trainer.test(model, data, from));
      if constexpr (Able::predict)
        if (verb == "predict") return trainer.predict(model, data, DiscardPredictions{}, from);
      if constexpr (tunes) {
        auto const found = tuned(trainer, model, data, tuning_);
        if constexpr (HasSettings<Model>) model_ = model.hparams;
        if constexpr (HasSettings<Data>) data_ = data.hparams;
        if (trainer.strategy().rank() != 0) return;
        std::fputs(found.c_str(), err);
        if (tuning_.lr_find && !table_.find("model.lr") && !table_.find("model.learning_rate"))
          std::fputs("The file below has no learning rate, which is no option of this program: it has one where the "
                     "model keeps it as hparams.lr\n",
                     err);
        std::fputs(to_toml(table_).c_str(), out);
      }
    }
  }

  Make make_;
  std::tuple<Choices...> choices_;
  std::string name_{};
  std::uint64_t seed_ = 0;
  std::optional<std::string> ckpt_path_ = std::nullopt;
  TrainerOptions options_{};
  Automatic optimization_{};
  typename SettingsOf<Model>::type model_{};
  typename SettingsOf<Data>::type data_{};
  Tuning tuning_{};
  Table table_{};
};

/// The trainer of a program that says nothing of it: what make_trainer takes by default.
template <class Model>
struct MakeDefault {
  template <class... Parts>
  auto operator()(Parts... parts) const {
    return make_trainer<Model>(std::move(parts)...);
  }
};

/// A policy or a choice of one.
template <class T>
concept ChoiceOrPolicy = Chooses<T> || OptimizationLike<T> || PrecisionLike<T> || StrategyLike<T>;

}  // namespace fulgurite::cli
