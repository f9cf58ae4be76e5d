#include <fulgurite/cli/program.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/data/combined.hpp>

#include "models.hpp"
#include "unit/callback_run.hpp"
#include "unit/callback_stream.hpp"

using namespace fulgurite;

namespace {
struct Block {
  int width = 8;
  std::vector<double> rates{0.5, 0.25};
  static constexpr auto ranges = std::tuple(reflect::at_least(&Block::width, 1));
  static constexpr auto about = std::tuple(cli::about(&Block::width, "units of a block"));
};
struct DeepSettings {
  double lr = 0.125;
  Block first{};
  std::vector<int> sizes{64, 32};
  std::vector<std::string> names{"a", "b,c"};
  double most = std::numeric_limits<double>::infinity();
  std::string version = "1.10";
  std::optional<double> decay = std::nullopt;
  bool bias = true;
  Mode mode = Mode::max;
  static constexpr auto about = std::tuple(cli::about(&DeepSettings::sizes, "of the layers"));
};
}  // namespace
BOOST_HANA_ADAPT_STRUCT(Block, width, rates);
BOOST_HANA_ADAPT_STRUCT(DeepSettings, lr, first, sizes, names, most, version, decay, bias, mode);
namespace {
struct LineSettings {
  double lr = 0.125;
  int hidden = 4;
  std::string name = "line";
  static constexpr auto ranges = std::tuple(reflect::within(&LineSettings::hidden, 1, 64));
  static constexpr auto about = std::tuple(cli::about(&LineSettings::hidden, "units of the hidden layer"),
                                           cli::about(&LineSettings::lr, "learning rate"));
  void hyperparameters(auto& list) const { list("lr", lr)("hidden", hidden)("name", name); }
};
}  // namespace
BOOST_HANA_ADAPT_STRUCT(LineSettings, lr, hidden, name);
namespace {

/// What a run was, for the test to see.
struct Seen {
  LineSettings net{};
  long batches = 0;
  double drawn = 0;
  bool half = false;
  int accumulate = 0;
  std::string events = {};
  int data = 0;  ///< modules that were made, which may read their files
};
Seen seen;

struct Line {
  static constexpr Metric<"loss"> loss{};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  LineSettings hparams;
  toy::Tensor p = toy::Tensor::parameter(3.0);
  explicit Line(LineSettings settings) : hparams(settings) {
    seen.net = settings;
    seen.drawn = toy::draw();
  }
  toy::Tensor training_step(double, auto& ctx) {
    ++seen.batches;
    seen.accumulate = ctx.accumulate_grad_batches();
    seen.half = std::remove_cvref_t<decltype(ctx)>::Run::Precision::autocasts;
    auto square = p * p;
    ctx.log(loss, square);
    return square;
  }
  void validation_step(double batch, auto& ctx) { ctx.log(val_loss, batch + p.value()); }
  void test_step(double, auto&) { seen.events += "test "; }
  double predict_step(double batch) {
    seen.events += "predict ";
    return batch;
  }
  void on_fit_start() { seen.events += "fit "; }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}, hparams.lr}; }
};

struct Numbers {
  struct Settings {
    int count = 4;
    void hyperparameters(auto& list) const { list("count", count); }
  } hparams;
  explicit Numbers(Settings settings) : hparams(settings) { ++seen.data; }
  auto train_dataloader() { return toy::batches(hparams.count); }
  auto val_dataloader() { return toy::batches(1); }
  auto test_dataloader() { return toy::batches(2); }
  auto predict_dataloader() { return toy::batches(1); }
};

/// Keeps its rate where no option is, and has data that draw by a seed.
struct Bare {
  double lr = 0.125;
  toy::Tensor p = toy::Tensor::parameter(3.0);
  toy::Tensor training_step(double, auto&) { return p * p; }
  void validation_step(double, auto&) {}
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}, lr}; }
};
struct Shuffled : Numbers {
  struct Settings {
    int count = 4, seed = 42;
    void hyperparameters(auto& list) const { list("count", count)("seed", seed); }
  } hparams;
  explicit Shuffled(Settings settings) : Numbers(Numbers::Settings{.count = settings.count}), hparams(settings) {}
};

/// One whose trainers are added to, as those on LibTorch.
struct Host : toy::Device {
  struct Backend : SavingBackend {
    static constexpr bool adds_defaults = true;
  };
};

/// It may not be there.
struct Absent : Host {
  bool there = false;
  void require_device() const {
    if (!there) throw Error("fulgurite.strategy.cuda_absent", "no such device");
  }
};

auto const make = [](auto... parts) {
  return make_trainer<Line>(std::move(parts)..., Host{}, NoProgressBar{}, NoModelSummary{});
};

