// Kinds of training on LibTorch that are stopped and gone on with, each with the bits of the unbroken run: files that
// are written inside accumulation windows and by ModelCheckpoint, SWA stopped inside its pass for batch norms, several
// loaders, truncated back-propagation, two optimizers by hand, a loader of torch::data, epochs that max_steps
// cuts short.
#include "resumed.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

using namespace fulgurite;
using namespace resumed;
namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;
using From = std::optional<CkptPath>;

namespace {

auto const inputs = torch::linspace(-2, 2, 33 * 6).reshape({33, 6}).sin();
auto const targets = torch::arange(33) % 3;
/// 7 batches an epoch, so that the last window of three has one.
auto shuffled(std::uint64_t seed = 3) {
  return data::TensorLoader{inputs, targets, {.batch_size = 5, .shuffle = true, .seed = seed}};
}
auto few() { return data::TensorLoader{inputs.slice(0, 0, 10), targets.slice(0, 0, 10), {.batch_size = 5}}; }
auto const eager = [] { return SingleDevice{cpu}; };
auto const captured = [] { return Captured{SingleDevice{cpu}}; };

/// What a training_step of the pass for batch norms, which is without gradients, does on the way.
std::function<void()> in_pass = nullptr;

struct Net : nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  nn::Linear in = register_module("in", nn::Linear(6, 8));
  nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(8));
  nn::Dropout drop = register_module("drop", nn::Dropout(0.3));
  nn::Linear out = register_module("out", nn::Linear(8, 3));

  Tensor forward(Tensor const& x) { return out->forward(drop->forward(torch::relu(norm->forward(in->forward(x))))); }
  Tensor loss_of(auto const& batch) { return F::cross_entropy(forward(batch.data), batch.target); }
  Tensor training_step(auto const& batch, auto& ctx) {
    auto value = loss_of(batch);
    ctx.log(loss, value);
    return value;
  }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(val_loss, loss_of(batch)); }
  auto configure_optimizers() {
    return scheduled(optim::AdamW(*this, {.lr = 0.02}), schedule::Cosine{.total = 12}, {.interval = Interval::step});
  }
};

TrainerOptions options(ValidationInterval each = {}) {
  return {.max_epochs = 2, .val_check_interval = each, .log_every_n_steps = 1};
}

/// A folder that is there while this lives.
struct Scratch {
  fs::path path;
  explicit Scratch(std::string const& name) : path(of_this_process(name)) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  Scratch(Scratch const&) = delete;
  ~Scratch() { fs::remove_all(path); }
};

}  // namespace

// ---- inside a window ------------------------------------------------------------------------------------------------

namespace {

/// trainer.save_checkpoint in on_train_batch_end, where a window is open or was closed, or in on_validation_end: in the
/// middle of what a fit does. From the first a fit goes on after the hook, from the second it validates again.
Wrong saved_in_hooks(std::string const& in, ValidationInterval validation, auto strategy) {
  Scratch const folder("hooks");
  std::function<void(fs::path const&)> save;
  std::vector<fs::path> files;
  auto const one = [&](Watches const& watches, From const& from) {
    return run<Net>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<Net>(options(validation), strategy(), Float32{}, Automatic{.accumulate_grad_batches = 3},
                                   EMAWeightAveraging(), watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          save = [&](fs::path const& to) { trainer.save_checkpoint(to); };
          auto loader = shuffled();
          auto few_batches = few();
          trainer.fit(net, loader, few_batches, file);
        });
  };
  auto const whole = one(Watches{.at_once =
                                     [&](std::string const& hook, bool) {
                                       if (hook != in) return std::string();
                                       save(files.emplace_back(folder.path / std::to_string(files.size())));
                                       return std::string("file");
                                     }},
                         std::nullopt);
  int wrong = 0;
  std::size_t after = 0;
  for (auto const& file : files) {
    while (whole.rows[after++] != "file") {}
    auto at = after;
    auto const is = [&](char const* what) { return whole.rows[at].starts_with(what); };
    if (in == "validation_end")
      while (!is("validation_start")) --at;
    auto const now = one(Watches{}, CkptPath{file});
    wrong += !same_end(now, whole, rest_after(whole.rows, at));
  }
  return {wrong, static_cast<int>(files.size())};
}

}  // namespace

