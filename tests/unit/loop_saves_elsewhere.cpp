// Files and snapshots that are made between the usual places: in a hook, after a fit, beside a signal, after an
// evaluation of another model.

#include <csignal>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/logger/csv_logger.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

TrainerOptions below(std::filesystem::path const& folder, int epochs = 3) {
  auto options = quick(epochs);
  options.default_root_dir = folder;
  return options;
}
/// A row a batch, beside those of metrics.
struct Posts {
  using Stateless = ByChoice;
  void on_train_batch_start(auto& ctx) {
    Scalar const row[] = {{"posted", static_cast<double>(ctx.batch_idx())}};
    ctx.log_scalars(row);
  }
};
struct InHook {
  using Stateless = ByChoice;
  std::function<void(int)> then = nullptr;
  int batches = 0;
  void on_train_batch_end(auto&) {
    if (then) then(batches++);
  }
};
struct AtFitEnd {
  using Stateless = ByChoice;
  std::filesystem::path file = {};
  long stops_at = 0;
  void on_train_batch_end(auto& ctx) const {
    if (ctx.global_step() == stops_at) ctx.request_stop();
  }
  void on_fit_end(auto& ctx) const {
    if (!file.empty()) ctx.request_checkpoint(file.string());
  }
};
struct SignalAndBadFile {
  using Stateless = ByChoice;
  void on_train_batch_end(auto& ctx) {
    if (ctx.global_step() != 2) return;
    ::raise(SIGINT);
    ctx.request_checkpoint("/proc/nowhere/x.safetensors");
  }
};
/// A loader that saves its place.
struct Keeps {
  struct Iterator {
    Keeps* loader;
    long i;
    double operator*() const { return static_cast<double>(loader->drawn); }
    Iterator& operator++() {
      ++loader->drawn;
      ++i;
      return *this;
    }
    bool operator!=(long n) const { return i != n; }
  };
  long drawn = 0;
  Iterator begin() { return {this, 0}; }
  long end() const { return 4; }
  std::size_t size() const { return 4; }
  void state(auto& archive) { archive("drawn", drawn); }
};
/// It knows its files only by what it is told to search.
struct BySearch {
  long learned = 0;
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const&) const { return {}; }
};
static_assert(judge::LeavesFiles<BySearch>);

/// Rows of a run of four epochs that is stopped after three; in the first, a file that cannot be written is asked for.
struct Told {
  long batches, lines;
  bool operator==(Told const&) const = default;
};
Told in_two_parts(bool fails) {
  Folder const folder;
  auto const trainer = [&](int epochs) {
    return make_trainer<Scripted>(below(folder.path, epochs), SavingDevice{}, Float32{},
                                  Automatic{.accumulate_grad_batches = 3}, InHook{}, Posts{}, CSVLogger{},
                                  ModelCheckpoint{{.save_top_k = -1}});
  };
  Scripted model, again;
  auto first = trainer(3), second = trainer(4);
  first.template callback<InHook>().then = [&](int batch) {
    if (fails && batch == 2) CHECK_THROWS_AS(first.save_checkpoint("/proc/nowhere/x.safetensors"), Error);
  };
  first.fit(model, toy::batches(6), toy::batches(1));
  second.fit(again, toy::batches(6), toy::batches(1), CkptPath{"last"});
  auto const table = content(folder / "lightning_logs/version_0/metrics.csv");
  return {first.progress().total_batches, std::count(table.begin(), table.end(), '\n')};
}

}  // namespace

TEST_CASE("a file that a hook asks for and that cannot be written changes nothing of the run, and no row is lost") {
  said([] { CHECK(in_two_parts(true) == in_two_parts(false)); });
}

TEST_CASE("a file that is saved after a fit goes on where limits are raised, also after requests at the fit's end") {
  for (bool const requests : {false, true}) {
    CAPTURE(requests);
    Folder const folder;
    Scripted model, again;
    auto first = make_trainer<Scripted>(below(folder.path, 5), SavingDevice{}, Float32{}, Automatic{},
                                        AtFitEnd{requests ? folder / "end.safetensors" : "", 3});
    first.fit(model, toy::batches(2), toy::batches(1));
    first.save_checkpoint(folder / "after.safetensors");
    auto second = make_trainer<Scripted>(below(folder.path, 6), SavingDevice{}, Float32{}, Automatic{}, AtFitEnd{});
    second.fit(again, toy::batches(2), toy::batches(1), CkptPath{folder / "after.safetensors"});
    CHECK(second.progress().global_step > first.progress().global_step);
  }
}

TEST_CASE("a signal and a file that cannot be written at one step: the run ends by the signal, with its file") {
  Folder const folder;
  auto const warnings = said([&] {
    Scripted model;
    auto trainer = make_trainer<Scripted>(below(folder.path), SavingDevice{}, Float32{}, Automatic{},
                                          SignalAndBadFile{}, Signals{{.dirpath = folder.path}});
    auto const error = error_of([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); });
    CHECK(error.starts_with("[fulgurite.run.interrupted]"));
    CHECK(std::filesystem::exists(folder / "interrupted.safetensors"));
  });
  CHECK(warnings.find("could not be written: [fulgurite.run.interrupted]") == std::string::npos);
  CHECK(warnings.find("the run was asked to end, and a file could not be written: ") != std::string::npos);
}