struct Ran {
  int status;
  std::string out, err;
};
Ran ran(std::vector<std::string> words, std::vector<char const*> environment = {}) {
  seen = {};
  Stream out, err;
  cli::Program<Line, Numbers, decltype(make), decltype(cli::precisions<Float32, Bf16Mixed>())> program(
      make, cli::precisions<Float32, Bf16Mixed>());
  environment.push_back(nullptr);
  int const status = program.run("line", std::move(words), environment.data(), out.file, err.file);
  return {status, out.all(), err.all()};
}
std::string contents(std::filesystem::path const& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}
void write(std::filesystem::path const& file, std::string const& text) { std::ofstream(file) << text; }
bool has(std::string const& text, std::string_view part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("cli: a fit with options of trainer, model and data; its folder has what it was told, and repeats it") {
  Folder const folder;
  auto const root = "--trainer.default_root_dir=" + folder.path.string();
  auto const fit =
      ran({"fit", "--trainer.max_epochs", "2", "--model.hidden", "16", "--data.count=6", root, "--trainer.precision",
           "bf16-mixed", "--trainer.accumulate_grad_batches", "3", "--seed_everything", "7"});
  CHECK(fit.err == "");
  REQUIRE(fit.status == 0);
  CHECK(seen.net.hidden == 16);
  CHECK(seen.batches == 12);
  CHECK(seen.half);
  CHECK(seen.accumulate == 3);
  double const drawn = seen.drawn;
  auto const config = folder / "lightning_logs/version_0/config.toml";
  auto const text = contents(config);
  CHECK(has(text, "seed_everything = 7\n"));
  CHECK(has(text, "\n[trainer]\nmax_epochs = 2\nmin_epochs = \"none\"\n"));
  CHECK(has(text, "limit_val_batches = 1.0\n"));
  CHECK(has(text, "precision = \"bf16-mixed\"\n"));
  CHECK(has(text, "\n[model]\nlr = 0.125\nhidden = 16\nname = \"line\"\n\n[data]\ncount = 6\n"));

  CHECK(ran({"fit", "--config", config.string()}).status == 0);
  CHECK(seen.batches == 12);
  CHECK(seen.half);
  CHECK(seen.drawn == drawn);
  CHECK(contents(folder / "lightning_logs/version_1/config.toml") == text);
  CHECK(ran({"fit", "--config", config.string(), "--seed_everything", "8"}).status == 0);
  CHECK(seen.drawn != drawn);
}

TEST_CASE("cli: without a log the file of values lies in default_root_dir, and one of other values is left alone") {
  Folder const folder;
  auto const saved = [&](std::string text) {
    Line net(LineSettings{});
    auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 1, .default_root_dir = folder / "new"}, toy::Device{},
                                Float32{}, Automatic{}, cli::SaveConfig(std::move(text)));
    trainer.fit(net, toy::batches(1), NoValidation{});
    return trainer.callback<cli::SaveConfig>().file().filename();
  };
  CHECK(saved("a") == "config.toml");
  CHECK(saved("b") == "config-2.toml");
  CHECK(saved("a") == "config.toml");
  CHECK(contents(folder / "new/config.toml") == "a");
  CHECK(contents(folder / "new/config-2.toml") == "b");
}

TEST_CASE("cli: verbs are what model and data can do; tune prints a file with what it found") {
  Folder const folder;
  auto const root = "--trainer.default_root_dir=" + folder.path.string();
  CHECK(ran({"test", root}).status == 0);
  CHECK(seen.events == "test test ");
  CHECK(ran({"predict", root}).status == 0);
  CHECK(seen.events == "predict ");
  CHECK(ran({"validate", root}).status == 0);
  CHECK(seen.events.empty());
  auto const tuned = ran({"tune", root, "--trainer.max_epochs=50", "--tune.num_training", "40", "--tune.min_lr=1e-4"});
  CHECK(tuned.status == 0);
  CHECK(has(tuned.err, "suggested learning rate: "));
  CHECK(!has(tuned.out, "lr = 0.125\n"));
  CHECK(has(tuned.out, "\n[model]\nlr = "));
  CHECK(!has(tuned.out, "[tune]"));
  CHECK(ran({"fit", root, "--trainer.fast_dev_run", "1"}).status == 0);
  CHECK(seen.events == "fit ");
}

