#pragma once
// A program with a command line: its options, their values, and the verb (fit, test, ...) that runs.

#include <unistd.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <toml++/toml.h>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/cli/table.hpp>
#include <fulgurite/cli/text.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/defaults/callbacks.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

namespace fulgurite::cli {

// Resolves the value of each option from the program, the environment, files, and the command line; the last one wins.

/// The parts of a command line, such as `fit --config a.toml --trainer.max_epochs 10`.
struct Words {
  std::string verb = {};
  std::vector<std::string> configs = {};
  std::vector<std::pair<std::string, std::string>> options = {};  ///< names and values, in the table's order
  bool help = false, print_config = false;
};

/// Parses the arguments. Throws an Error for an option without a value, an option that is given twice, and an unknown
/// word.
Words read_words(std::vector<std::string> const& arguments, Table const& table, std::vector<std::string> const& verbs);

// Configuration files: read by toml++, written by the functions here.

/// One value of a file, and its position.
struct FileValue {
  std::string name;
  Written value;
  std::string where;
};

/// All values of a TOML text; `name` is the file's name in errors.
std::vector<FileValue> read_toml(std::string_view text, std::string const& name);
std::vector<FileValue> read_toml(std::filesystem::path const& file);

/// All options with their values, with a table for each group; reading the text gives the same values. If options are
/// linked and none was given, they are written as comments, since the file does not set them.
std::string to_toml(Table const& table);

/// Variables that the library, its examples, tests and tools read.
inline constexpr auto own_variables =
    std::to_array<std::string_view>({"FULGURITE_DATA", "FULGURITE_MNIST", "FULGURITE_OBSERVATIONS", "FULGURITE_PYTHON",
                                     "FULGURITE_STARTED_BY", "FULGURITE_TORCHRUN", "FULGURITE_TURNS"});

/// Sets options from the environment: `environment` is a null-terminated array, as main gets it or `environ`. Throws an
/// Error for a variable of the groups trainer, model, data and tune that names no option, since a misspelt one would
/// have no effect. Other unknown variables with the prefix may belong to another program: returns a warning for each.
std::vector<std::string> take_environment(Table& table, char const* const* environment);

/// Sets all options: from the environment, then from each file in turn, then from the command line. Returns warnings.
std::vector<std::string> resolve(Table& table, Words const& words, char const* const* environment);

// Checks that a run would make once its data are loaded, made before they are read.

/// For `fit`, whose trainer may have limits set by the program: throws an Error if no limit ends it.
void check_end(auto const& trainer) {
  try {
    loop::check_end(loop::effective(trainer.given_options()));
  } catch (Error const& error) {
    throw Error(error.identifier(),
                "nothing ends this run: say --trainer.max_epochs, --trainer.max_steps or --trainer.max_time "
                "(--trainer.max_epochs -1 makes it endless)");
  }
}

/// Throws an Error if the file does not exist. The trainer resolves "last" and "hpc"; "best" is known only to a process
/// that has trained, and no verb runs after training.
void check_ckpt_path(std::optional<std::string> const& path);

/// Throws an Error if this machine lacks the device. Only strategies with `require_device()` are checked.
template <class... Policies>
void check_devices([[maybe_unused]] Policies const&... policies) {
  [[maybe_unused]] auto const one = [](auto const& policy) {
    if constexpr (requires { policy.require_device(); }) policy.require_device();
  };
  (one(policies), ...);
}

// The text of --help, 80 columns wide, or as narrow as the terminal.

/// Two columns: what to write, and what it means, broken between words. If the left text does not fit into the first
/// column, it gets a line of its own; in a narrow terminal that is always so.
std::string help_line(std::string const& left, std::string_view about, std::size_t width = 80);

/// The whole page. `verbs`: each verb with its meaning.
std::string help_page(std::string const& program, std::vector<std::pair<std::string, std::string>> const& verbs,
                      Table const& table, std::size_t columns = 0);

}  // namespace fulgurite::cli

namespace fulgurite {

// Writes the options of a run into its folder.

template <class M, class S, class P, class O, class... Cs>
class Trainer;

namespace cli {

/// Writes config.toml when a fit starts, into the logger's folder, or into default_root_dir if there is no logger. A
/// file with other values is not overwritten: the new one is named config-2.toml, and so on.
class SaveConfig {
 public:
  using Hooks = Implements<hook::on_fit_start>;
  using Stateless = ByChoice;
  static constexpr bool inert_in_dev_run = true;

  explicit SaveConfig(std::string text) : text_(std::move(text)) {}