TEST_CASE("resume: a file that a hook writes at once, inside an accumulation window, leads to the same bits") {
  CHECK(saved_in_hooks("train_batch_end", {}, eager) == Wrong(0, 14));
  CHECK(saved_in_hooks("train_batch_end", {}, captured) == Wrong(0, 14));
  CHECK(saved_in_hooks("validation_end", 2, eager) == Wrong(0, 6));  // after 2, 4 and 6 batches
  CHECK(saved_in_hooks("validation_end", 2, captured) == Wrong(0, 6));
}

namespace {

/// A ModelCheckpoint's own files, one for each step.
Wrong saved_by_callback(auto strategy, bool in_background) {
  Scratch const folder("steps");
  auto const files_in = folder.path / "files", kept = folder.path / "kept";
  auto const one = [&](Watches const& watches, From const& from) {
    return run<Net>(
        watches, from,
        [&](Watches const& watching) {
          auto asked = options(2);
          asked.save_in_background = in_background;
          return make_trainer<Net>(asked, strategy(), Float32{}, Automatic{.accumulate_grad_batches = 3},
                                   ModelCheckpoint{{.dirpath = files_in,
                                                    .filename = "{step}",
                                                    .save_top_k = -1,
                                                    .every_n_train_steps = 1,
                                                    .save_on_train_epoch_end = false}},
                                   watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          auto loader = shuffled();
          auto few_batches = few();
          trainer.fit(net, loader, few_batches, file);
        });
  };
  // What is planned for the step is known here; in the background the file itself may come later.
  long steps = 0;
  auto const whole = one(Watches{.at_once =
                                     [&](std::string const& hook, bool accumulating) {
                                       if (hook != "train_batch_end" || accumulating) return std::string();
                                       return "file " + std::to_string(++steps);
                                     }},
                         std::nullopt);
  fs::rename(files_in, kept);
  int wrong = 0, files = 0;
  for (long step = 1; step <= steps; ++step) {
    auto const name = "step=" + std::to_string(step) + ".safetensors";
    if (!fs::exists(kept / name)) continue;
    ++files;
    fs::remove_all(files_in);  // as the folder was when the run was stopped
    fs::create_directories(files_in);
    for (long before = 1; before <= step; ++before) {
      auto const each = "step=" + std::to_string(before) + ".safetensors";
      fs::copy_file(kept / each, files_in / each);
    }
    auto const noted = std::find(whole.rows.begin(), whole.rows.end(), "file " + std::to_string(step));
    auto at = static_cast<std::size_t>(noted - whole.rows.begin()) + 1;
    while (whole.rows[at].starts_with(std::to_string(step - 1) + " loss_step"))
      ++at;  // the row of the step is before its file
    auto const now = one(Watches{}, CkptPath{files_in / name});
    wrong += !same_end(now, whole, rest_after(whole.rows, at));
    for (long later = step + 1; later <= steps; ++later)
      wrong += !fs::exists(files_in / ("step=" + std::to_string(later) + ".safetensors"));
  }
  return {wrong, files};
}

}  // namespace

TEST_CASE("resume: each file of a ModelCheckpoint every step of three batches leads to the same bits and files") {
  CHECK(saved_by_callback(eager, false) == Wrong(0, 6));
  CHECK(saved_by_callback(eager, true) == Wrong(0, 6));
  CHECK(saved_by_callback(captured, true) == Wrong(0, 6));
}

// ---- SWA
// --------------------------------------------------------------------------------------------------------------

namespace {

struct InPass : Net {
  Tensor training_step(auto const& batch, auto& ctx) {
    if (in_pass && !torch::GradMode::is_enabled()) in_pass();
    return Net::training_step(batch, ctx);
  }
};

/// Stopped in each batch of the pass, by an exception or a signal; the run that goes on makes the pass as a whole.
Wrong stopped_in_pass(auto strategy, std::function<void()> const& stop) {
  Scratch const folder("pass");
  auto const one = [&](Watches const& watches, From const& from) {
    return run<InPass>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<InPass>(options(), strategy(), Float32{}, Automatic{},
                                      StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}},
                                      OnExceptionCheckpoint{{.dirpath = folder.path}},
                                      Signals{{.dirpath = folder.path}}, watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          auto loader = shuffled();
          trainer.fit(net, loader, NoValidation{}, file);
        });
  };
  in_pass = nullptr;
  auto const whole = one(Watches{}, std::nullopt);
  auto const last = std::find_if(whole.rows.rbegin(), whole.rows.rend(),
                                 [](auto const& row) { return row.starts_with("train_epoch_end"); });
  int wrong = 0, stops = 0;
  for (int batch = 0; batch != 7; ++batch) {
    int left = batch;
    in_pass = [&] {
      if (left-- == 0) stop();
    };
    for (auto const& old : fs::directory_iterator(folder.path)) fs::remove(old);
    bool stopped = false;
    try {
      one(Watches{}, std::nullopt);
    } catch (std::exception const&) { stopped = true; }
    in_pass = nullptr;
    stops += stopped;
    fs::path file;
    for (auto const& left_there : fs::directory_iterator(folder.path)) file = left_there.path();
    if (file.empty()) continue;
    auto const now = one(Watches{}, CkptPath{file});
    // The row of the epoch comes after its end hooks, and was there before the pass.
    auto rest = rest_after(whole.rows, static_cast<std::size_t>(whole.rows.rend() - last));
    while (!rest.empty() && !rest.front().starts_with("train_end")) rest.erase(rest.begin());
    wrong += !same_end(now, whole, rest);
  }
  return {wrong, stops};
}

}  // namespace