TEST_CASE("cli: the program's value, the environment, files in their turn, the command line: the last one wins") {
  Folder const folder;
  write(folder / "a.toml", "[trainer]\nmax_epochs = 3\nlimit_val_batches = 0.5\n[model]\nhidden = 8\n");
  write(folder / "b.toml", "trainer.max_epochs = 4\nmodel = { name = 'b' }\n");
  std::vector<char const*> const environment{"FULGURITE_TRAINER_MAX_EPOCHS=2", "FULGURITE_TRAINER_MIN_EPOCHS=1",
                                             "HOME=/"};
  auto const shown = [&](std::vector<std::string> words) {
    words.push_back("--print_config");
    auto const printed = ran(std::move(words), environment);
    CHECK(printed.err == "");
    CHECK(printed.status == 0);
    CHECK(seen.batches == 0);
    return printed.out;
  };
  auto const alone = shown({});
  CHECK(has(alone, "max_epochs = 2\nmin_epochs = 1\n"));
  auto const a = (folder / "a.toml").string(), b = (folder / "b.toml").string();
  auto const both = shown({"fit", "--config", a, "-c", b});
  CHECK(has(both, "max_epochs = 4\nmin_epochs = 1\n"));
  CHECK(has(both, "limit_val_batches = 0.5\n"));
  CHECK(has(both, "hidden = 8\nname = \"b\"\n"));
  CHECK(has(shown({"fit", "--config", b, "--config", a, "--trainer.min_epochs", "none"}),
            "max_epochs = 3\nmin_epochs = \"none\"\n"));
  write(folder / "c.toml", both);
  CHECK(shown({"--config", (folder / "c.toml").string()}) == both);
}

TEST_CASE("cli: what is wrong is one sentence with the option's name, and ends with status 2") {
  Folder const folder;
  auto const said = [&](std::vector<std::string> words, std::vector<char const*> environment = {}) {
    auto const wrong = ran(std::move(words), std::move(environment));
    CHECK(wrong.status == 2);
    CHECK(wrong.out == "");
    CHECK(seen.data == 0);
    return wrong.err;
  };
  CHECK(has(
      said({"fit", "--trainer.max_epoch", "3"}),
      "[fulgurite.cli.unknown] --trainer.max_epoch is no option of this program: did you mean --trainer.max_epochs?"));
  CHECK(has(said({"fit", "--max_epochs=3"}), "did you mean --trainer.max_epochs?"));
  CHECK(has(said({"fit", "--model.hiddne=3"}), "--model.hiddne is no option of this program: did you mean "));
  CHECK(has(said({"fit", "--wholly.unlike", "3"}), "--help lists them"));
  CHECK(has(said({"fti"}), "[fulgurite.cli.verb] 'fti' is nothing that this program does: did you mean fit? It knows "
                           "fit, validate, test, predict, tune"));
  CHECK(has(said({"unlike"}), "'unlike' is nothing that this program does. It knows fit, "));
  CHECK(has(said({"fit", "--trainer.max_epochs", "ten"}),
            "[fulgurite.cli.value] --trainer.max_epochs = ten: must be a whole number, or none"));
  CHECK(has(said({"fit", "--trainer.precision", "bf16"}), "did you mean bf16-mixed?"));
  CHECK(has(said({"fit", "--trainer.max_epochs=-3"}), "[fulgurite.options.range] --trainer.max_epochs = -3: "));
  CHECK(has(said({"fit", "--trainer.clip=norm 0"}), "[fulgurite.options.clip] --trainer.clip = "));
  CHECK(has(said({"fit", "--model.hidden=65"}),
            "[fulgurite.options.field] --model.hidden = 65: it must be from 1 to 64"));
  CHECK(has(said({"fit"}), "[fulgurite.options.no_end] nothing ends this run: say --trainer.max_epochs, "));
  CHECK(has(said({"fit", "--trainer.max_steps=-1"}), "[fulgurite.options.no_end]"));
  CHECK(has(said({"fit", "--trainer.max_epochs=1", "--ckpt_path", "nowhere.safetensors"}),
            "[fulgurite.cli.ckpt_path] --ckpt_path nowhere.safetensors: there is no such file"));
  CHECK(has(said({"test", "--ckpt_path=best"}), "[fulgurite.cli.ckpt_path] --ckpt_path best: which file is the best "));
  CHECK(
      has(said({"tune", "--tune.min_lr=1", "--tune.max_lr=0.5"}), "[fulgurite.tuner.range] a search for a learning "));
  CHECK(has(said({"tune", "--tune.lr_find=false"}), "[fulgurite.cli.tune] --tune.lr_find = false: nothing is left"));
  CHECK(has(said({"fit", "--trainer.limit_val_batches=1.5"}),
            "--trainer.limit_val_batches = 1.5: a count from 0 on, or a part from 0 to 1\n"));
  CHECK(has(said({"fit", "--trainer.clip=norm 0"}), "--trainer.clip = norm 0: a limit is above 0"));
  CHECK(has(said({"fit", "--trainer.min_epochs=3", "--trainer.max_epochs=1"}),
            "--trainer.min_epochs = 3 with max_epochs = 1, max_steps = none: above max_epochs"));
  CHECK(has(said({"fit", "--trainer.max_epochs"}), "[fulgurite.cli.words] --trainer.max_epochs has no value\n"));
  CHECK(has(said({"fit", "--trainer.max_epochs=1", "--trainer.max_epochs", "2"}),
            "[fulgurite.cli.words] --trainer.max_epochs is said more than once\n"));
  CHECK(has(said({"fit", "--config"}), "[fulgurite.cli.words] --config has no value\n"));
  CHECK(has(said({"fit", "--trainer.max_epochs", "--trainer.fast_dev_run=1"}),
            "[fulgurite.cli.words] --trainer.max_epochs has no value: after it comes --trainer.fast_dev_run=1"));
  CHECK(has(said({"fit", "--trainer.max_epochs=", "--trainer.fast_dev_run=1"}),
            "--trainer.max_epochs = : must be a whole number"));
  CHECK(has(said({"fit", "--ckpt_path=", "--trainer.fast_dev_run=1"}), "--ckpt_path"));
  CHECK(has(said({"fit", "--seed_everything=9223372036854775808"}),
            "--seed_everything = 9223372036854775808: must be a whole number from 0 to 9223372036854775807\n"));
  CHECK(has(said({"fit", "--trainer.clip", "norm", "1.0"}),
            "'1.0' belongs to no option; put a value of several words in quotes"));
  CHECK(has(said({"fit", "surplus"}), "'surplus' belongs to no option"));
  CHECK(has(said({"fit"}, {"FULGURITE_MODEL_HIDEN=3"}), "did you mean FULGURITE_MODEL_HIDDEN?"));
  CHECK(has(said({"fit"}, {"FULGURITE_MODEL_HIDDEN=x"}), "FULGURITE_MODEL_HIDDEN = x: must be a whole number"));
  auto const file = (folder / "a.toml").string();
  write(file, "[trainer]\nmax_epochs = 1\nmax_step = 2\n");
  CHECK(has(said({"fit", "--config", file}),
            "a.toml, line 3: trainer.max_step is no option of this program: did you mean --trainer.max_steps?"));
  write(file, "[trainer]\nmax_epochs = = 1\n");
  CHECK(has(said({"fit", "--config", file}), "[fulgurite.cli.config] " + file + ", line 2"));
  CHECK(has(said({"fit", "--config", "nowhere.toml"}), "cannot be read: nowhere.toml"));
}