  void on_fit_start(auto& ctx) {
    if (ctx.rank() != 0 || ctx.dev_run() || ctx.options().barebones) return;
    auto const folder = run_output::folder(ctx, {});
    for (int number = 1;; ++number) {
      file_ = folder / (number == 1 ? "config.toml" : "config-" + std::to_string(number) + ".toml");
      if (!std::filesystem::exists(file_)) return write_durably(file_, text_);
      std::ifstream stream(file_, std::ios::binary);
      if (std::string(std::istreambuf_iterator<char>(stream), {}) == text_) return;
    }
  }

  /// The file with the options of the last fit; empty before.
  std::filesystem::path const& file() const { return file_; }

 private:
  std::string text_;
  std::filesystem::path file_{};
};

/// True if the trainer has the SaveConfig callback.
template <class T>
inline constexpr bool keeps_config = false;
template <class M, class S, class P, class O, class... Cs>
inline constexpr bool keeps_config<Trainer<M, S, P, O, Cs...>> = (std::is_same_v<SaveConfig, Cs> || ...);

/// Checks that the trainer was made from everything that the command line made.
template <class Made>
consteval bool has_all_parts() {
  constexpr bool has = keeps_config<Made>;
  static_assert(has, "[fulgurite.cli.parts] a program's make_trainer is given all that the command line made: write "
                     "[](auto... parts) { return make_trainer<Net>(parts..., Mine{}); }");
  return has;
}

// The verbs of a program, which depend on the functions of its model and its data.

/// True for each verb for which the model has the step, and the data have the loader.
template <class Model, class Data>
struct Can {
  template <class Step, class Loader>
  static constexpr bool both =
      Step::template named<Model> && loop::ModuleLoaders<Data, true>::template evaluates<Loader>;
  static constexpr bool validate = both<hook::validation_step, hook::val_dataloader>;
  static constexpr bool test = both<hook::test_step, hook::test_dataloader>;
  static constexpr bool predict = both<hook::predict_step, hook::predict_dataloader>;
};

/// The member in which a model keeps its learning rate: `hparams.lr`, `hparams.learning_rate`, `lr` or `learning_rate`.
auto* rate_of(auto& model) {
  if constexpr (requires { model.hparams.lr; }) return &model.hparams.lr;
  else if constexpr (requires { model.hparams.learning_rate; }) return &model.hparams.learning_rate;
  else if constexpr (requires { model.lr; }) return &model.lr;
  else if constexpr (requires { model.learning_rate; }) return &model.learning_rate;
  else return static_cast<void*>(nullptr);
}
/// True if `tune` can search for the model's learning rate: it has such a member, of a suitable type.
template <class Model>
inline constexpr bool has_rate = tune::is_rate<std::remove_pointer_t<decltype(rate_of(std::declval<Model&>()))>>;

/// The options of `tune`.
struct Tuning {
  bool lr_find = true;
  bool batch_size = false;
  double min_lr = 1e-8;
  double max_lr = 1;
  int num_training = 100;

  void add_to(auto& table, bool sizes) {
    table.add("tune.lr_find", lr_find, "search for a learning rate", false);
    if (sizes) table.add("tune.batch_size", batch_size, "search for the largest batch size first", false);
    table.add("tune.min_lr", min_lr, "the lowest rate that is tried", false);
    table.add("tune.max_lr", max_lr, "the highest", false);
    table.add("tune.num_training", num_training, "steps of the search", false);
  }