TEST_CASE("resume: SWA stopped inside its pass for batch norms makes the pass again, and ends with the same bits") {
  auto const fails = [] { throw std::runtime_error("the disk of the data is away"); };
  auto const signalled = [] { std::raise(SIGTERM); };
  CHECK(stopped_in_pass(eager, fails) == Wrong(0, 7));
  CHECK(stopped_in_pass(captured, fails) == Wrong(0, 7));
  CHECK(stopped_in_pass(eager, signalled) == Wrong(0, 7));
  CHECK(stopped_in_pass(captured, signalled) == Wrong(0, 7));
}

TEST_CASE(
    "resume: a run that an average has ended goes on, where it is raised, with the statistics of batch norms that "
    "it would have had") {
  Scratch const folder("raised");
  auto const ended = folder.path / "ended.safetensors";
  auto const fit = [&](auto const& average, int epochs, From const& from) {
    return run<Net>(
        Watches{}, from,
        [&](Watches const& watching) {
          auto limits = options();
          limits.max_epochs = epochs;
          return make_trainer<Net>(limits, SingleDevice{cpu}, Float32{}, Automatic{}, average, watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          auto loader = shuffled();
          auto few_batches = few();
          trainer.fit(net, loader, few_batches, file);
          if (epochs == 2) trainer.save_checkpoint(ended);
        });
  };
  auto const check = [&](auto const& average) {
    auto const whole = fit(average, 4, std::nullopt);
    auto const half = fit(average, 2, std::nullopt);
    CHECK(half.hash != whole.hash);
    CHECK(fit(average, 4, CkptPath{ended}).hash == whole.hash);
  };
  check(StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}});
  check(EMAWeightAveraging{{.decay = 0.9}});  // of the statistics, too
  check(EMAWeightAveraging{{.decay = 0.9, .use_buffers = false}});
  check(WeightAveraging{RunningMean{}, EachEpoch{}});
}

// ---- several loaders
// --------------------------------------------------------------------------------------------------

namespace {

/// Of two loaders, the shorter of which begins again within an epoch.
struct OfBoth : Net {
  Tensor training_step(auto const& both, auto& ctx) {
    auto const& [a, b] = both;
    auto value = loss_of(a) + 0.5 * loss_of(b);
    ctx.log(loss, value);
    return value;
  }
};

Wrong of_several(auto strategy) {
  return wrong_files([&](Watches const& watches, From const& from) {
    return run<OfBoth>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<OfBoth>(options(4), strategy(), Float32{}, Automatic{.accumulate_grad_batches = 2},
                                      watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          data::TensorLoader short_one{
              inputs.slice(0, 0, 12), targets.slice(0, 0, 12), {.batch_size = 4, .shuffle = true, .seed = 8}};
          auto loader = data::combined<data::CombineMode::max_size_cycle>(shuffled(), std::move(short_one));
          std::tuple validations(few(), shuffled(1));  // one after the other, of two sizes
          trainer.fit(net, loader, validations, file);
        });
  });
}

}  // namespace