TEST_CASE("cli: tune says where its file lacks the rate, and data without a seed of their own take the program's") {
  Folder const folder;
  auto const bare = [&](std::vector<std::string> words) {
    Stream out, err;
    auto const made = [](auto... parts) {
      return make_trainer<Bare>(std::move(parts)..., Host{}, NoProgressBar{}, NoModelSummary{});
    };
    cli::Program<Bare, Shuffled, decltype(made)> program(made);
    words.push_back("--trainer.default_root_dir=" + folder.path.string());
    CHECK(program.run("bare", std::move(words), nullptr, out.file, err.file) == 0);
    return std::pair(out.all(), err.all());
  };
  auto const [file, text] = bare({"tune", "--trainer.max_epochs=50", "--tune.min_lr=1e-4"});
  CHECK(has(text, "suggested learning rate: "));
  CHECK(has(text, "The file below has no learning rate"));
  CHECK(has(file, "# seed = 42\n"));  // the program's own: it is no value of the file
  auto const shown = [&](std::vector<std::string> words) {
    words.emplace_back("--print_config");
    return bare(std::move(words)).first;
  };
  CHECK(has(shown({"--seed_everything=7"}), "[data]\ncount = 4\n# seed = 7\n"));
  CHECK(has(shown({"--seed_everything=7", "--data.seed=42"}), "[data]\ncount = 4\nseed = 42\n"));

  // A file of a run has the seeds that were given, and another seed on top changes what follows it.
  auto const again = [&](std::vector<std::string> words, std::string const& more) {
    write(folder / "run.toml", shown(std::move(words)));
    std::vector<std::string> now{"--config", (folder / "run.toml").string()};
    if (!more.empty()) now.push_back(more);
    auto const all = "\n" + shown(std::move(now));
    auto const number = [&](std::string const& name) {
      auto const at = has(all, "\n" + name) ? all.find("\n" + name) : all.find("\n# " + name);
      auto const value = all.find(" = ", at) + 3;
      return all.substr(value, all.find('\n', value) - value);
    };
    return number("seed = ") + " of " + number("seed_everything = ");
  };
  CHECK(again({}, "") == "42 of 0");
  CHECK(again({"--seed_everything=7"}, "") == "7 of 7");
  CHECK(again({"--seed_everything=7"}, "--seed_everything=8") == "8 of 8");
  CHECK(again({}, "--seed_everything=8") == "8 of 8");
  CHECK(again({"--data.seed=5"}, "") == "5 of 0");
  CHECK(again({"--seed_everything=7", "--data.seed=5"}, "--seed_everything=8") == "5 of 8");
}