TEST_CASE("a snapshot and a file are of the model of the last fit, whatever was evaluated since") {
  Folder const folder;
  Scripted model, other;
  auto trainer = make_trainer<Scripted>(below(folder.path, 1), SavingDevice{}, Float32{}, Automatic{}, InHook{});
  trainer.fit(model, toy::batches(4), toy::batches(1));
  auto const before = snapshot(trainer);
  double const weight = model.p.value();
  other.p.set(77);
  trainer.validate(other, toy::batches(1));
  trainer.save_checkpoint(folder / "fitted.safetensors");
  model.p.set(-5);
  restore(trainer, before);
  CHECK(other.p.value() == 77);
  CHECK(model.p.value() == weight);
  trainer.validate(other, toy::batches(1), CkptPath{folder / "fitted.safetensors"});
  CHECK(other.p.value() == weight);
}

TEST_CASE(
    "a snapshot refuses a fit whose loader keeps its place by a state, where it was taken of a fit without such") {
  Scripted model;
  Keeps data;
  auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{}, InHook{});
  trainer.fit(model, toy::batches(3), NoValidation{});
  auto const before = snapshot(trainer);
  auto const drawn = data.drawn;
  CHECK(error_of([&] { trainer.fit(model, data, NoValidation{}, before); }).starts_with("[fulgurite.resume.snapshot]"));
  CHECK(data.drawn == drawn);
}

namespace {

/// Must not be read when its data module has dropped it.
struct Dropped : Keeps {
  bool gone = false, read_late = false;
  void state(auto& archive) {
    read_late = read_late || gone;
    Keeps::state(archive);
  }
};
struct Jumping : Dropped {
  void resume_at(long) {}
};
/// Drops its loader, and what it has learned, in teardown.
template <class Loader>
struct Drops {
  Loader loader = {};
  long learned = 0, knew = 0;
  auto& train_dataloader() {
    knew = learned;
    return loader;
  }
  void teardown() {
    loader.gone = true;
    learned = 0;
  }
  void state(auto& archive) { archive("learned", learned); }
};
/// Asks for a file in teardown, or where teardown fails.
struct InTeardown {
  using Stateless = ByChoice;
  std::filesystem::path file;
  bool fails = false;
  std::function<void()> then = [] {};
  void teardown(auto& ctx) const {
    then();
    if (fails) throw std::runtime_error("torn down badly");
    if (!file.empty()) ctx.request_checkpoint(file.string());
  }
  void on_exception(std::exception const&, auto& ctx) const { ctx.request_checkpoint(file.string()); }
};
template <class Loader>
void asks_in_teardown(bool fails, int epochs) {
  CAPTURE(fails, epochs);
  Folder const folder;
  auto const file = folder / "end.safetensors";
  auto const trainer = [&](int most, InTeardown const& asks) {
    return make_trainer<toy::P>(below(folder.path, most), SavingDevice{}, Float32{}, Automatic{}, asks);
  };
  toy::P model;
  Drops<Loader> data{.learned = 5};
  auto first = trainer(epochs, {file, fails});
  auto const saved = folder / "saved.safetensors";
  first.template callback<InTeardown>().then = [&] { first.save_checkpoint(saved); };
  if (fails) CHECK_THROWS_AS(first.fit(model, data), std::runtime_error);
  else first.fit(model, data);
  CHECK_FALSE(data.loader.read_late);
  for (auto const& from : {file, saved}) {
    toy::P again;
    Drops<Loader> rest;
    auto second = trainer(2, {});
    second.fit(again, rest, CkptPath{from});
    CHECK(rest.knew == 5);
    if (std::is_same_v<Loader, Dropped>) CHECK(rest.loader.drawn == 8);
    CHECK(second.progress().total_batches == 8);
  }
}

}  // namespace

TEST_CASE("a file that is asked for in teardown, or where it fails, has the data as they were before it") {
  said([] {
    for (bool const fails : {false, true})
      for (int const epochs : {0, 1}) {
        asks_in_teardown<Dropped>(fails, epochs);
        asks_in_teardown<Jumping>(fails, epochs);
      }
  });
}

TEST_CASE("a file that is asked for in teardown has the state of a loader that was given to the fit") {
  Folder const folder;
  auto const file = folder / "end.safetensors", saved = folder / "saved.safetensors";
  toy::P model;
  Jumping data;
  auto first = make_trainer<toy::P>(below(folder.path, 1), SavingDevice{}, Float32{}, Automatic{}, InTeardown{file});
  first.callback<InTeardown>().then = [&] { first.save_checkpoint(saved); };
  first.fit(model, data, NoValidation{});
  for (auto const& from : {file, saved}) {
    toy::P again;
    Jumping rest;
    auto second = make_trainer<toy::P>(below(folder.path, 2), SavingDevice{}, Float32{}, Automatic{}, InTeardown{});
    second.fit(again, rest, NoValidation{}, CkptPath{from});
    CHECK(rest.drawn == 6);  // three an epoch: the last batch is not left by ++
  }
}