  template <class Model>
  tune::RateSearch<Model> rate_search() const {
    return {.min_lr = min_lr, .max_lr = max_lr, .num_training = num_training, .update = [](Model& net) -> auto& {
              return *rate_of(net);
            }};
  }
  /// Throws an Error if a search is impossible, or none is requested. Called before data are read. `sizes`: the data
  /// have a batch size that can be set; `several`: several processes train the model.
  template <class Model>
  void check(bool sizes, bool several) const {
    if (lr_find) tune::check(rate_search<Model>());
    else if (!sizes || !batch_size)
      throw Error("fulgurite.cli.tune", std::string("--tune.lr_find = false: nothing is left to search for") +
                                            (sizes ? "; --tune.batch_size true searches for a batch size" : ""));
    if (sizes && batch_size && several)
      throw Error("fulgurite.cli.tune", "--tune.batch_size = true: each of several processes would find another size: "
                                        "tune with a strategy of one process, then train with what it found");
  }
};

/// Searches, sets the results in model and data, and returns them as text.
template <class Trainer, class Model, class Data>
std::string tuned(Trainer& trainer, Model& model, Data& data, Tuning const& how) {
  std::string text;
  if constexpr (SettableBatchSize<Data> && !loop::shares<typename Trainer::Run>) {
    if (how.batch_size) {
      auto const found = tune::scale_batch_size(trainer, model, data);
      text += found.table();
      if constexpr (requires { data.hparams.batch_size; })
        data.hparams.batch_size = static_cast<std::remove_cvref_t<decltype(data.hparams.batch_size)>>(found.size);
    }
  }
  if (how.lr_find) text += tune::lr_find(trainer, model, data, how.rate_search<Model>()).text();
  return text;
}

/// The implementation of run(), with words, environment and streams as arguments: for tests, and for programs that need
/// more control. Not movable.
template <class Model, class Data, class Make, class... Choices>
class Program {
 public:
  explicit Program(Make make, Choices... choices) : make_(std::move(make)), choices_(std::move(choices)...) {
    table_.add("seed_everything", seed_, "seed of the weights, and of everything without a seed of its own");
    table_.add("ckpt_path", ckpt_path_,
               "a checkpoint, or last: fit resumes from it; validate, test and predict use its weights");
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

  /// Returns the exit status of the process: 0; 1 if the run failed; 2 if the command line was wrong; 128 plus the
  /// signal's number if a signal ended the run. An error is printed as one line on `err`.
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
        if (!options_.silence.has("fulgurite.cli.variable")) print_lines(err, warning);
      if constexpr (seeds_data)
        if (table_.was_given("seed_everything") && !table_.was_given("data.seed"))
          data_.seed = static_cast<decltype(data_.seed)>(seed_);  // the seed of loaders
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
    if (Able::predict) all.emplace_back("predict", "one pass whose predictions callbacks receive");
    if (tunes) all.emplace_back("tune", "searches for settings, and prints a file that has them");
    return all;
  }
  static std::vector<std::string> verb_names() {
    std::vector<std::string> names;
    for (auto const& [verb, about] : verbs()) names.push_back(verb);
    return names;
  }

  /// Prints once, even if a launcher has started several processes of the program.
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
  /// Everything that make_trainer accepts, with the options first and the rest in any order.
  template <class... Policies>
  auto made_trainer(Policies const&... policies) {
    SaveConfig config("# The options of a run. To repeat it: " + name_ + " fit --config THIS_FILE\n" + to_toml(table_));
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
        if (verb == "tune") tuning_.template check<Model>(SettableBatchSize<Data>, loop::shares<typename Made::Run>);
      auto trainer = made_trainer(policies...);
      if (verb == "fit") check_end(trainer);
      Made::Run::Backend::seed(seed_);
      Model model = made<Model>(model_);
      Data data = made<Data>(data_);  // may read or download; the options have been checked by now
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

/// The trainer of a program that does not define one: make_trainer with its defaults.
template <class Model>
struct MakeDefault {
  template <class... Parts>
  auto operator()(Parts... parts) const {
    return make_trainer<Model>(std::move(parts)...);
  }
};

/// A policy, or a choice between policies.
template <class T>
concept ChoiceOrPolicy = Chooses<T> || OptimizationLike<T> || PrecisionLike<T> || StrategyLike<T>;

// main in one line: see docs/command_line.md.

/// The whole of main, with the verbs `fit`, `validate`, `test`, `predict` and `tune` if model and data have the
/// functions for them; the program's --help lists them. Model and Data are constructed from their settings, the struct
/// in their member `hparams`.
///
///     int main(int argc, char** argv) {
///       return cli::run<Net, Digits>(
///           argc, argv, [](auto... parts) { return make_trainer<Net>(parts..., EarlyStopping{Net::val_loss}); },
///           cli::precisions<Float32, Bf16Mixed>());
///     }
///
/// `make` receives the options, the chosen policies and a callback, and makes the trainer from them and from the
/// program's own parts. After `make` come choices (precisions, choice, from_text), and policies that are the same in
/// each run, such as Manual{}.
template <class Model, class Data, class Make, class... Choices>
  requires(!ChoiceOrPolicy<Make>)
int run(int argc, char const* const* argv, Make make, Choices... choices) {
  try {
    Program<Model, Data, Make, Choices...> program(std::move(make), std::move(choices)...);
    return program.run(argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program",
                       argc > 0 ? std::vector<std::string>(argv + 1, argv + argc) : std::vector<std::string>(),
                       ::environ);
  } catch (Error const& error) {  // a setting's name that cannot be an option
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
/// The same with make_trainer<Model>(TrainerOptions{...}).
template <class Model, class Data, class... Choices>
  requires(ChoiceOrPolicy<Choices> && ...)
int run(int argc, char const* const* argv, Choices... choices) {
  return run<Model, Data>(argc, argv, MakeDefault<Model>(), std::move(choices)...);
}

}  // namespace cli
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/cli/program.ipp>
#endif