namespace {

struct Deep {
  DeepSettings hparams;
  toy::Tensor p = toy::Tensor::parameter(3.0);
  explicit Deep(DeepSettings const& settings) : hparams(settings) { last = settings; }
  toy::Tensor training_step(double, auto&) { return p * p; }
  void validation_step(double, auto&) {}
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}, hparams.lr}; }
  static inline DeepSettings last{};
};
/// One of several processes, of which this one is the second.
struct Second : toy::Several {
  using Backend = Host::Backend;
  int rank() const { return 1; }
};
/// As the library's modules, whose batch size can be set.
struct Sized {
  long size = 2;
  long batch_size() const { return size; }
  void set_batch_size(long to) { size = to; }
  auto train_dataloader() { return data::of_this_rank(toy::batches(4)); }
  auto val_dataloader() { return data::of_this_rank(toy::batches(1)); }
};
template <class Strategy = Host, class Data = Numbers>
Ran deep(std::vector<std::string> words, std::vector<char const*> environment = {}) {
  Deep::last = {};
  Stream out, err;
  auto const made = [](auto... parts) {
    return make_trainer<Deep>(std::move(parts)..., Strategy{}, NoProgressBar{}, NoModelSummary{});
  };
  cli::Program<Deep, Data, decltype(made)> program(made);
  environment.push_back(nullptr);
  int const status = program.run("deep", std::move(words), environment.data(), out.file, err.file);
  return {status, out.all(), err.all()};
}

}  // namespace

TEST_CASE("cli: lists and nested structs are settings, of a file, the environment and the command line") {
  Folder const folder;
  auto const config = folder / "a.toml";
  auto const page = deep({"--help"}).out;
  CHECK(has(page, "  --model.first.width N             units of a block, at least 1 [8]\n"));
  CHECK(has(page, "--model.first.rates X,X"));
  CHECK(has(page, "  --model.sizes N,N                 of the layers [64, 32]\n"));
  auto const shown = deep({"--print_config"});
  CHECK(shown.err == "");
  CHECK(has(shown.out, "\n[model]\nlr = 0.125\nsizes = [64, 32]\nnames = [\"a\", \"b,c\"]\nmost = inf\n"
                       "version = \"1.10\"\ndecay = \"none\"\nbias = true\nmode = \"max\"\n"
                       "\n[model.first]\nwidth = 8\nrates = [0.5, 0.25]\n"));
  write(config, shown.out);
  CHECK(deep({"--print_config", "--config", config.string()}).out == shown.out);

  auto const root = "--trainer.default_root_dir=" + folder.path.string();
  write(config, "[model]\nsizes = [1, 2, 3]\nnames = []\nfirst = { width = 3, rates = [1, 1e-3] }\n");
  CHECK(deep({"fit", root, "--trainer.fast_dev_run=1", "--config", config.string()}).err.find("cli.") ==
        std::string::npos);
  CHECK(Deep::last.sizes == std::vector<int>{1, 2, 3});
  CHECK(Deep::last.names.empty());
  CHECK(Deep::last.first.width == 3);
  CHECK(Deep::last.first.rates == std::vector<double>{1, 1e-3});
  deep({"fit", root, "--trainer.fast_dev_run=1", "--model.sizes", "5,6", "--model.names=x,y z",
        "--model.first.rates=[0.5]", "--model.first.width=2"},
       {"FULGURITE_MODEL_FIRST_WIDTH=9"});
  CHECK(Deep::last.sizes == std::vector<int>{5, 6});
  CHECK(Deep::last.names == std::vector<std::string>{"x", "y z"});
  CHECK(Deep::last.first.rates == std::vector<double>{0.5});
  CHECK(Deep::last.first.width == 2);
  deep({"fit", root, "--trainer.fast_dev_run=1"}, {"FULGURITE_MODEL_FIRST_WIDTH=9", "FULGURITE_MODEL_SIZES=7"});
  CHECK(Deep::last.first.width == 9);
  CHECK(Deep::last.sizes == std::vector<int>{7});
  deep({"fit", root, "--trainer.fast_dev_run=1", "--model.mode=min"});
  CHECK(Deep::last.mode == Mode::min);
  CHECK(has(deep({"fit", "--model.mode=low"}).err, "--model.mode = low: must be one of min, max"));
  CHECK(has(deep({"fit", "--model.first.width=0"}).err,
            "[fulgurite.options.field] --model.first.width = 0: it must be at least 1"));
  CHECK(has(deep({"fit", "--model.sizes=5,x"}).err, "--model.sizes = 5,x: must be a list in which each item is a whole "
                                                    "number"));
}