TEST_CASE("resume: two training loaders of two sizes and two validation loaders lead to the same bits") {
  // Of each epoch: 7 batches of which those inside windows wait, one validation, the end.
  CHECK(of_several(eager) == Wrong(0, 18));
  CHECK(of_several(captured) == Wrong(0, 18));
}

// ---- truncated back-propagation
// ---------------------------------------------------------------------------------------

namespace {

struct Series {
  Tensor data, target;
};
struct Recurrence : nn::Module {
  using Hidden = std::tuple<Tensor, Tensor>;
  struct Output {
    Tensor loss;
    Hidden hidden;
  };
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(2, 4).batch_first(true)));
  nn::Dropout drop = register_module("drop", nn::Dropout(0.2));
  nn::Linear head = register_module("head", nn::Linear(4, 1));

  Output training_step(Series const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    auto [out, next] = lstm->forward(slice.data, hidden);
    auto value = torch::mse_loss(head->forward(drop->forward(out)), slice.target);
    ctx.log(loss, value);
    return {value, next};
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
};

Wrong recurrent(auto strategy) {
  return wrong_files([&](Watches const& watches, From const& from) {
    return run<Recurrence>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<Recurrence>(options(), strategy(), Float32{}, Automatic{.tbptt = 2}, watching,
                                          NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          std::vector<Series> batches;
          for (int i = 0; i != 3; ++i)
            batches.push_back({torch::linspace(i, i + 1, 4 * 7 * 2).reshape({4, 7, 2}).sin(),
                               torch::linspace(i, i + 1, 4 * 7).reshape({4, 7, 1}).cos()});
          trainer.fit(net, batches, file);
        });
  });
}

}  // namespace

TEST_CASE("resume: truncated back-propagation goes on between batches with the same bits") {
  CHECK(recurrent(eager) == Wrong(0, 8));
}

namespace {
/// Fails before a slice of all that there are.
struct FailsBetween : Recurrence {
  long left = -1;
  Output training_step(Series const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    if (left-- == 0) throw std::runtime_error("the power was away");
    return Recurrence::training_step(slice, hidden, ctx);
  }
};
}  // namespace