TEST_CASE("cli: a value of a file has the type of its option, or is refused") {
  Folder const folder;
  auto const config = folder / "a.toml";
  auto const said = [&](std::string const& line) {
    write(config, "[model]\n" + line + "\n");
    auto const ran = deep({"--print_config", "--config", config.string()});
    CHECK(ran.status == (ran.err.empty() ? 0 : 2));
    return ran.err.empty() ? ran.out : ran.err.substr(std::min(ran.err.size(), ran.err.find("line 2: ") + 8));
  };
  auto const text = std::string(": must be a text in quotes\n");
  CHECK(said("version = 1.10") == "model.version = 1.1" + text);
  CHECK(said("version = 1e3") == "model.version = 1000.0" + text);
  CHECK(said("version = 0x1F") == "model.version = 31" + text);
  CHECK(said("version = true") == "model.version = true" + text);
  CHECK(said("version = ['a', 'b']") == "model.version = [\"a\", \"b\"]: must be one value, not a list\n");
  CHECK(said("lr = [0.1]") == "model.lr = [0.1]: must be one value, not a list\n");
  CHECK(said("lr = '0.1'") == "model.lr = \"0.1\": must be a value without quotes\n");
  CHECK(said("bias = 'true'") == "model.bias = \"true\": must be a value without quotes\n");
  CHECK(said("decay = '0.1'") == "model.decay = \"0.1\": must be a value without quotes\n");
  CHECK(said("sizes = 5") == "model.sizes = 5: must be a list in brackets\n");
  CHECK(said("sizes = '5,6'") == "model.sizes = \"5,6\": must be a list in brackets\n");
  CHECK(said("sizes = [1, '2']") ==
        "model.sizes = [1, \"2\"]: must be a list in which each item is a value without quotes\n");
  CHECK(said("names = [1.10]") == "model.names = [1.1]: must be a list in which each item is a text in quotes\n");
  CHECK(has(said("version = '1.10'"), "version = \"1.10\"\n"));
  CHECK(has(said("version = '0x1F'"), "version = \"0x1F\"\n"));
  CHECK(has(said("lr = 1"), "lr = 1\n"));
  CHECK(has(said("decay = 'none'"), "decay = \"none\"\n"));
  CHECK(has(said("decay = 0.1"), "decay = 0.1\n"));
  CHECK(has(said("sizes = [0x10]"), "sizes = [16]\n"));
  // The command line and the environment have texts alone.
  CHECK(has(deep({"--print_config", "--model.version=1.10"}).out, "version = \"1.10\"\n"));
  CHECK(has(deep({"--print_config"}, {"FULGURITE_MODEL_VERSION=1e3"}).out, "version = \"1e3\"\n"));
  // Options of the trainer that may be a number or a text keep both.
  write(config, "[trainer]\nval_check_interval = '00:00:15:00'\nmax_steps = 'none'\nlimit_val_batches = 0.5\n"
                "silence = ['mine.rate', 'fulgurite.options.few_rows']\n");
  auto const trainer = deep({"--print_config", "--config", config.string()});
  CHECK(trainer.err == "");
  CHECK(has(trainer.out, "val_check_interval = \"00:00:15:00\"\n"));
  CHECK(has(trainer.out, "silence = [\"mine.rate\", \"fulgurite.options.few_rows\"]\n"));
}

TEST_CASE("cli: infinity is a number, a folder is no file, and one of several processes prints what was found") {
  Folder const folder;
  CHECK(has(deep({"--print_config", "--model.most=-inf"}).out, "most = -inf\n"));
  CHECK(has(deep({"--print_config", "--model.lr=1e999"}).err,
            "--model.lr = 1e999: must be a number, 0 or of a size from 4.94066e-324 to 1.79769e+308\n"));
  CHECK(deep({"--print_config", "--trainer.max_time=inf s"}).status == 2);
  CHECK(deep({"--print_config", "--trainer.limit_val_batches=inf"}).status == 2);
  CHECK(has(deep({"fit", "--config", folder.path.string()}).err,
            "[fulgurite.cli.config] the file of --config cannot be read: " + folder.path.string() + "\n"));
  write(folder / "empty.toml", "");
  CHECK(deep({"--print_config", "--config", (folder / "empty.toml").string()}).status == 0);
  CHECK(has(deep({"fit", "--trainer.max_epochs=1", "--ckpt_path", folder.path.string()}).err,
            "[fulgurite.cli.ckpt_path] --ckpt_path " + folder.path.string() + ": this is a folder"));

  std::vector<std::string> const tune{"tune", "--trainer.default_root_dir=" + folder.path.string(),
                                      "--trainer.max_epochs=50", "--tune.min_lr=1e-4"};
  CHECK(has(deep(tune).out, "\n[model]\nlr = "));
  auto const second = deep<Second, Sized>(tune);
  CHECK(second.status == 0);
  CHECK(second.out == "");
  CHECK(!has(second.err, "suggested"));
  auto sizes = tune;
  sizes.emplace_back("--tune.batch_size=true");
  CHECK(deep<Second, Sized>(sizes).err ==
        "[fulgurite.cli.tune] --tune.batch_size = true: each of several processes would find another size: tune with a "
        "strategy of one process, then train with what it found\n");
}

TEST_CASE("cli: a variable of the environment that is no option is named, with the one that may be meant") {
  auto const warned = [](char const* variable) {
    auto const ran = deep({"--print_config"}, {variable});
    CHECK(ran.status == 0);
    return ran.err;
  };
  std::string const warning =
      "warning: [fulgurite.cli.variable] no option of this program has the name of this variable: ";
  CHECK(warned("FULGURITE_SEED_EVERYTHNG=3") ==
        warning + "FULGURITE_SEED_EVERYTHNG; did you mean FULGURITE_SEED_EVERYTHING?\n");
  CHECK(has(warned("FULGURITE_TRAINR_MAX_EPOCHS=3"), "did you mean FULGURITE_TRAINER_MAX_EPOCHS?"));
  CHECK(warned("FULGURITE_WHOLLY_UNLIKE=3") == warning + "FULGURITE_WHOLLY_UNLIKE\n");
  for (char const* own : {"FULGURITE_STARTED_BY=3", "FULGURITE_DATA=data/digits", "FULGURITE_PYTHON=python3"})
    CHECK(warned(own) == "");  // which the library, its examples and its tests read
  CHECK(deep({"--print_config", "--trainer.silence=fulgurite.cli.variable"}, {"FULGURITE_WHOLLY_UNLIKE=3"}).err == "");
  CHECK(warned("FULGURITESQUE=3") == "");
}

TEST_CASE("cli: names that a command line or a file could not say are refused, others are quoted") {
  int value = 1;
  cli::Table table;
  for (char const* name : {"model.a b", "model.a/b", "", "a..b", ".a", "-a", "a=b"})
    CHECK(toy::refusal([&] { table.add(name, value); }) == "fulgurite.cli.name");
  cli::Table alike;
  alike.add("model.a_b", value);
  alike.add("model.a.b", value);
  CHECK(toy::refusal([&] { cli::take_environment(alike, nullptr); }) == "fulgurite.cli.name");
  table.add("model.gr\u00f6\u00dfe", value);
  auto const file = cli::to_toml(table);
  CHECK(file == "\n[model]\n\"gr\u00f6\u00dfe\" = 1\n");
  CHECK(cli::read_toml(file, "f").at(0).name == "model.gr\u00f6\u00dfe");
  CHECK(toy::refusal([] { cli::read_toml("a = [[1, 2], [3]]\n", "f"); }) == "fulgurite.cli.config");
  CHECK(toy::refusal([] { cli::read_toml("a = [1, [3]]\n", "f"); }) == "fulgurite.cli.config");
}

TEST_CASE("cli: help has each option with its value, in 80 columns, and each option of the trainer has a meaning") {
  auto const page = ran({"--help"});
  CHECK(page.status == 0);
  CHECK(has(page.out, "Usage: line VERB [OPTIONS]\n"));
  CHECK(has(page.out, "  --model.lr X                      learning rate [0.125]\n"
                      "  --model.hidden N                  units of the hidden layer, from 1 to 64 [4]\n"
                      "  --model.name TEXT                 [line]\n"));
  CHECK(has(page.out, "  --data.count N                    [4]\n"));
  CHECK(has(page.out, "  --trainer.precision NAME          32-true, bf16-mixed [32-true]\n"));
  for (std::size_t begin = 0; begin < page.out.size();) {
    auto const end = page.out.find('\n', begin);
    CHECK(end - begin <= 80);
    begin = end + 1;
  }
  CHECK(ran({}).status == 2);
  TrainerOptions options;
  cli::Table table;
  cli::add_trainer_options(table, options);
  auto const narrow = cli::help_page("line", {{"fit", "trains, and validates on the way"}}, table, 40);
  CHECK(has(narrow, "  --trainer.max_epochs N\n      passes over the training data; -1:\n      no limit"));
  CHECK(cli::help_page("line", {}, table, 200) == cli::help_page("line", {}, table));
  CHECK(table.entries().size() == 26);  // all but the clock
  for (auto const& entry : table.entries()) CHECK(!entry.about.empty());
  auto device = cli::from_text<"device">("auto", [](std::string const&) { return Float32{}; }, "cpu, cuda or auto");
  device.add_to(table);
  CHECK(table.find("trainer.device")->about == "cpu, cuda or auto");
}