TEST_CASE(
    "resume: truncated back-propagation that fails between two slices goes on with the next, with the same bits") {
  Scratch const folder("slices");
  std::vector<Series> batches;
  for (int i = 0; i != 3; ++i)
    batches.push_back({torch::linspace(i, i + 1, 4 * 7 * 2).reshape({4, 7, 2}).sin(),
                       torch::linspace(i, i + 1, 4 * 7).reshape({4, 7, 1}).cos()});
  auto const fit = [&](long fails_before) {
    return run<FailsBetween>(
        Watches{}, std::nullopt,
        [&](Watches const& watching) {
          return make_trainer<FailsBetween>(options(), SingleDevice{cpu}, Float32{}, Automatic{.tbptt = 2},
                                            OnExceptionCheckpoint{{.dirpath = folder.path}}, watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          net.left = fails_before;
          trainer.fit(net, batches, file);
        });
  };
  auto const whole = fit(-1);
  int wrong = 0, failed = 0;
  for (long at = 0; at != 2 * 3 * 4; ++at) {
    try {
      fit(at);
    } catch (std::runtime_error const&) { ++failed; }
    wrong += fit(-1).hash != whole.hash;  // it goes on from that file by itself
  }
  CHECK(std::pair(wrong, failed) == std::pair(0, 24));
}

// ---- weights of Python's files
// ----------------------------------------------------------------------------------------

namespace {
struct Evaluated : Net {
  void test_step(auto const& batch, auto& ctx) { ctx.log(val_loss, loss_of(batch)); }
  Tensor predict_step(auto const& batch) { return forward(batch.data); }
};
}  // namespace

TEST_CASE("validate, test and predict take the weights of files of torch.save; no fit goes on from them") {
  Scratch const folder("python");
  torch::manual_seed(3);
  Evaluated saved;
  saved.norm->running_mean.fill_(0.25);
  auto const trainer_for = [] {
    return make_trainer<Evaluated>(options(), eager(), Float32{}, Automatic{}, NoDefaults{});
  };
  auto trainer = trainer_for();
  auto loader = few();
  auto const right = trainer.validate(saved, loader);
  auto const answers = trainer.predict(saved, loader);
  for (auto const* name : {"w.pt", "w.pth", "w.ckpt", "w.bin"}) {
    CAPTURE(name);
    auto const from = folder.path / name;
    save_pt(saved, from);
    Evaluated one, two, three, none;
    auto const value = [](auto const& values) { return values.at(0).at(0).value; };
    CHECK(value(trainer.validate(one, loader, CkptPath{from})) == value(right));
    CHECK(value(trainer.test(two, loader, CkptPath{from})) == value(right));
    CHECK(torch::equal(trainer.predict(three, loader, CkptPath{from}).at(0).at(0), answers.at(0).at(0)));
    std::string error;
    try {
      trainer_for().fit(none, loader, loader, From(from));
    } catch (Error const& told) { error = told.what(); }
    CHECK(
        error.starts_with("[fulgurite.resume.weights_only] " + from.string() + " holds weights and nothing of a run"));
    CHECK(error.find("load_weights(model, file)") != error.npos);
  }
  // A checkpoint of our own keeps its kind under such a name.
  Evaluated net, again;
  auto ours = trainer_for();
  ours.fit(net, loader, loader, From());
  ours.save_checkpoint(folder.path / "own.ckpt");
  ours.validate(again, loader, CkptPath{folder.path / "own.ckpt"});
  CHECK(torch::equal(again.out->weight, net.out->weight));
}

// ---- two optimizers by hand
// -------------------------------------------------------------------------------------------

namespace {

/// A GAN of two small nets. The generator's optimizer is LibTorch's, the other one's an arena.
struct Gan : nn::Module {
  static constexpr Metric<"g"> g_loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"d"> d_loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<g_loss, d_loss>;
  nn::Sequential g =
      register_module("g", nn::Sequential(nn::Linear(2, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Linear(8, 6)));
  nn::Sequential d =
      register_module("d", nn::Sequential(nn::Linear(6, 8), nn::LeakyReLU(), nn::Dropout(0.3), nn::Linear(8, 1)));

  void training_step(auto const& batch, auto& ctx) {
    auto& [opt_g, opt_d] = ctx.optimizers();
    auto& [of_g, of_d] = ctx.lr_schedulers();
    auto const judged = [&](Tensor const& x, double truth) {
      auto const verdict = d->forward(x);
      return F::binary_cross_entropy_with_logits(verdict, torch::full_like(verdict, truth));
    };
    auto const fake = g->forward(torch::randn({batch.data.size(0), 2}));
    auto const dl = judged(batch.data, 0.9) + judged(fake.detach(), 0.0);
    ctx.minimize(opt_d, dl);
    ctx.log(d_loss, dl);
    auto const gl = judged(fake, 1.0);
    ctx.minimize(opt_g, gl);
    ctx.log(g_loss, gl);
    of_g.step();
    of_d.step();
  }
  auto configure_optimizers() {
    return optimizers(
        scheduled(torch::optim::Adam(g->parameters(), torch::optim::AdamOptions(0.01)), schedule::Cosine{.total = 12}),
        scheduled(optim::AdamW(d->parameters(), {.lr = 0.02}), schedule::Step{4, 0.5}));
  }
};

}  // namespace

TEST_CASE("resume: two nets against each other, with an optimizer each, lead to the same bits") {
  auto const wrong = wrong_files([](Watches const& watches, From const& from) {
    return run<Gan>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<Gan>(options(), eager(), Float32{}, Manual{}, EMAWeightAveraging(), watching,
                                   NoDefaults{});
        },
        [](auto& trainer, auto& net, From const& file) {
          auto loader = shuffled();
          trainer.fit(net, loader, file);
        });
  });
  CHECK(wrong == Wrong(0, 16));
}

// ---- a loader of torch::data
// ------------------------------------------------------------------------------------------

namespace {

struct Samples : torch::data::Dataset<Samples> {
  torch::data::Example<> get(std::size_t i) override {
    auto const at = static_cast<std::int64_t>(i);
    return {inputs[at], targets[at]};
  }
  torch::optional<std::size_t> size() const override { return 33; }
};

/// Its order is drawn from LibTorch's generator, from which the net draws, too.
Wrong of_torch_data(auto strategy, auto make_loader) {
  return wrong_files([&](Watches const& watches, From const& from) {
    return run<Net>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<Net>(options(4), strategy(), Float32{}, Automatic{.accumulate_grad_batches = 3}, watching,
                                   NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          auto loader = make_loader();
          auto few_batches = few();
          trainer.fit(net, loader, few_batches, file);
        });
  });
}

}  // namespace