TEST_CASE("cli: limits of the program's own end a fit, and a device that is none is said before data are read") {
  Folder const folder;
  auto const device = [](std::string const& name) {
    if (name == "gpu") throw Error("fulgurite.strategy.device", "no device is called that");
    Absent absent;
    absent.there = name == "cpu";
    return absent;
  };
  auto const on = [&](std::string const& name) {
    seen = {};
    Stream out, err;
    auto const made = [&](auto const& options, auto const& optimization, auto const& strategy, auto config) {
      auto own = options;
      own.max_epochs = 1;
      return make_trainer<Line>(own, optimization, strategy, std::move(config), NoProgressBar{}, NoModelSummary{});
    };
    auto const choice = cli::from_text<"device">("cpu", device);
    cli::Program<Line, Numbers, decltype(made), std::remove_const_t<decltype(choice)>> program(made, choice);
    std::vector<std::string> words{"fit", "--trainer.device=" + name,
                                   "--trainer.default_root_dir=" + folder.path.string()};
    int const status = program.run("line", std::move(words), nullptr, out.file, err.file);
    return std::tuple(status, seen.data, err.all());
  };
  CHECK(on("cpu") == std::tuple(0, 1, std::string()));
  CHECK(on("gpu") == std::tuple(2, 0,
                                std::string("[fulgurite.cli.value] --trainer.device = gpu: no device is called "
                                            "that\n")));
  CHECK(on("cuda") == std::tuple(1, 0, std::string("[fulgurite.strategy.cuda_absent] no such device\n")));
}

TEST_CASE("cli: an exception that is not ours is told without its backtrace, and the run has failed") {
  Folder const folder;
  seen = {};
  Stream out, err;
  auto const fails = [](auto... parts) {
    throw std::runtime_error("Invalid learning rate: -1\nException raised from Adam at adam.h:58\nframe #0: 0x9d");
    return make(std::move(parts)...);
  };
  cli::Program<Line, Numbers, decltype(fails)> program(fails);
  CHECK(program.run("line", {"fit", "--trainer.max_epochs=1"}, nullptr, out.file, err.file) == 1);
  CHECK(err.all() == "Invalid learning rate: -1\n");
}

TEST_CASE("cli: values are read back as they are written, and what is none is refused") {
  auto const back = []<class T>(T value, std::string_view text) {
    CHECK(cli::Value<T>::text(value) == text);
    T again{value};
    cli::Value<T>::read(text, again);
    CHECK(cli::Value<T>::text(again) == text);
  };
  back(Limit{}, "1.0");
  back(Limit{Batches{10}}, "10");
  back(Limit{Fraction{1e-5}}, "1e-05");
  back(ValidationInterval{Fraction{0.25}}, "0.25");
  back(ValidationInterval{"00:00:15:00"}, "00:00:15:00");
  back(TimeSpan{"01:00:00:01"}, "01:00:00:01");
  back(TimeSpan{Seconds{1.5}}, "1.5 s");
  back(TimeSpan{std::nullopt}, "none");
  back(Clip{ClipNorm{0.5}}, "norm 0.5");
  back(Clip{}, "none");
  back(NonFinite::skip, "skip");
  back(Silence{"mine.rate", "fulgurite.options.few_rows"}, "[\"mine.rate\", \"fulgurite.options.few_rows\"]");
  back(0.1F, "0.100000001");
  back(std::filesystem::path("a b"), "a b");
  auto const refused = []<class T>(T value, std::string_view text) {
    try {
      cli::Value<T>::read(text, value);
    } catch (cli::Expected const& expected) { return expected.what; }
    return std::string();
  };
  CHECK(refused(0, "1.5") == "a whole number");
  CHECK(refused(std::int8_t{}, "300") == "a whole number from -128 to 127");
  for (char const* text : {"1e-46", "-1e-46", "1e39"})
    CHECK(refused(1.0F, text) == "a number, 0 or of a size from 1.4013e-45 to 3.40282e+38");
  CHECK(refused(1.0F, "1e-45") + refused(1.0F, "0") == "");
  CHECK(refused(Clip{}, "0.5") != "");
  CHECK(refused(NonFinite::stop, "go") == "one of stop, skip, ignore");
  CHECK(refused(Silence{}, "fulgurite.no.such") != "");
  CHECK(refused(false, "yes") == "true or false");
  CHECK(cli::distance("kitten", "sitting") == 3);
  CHECK(cli::distance("ab", "ba") == 1);
  CHECK(cli::nearest("max_epoch", {"trainer.max_steps", "trainer.max_epochs"}) == "trainer.max_epochs");
  CHECK(cli::nearest("zzz", {"trainer.max_steps"}) == "");
}