TEST_CASE("resume: a shuffled loader of torch::data goes on inside its epoch with the same batches and bits") {
  auto const made = [] {
    return torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
        Samples().map(torch::data::transforms::Stack<>()), 5);
  };
  auto const of_unknown_size = [&] { return data::TorchLoader{made()}; };
  auto const of_seven = [&] { return data::TorchLoader{made(), 7}; };
  auto const ahead = [&] { return data::TorchLoader{made(), data::ReadAhead{}}; };
  CHECK(of_torch_data(eager, of_unknown_size) == Wrong(0, 18));
  CHECK(of_torch_data(eager, of_seven) == Wrong(0, 18));
  CHECK(of_torch_data(eager, ahead) == Wrong(0, 18));
  CHECK(of_torch_data(captured, of_seven) == Wrong(0, 18));
}

// ---- an epoch that max_steps cuts short
// -------------------------------------------------------------------------------

namespace {

/// A fit that max_steps cuts short inside an epoch is gone on with, when that is raised, from the file of the epoch's
/// end and from that of the end: how many of the ends differ from the unbroken fit's, of how many. Epochs have three
/// steps.
Wrong cut_short(auto strategy, auto const& make_callback) {
  Scratch const folder("cut");
  auto const at_epoch = folder.path / "epoch.safetensors", at_end = folder.path / "end.safetensors";
  auto const one = [&](std::optional<long> most, Watches const& watches, From const& from) {
    return run<Net>(
        watches, from,
        [&](Watches const& watching) {
          auto limits = options(2);
          limits.max_epochs = 3;
          limits.max_steps = most;
          return make_trainer<Net>(limits, strategy(), Float32{}, Automatic{.accumulate_grad_batches = 3},
                                   make_callback(), watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, From const& file) {
          auto loader = shuffled();
          auto few_batches = few();
          trainer.fit(net, loader, few_batches, file);
          if (most) trainer.save_checkpoint(at_end);
        });
  };
  auto const whole = one({}, Watches{}, {});
  Watches const leaves{.leave = [&](CheckpointFiles& to) {
    to.write(at_epoch);
    return std::string("file");
  }};
  int wrong = 0, ends = 0;
  for (long const most : {1, 2, 4, 5, 8}) {
    auto const cut = one(most, leaves, {});
    wrong += cut.hash == whole.hash;
    for (auto const& file : {at_epoch, at_end}) {
      auto const now = one({}, Watches{}, CkptPath{file});
      Rows const rest(whole.rows.end() - static_cast<std::ptrdiff_t>(std::min(now.rows.size(), whole.rows.size())),
                      whole.rows.end());
      wrong += now.rows.size() < 3 || !same_end(now, whole, rest, true);
      ++ends;
    }
  }
  return {wrong, ends};
}

}  // namespace

TEST_CASE("resume: where max_steps has cut an epoch short, an average by epochs and pruning end with the same bits") {
  auto const average = [] {
    return EMAWeightAveraging{{.decay = 0.5, .update_every_n_steps = 0, .update_starting_at_epoch = 0}};
  };
  auto const pruning = [] { return ModelPruning{{.amount = 0.25, .parameter_names = {"weight"}}}; };
  auto const lottery = [] {
    return ModelPruning{{.amount = 0.25, .parameter_names = {"weight"}, .use_lottery_ticket_hypothesis = true}};
  };
  CHECK(cut_short(eager, average) == Wrong(0, 10));
  CHECK(cut_short(captured, average) == Wrong(0, 10));
  CHECK(cut_short(eager, pruning) == Wrong(0, 10));
  CHECK(cut_short(captured, pruning) == Wrong(0, 10));
  CHECK(cut_short(eager, lottery) == Wrong(0, 10));
}

TEST_CASE("resume: where max_steps has cut an epoch short, a stochastic average ends with the same bits") {
  auto const average = [] { return StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}}; };
  CHECK(cut_short(eager, average) == Wrong(0, 10));
  CHECK(cut_short(captured, average) == Wrong(0, 10));
}
