// What a file says of the program that wrote it: one value that stands for its parts, and where the file does not fit,
// in which of them the program at hand differs.
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/timer.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

struct OtherSgd : toy::Sgd {
  static constexpr std::string_view name() { return "OtherSgd"; }
};
struct OtherOptimizer : Scripted {
  OtherSgd configure_optimizers() { return {{{p}}}; }
};
/// It says under which key it is kept.
struct Keyed {
  long kept = 1;
  std::string state_key() const { return "by hand"; }
  void on_train_end() {}
  void state(auto& archive) { archive("kept", kept); }
};
struct OtherDevice : SavingDevice {};

template <class M, class... Cs>
auto trainer_of(int epochs, Cs... callbacks) {
  return make_trainer<M>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, std::move(callbacks)...);
}
std::string value_in(std::string const& name) {
  SafetensorsFile const file(name);
  return file.metadata().at(fingerprint_key);
}

/// The value in a file that is written after a fit.
std::string value_after(Folder const& folder, auto&& trainer, auto&& model, auto const& loader,
                        auto const& validation) {
  auto const file = (folder / "after.safetensors").string();
  trainer.fit(model, loader, validation);
  trainer.save_checkpoint(file);
  return value_in(file);
}

using Weights = std::vector<std::tuple<std::string, std::string, std::vector<std::int64_t>>>;
/// A file with these weights, and parts of these names.
void write(std::string const& file, Weights const& weights, std::vector<std::string> callbacks) {
  save_run_file(
      file,
      [&](auto&& f) {
        for (auto const& [name, dtype, shape] : weights) {
          std::vector<std::byte> const bytes(*safetensors::bytes_of(dtype, shape));
          f(std::string_view(name), WeightView{dtype, shape, bytes});
        }
      },
      [&](auto& archive) { archive.child("assembly", [&](auto& inner) { inner("callbacks", callbacks); }); });
}
std::string difference(std::string const& name, Weights const& weights, std::vector<std::string> callbacks) {
  SafetensorsFile const file(name);
  return assembly_difference(
      file, run_state(file),
      [&](auto&& f) {
        for (auto const& [key, dtype, shape] : weights) f(key, dtype, shape);
      },
      [&](auto& archive) { archive.child("assembly", [&](auto& inner) { inner("callbacks", callbacks); }); });
}

}  // namespace

TEST_CASE("fingerprint: one program has one value, wherever its run is and however its file is written") {
  Folder const folder;
  ModelCheckpointOptions const options{.dirpath = folder.path, .filename = "{epoch}", .save_top_k = -1};
  std::string values[2];
  for (bool const later : {false, true}) {
    Scripted model;
    auto asked = quick(3);
    asked.save_in_background = later;
    auto run = fitted(model, asked, 2, ModelCheckpoint{options});
    auto const first = value_in(folder / "epoch=0.safetensors");
    CHECK(first.size() == 16);
    CHECK(first.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(value_in(folder / "epoch=2.safetensors") == first);
    run.save_checkpoint(folder / "after");  // the loaders of the fit that is over are known
    CHECK(value_in(folder / "after") == first);
    values[later] = first;
  }
  CHECK(values[0] == values[1]);
}

TEST_CASE("fingerprint: another part is another value, another number is not") {
  Folder const folder;
  auto const list = toy::batches(2), validation = toy::batches(1);
  auto const value = value_after(folder, trainer_of<Scripted>(1), Scripted{}, list, validation);
  CHECK(value_after(folder, trainer_of<Scripted>(2), Scripted{}, toy::batches(5), validation) == value);
  CHECK(value_after(folder, trainer_of<Scripted>(1, Keyed{}), Scripted{}, list, validation) != value);
  CHECK(value_after(folder, trainer_of<OtherOptimizer>(1), OtherOptimizer{}, list, validation) != value);
  CHECK(value_after(folder, trainer_of<Scripted>(1), Scripted{}, toy::Unsized(2), validation) != value);
  CHECK(value_after(folder, trainer_of<Scripted>(1), Scripted{}, list, std::tuple(validation, validation)) != value);
  auto elsewhere = make_trainer<Scripted>(quick(1), OtherDevice{}, Float32{}, Automatic{});
  CHECK(value_after(folder, elsewhere, Scripted{}, list, validation) != value);

  write(folder / "a", {{"w", "F32", {2, 3}}}, {"Timer"});
  auto const a = value_in(folder / "a");
  write(folder / "b", {{"w", "F32", {2, 3}}}, {"Timer"});
  CHECK(value_in(folder / "b") == a);
  for (Weights const& other : {Weights{{"v", "F32", {2, 3}}}, Weights{{"w", "F64", {2, 3}}},
                               Weights{{"w", "F32", {3, 2}}}, Weights{{"w", "F32", {2, 3}}, {"v", "F32", {}}}}) {
    write(folder / "b", other, {"Timer"});
    CHECK(value_in(folder / "b") != a);
  }
}

TEST_CASE("fingerprint: a file that does not fit is refused with the parts in which the program differs, then the "
          "list") {
  Folder const folder;
  auto const file = folder / "x.safetensors";
  Scripted model;
  auto first = trainer_of<Scripted>(1, Keyed{}, Timer{});
  first.fit(model, toy::batches(2), toy::batches(1));
  first.save_checkpoint(file);

  OtherOptimizer other;
  auto trainer = trainer_of<OtherOptimizer>(2, EarlyStopping{Scripted::vl}, Timer{});
  std::string error;
  said([&] { error = error_of([&] { trainer.fit(other, toy::Unsized(2), toy::batches(1), CkptPath{file}); }); });
  CHECK(error == "[fulgurite.checkpoint.state_entry] the file was written by a program that is put together "
                 "differently (fingerprint " +
                     value_in(file) +
                     "): optimizers: 0 OtherSgd in place of 0 SGD; callbacks: "
                     "EarlyStopping{vl, min} in place of by hand (Keyed); loaders: train Unsized in place of train "
                     "vector. What does not fit: 'optimizers.0 OtherSgd' is not in the saved state: resume with "
                     "the parts that it was saved of, or begin a new run with its weights, load_weights(model, file)");
}

TEST_CASE("fingerprint: where a file fits, other callbacks are said and not refused") {
  Folder const folder;
  auto const file = folder / "x.safetensors";
  Scripted model, again;
  auto first = trainer_of<Scripted>(1);
  first.fit(model, toy::batches(2), toy::batches(1));
  first.save_checkpoint(file);
  auto more = trainer_of<Scripted>(2, Keyed{}, Timer{});
  auto const warnings = said([&] { more.fit(again, toy::batches(2), toy::batches(1), CkptPath{file}); });
  CHECK(again.p.value() == 4);
  CHECK(warnings.find("put together differently") == std::string::npos);
  CHECK(warnings.find("the file holds no state of by hand") != std::string::npos);
}

TEST_CASE("fingerprint: a limit that a file does not fit is no matter of parts") {
  Folder const folder;
  auto const file = folder / "x.safetensors";
  Scripted model, again;
  auto first = trainer_of<Scripted>(3);
  first.fit(model, toy::batches(2), toy::batches(1));
  first.save_checkpoint(file);
  auto shorter = trainer_of<Scripted>(2, Keyed{});
  auto const error =
      error_of([&] { said([&] { shorter.fit(again, toy::batches(2), toy::batches(1), CkptPath{file}); }); });
  CHECK(error == "[fulgurite.resume.max_epochs] the file is of a run of 3 epochs, and max_epochs = 2: raise it, or "
                 "take an earlier file");
}

TEST_CASE("fingerprint: weights are counted, those of another shape, new ones and missing ones") {
  Folder const folder;
  auto const file = (folder / "x.safetensors").string();
  write(file, {{"a", "F32", {2}}, {"b", "F32", {3}}, {"c", "I64", {}}, {"e", "BOOL", {1}}}, {"EMA", "Timer"});
  auto const value = value_in(file);
  auto const text = [&](std::string const& parts) {
    return "the file was written by a program that is put together differently (fingerprint " + value + "): " + parts;
  };
  std::vector<std::string> const same{"Timer", "EMA"};
  CHECK(difference(file, {{"a", "F32", {2}}, {"b", "F32", {3}}, {"c", "I64", {}}, {"e", "BOOL", {1}}}, same).empty());
  // A precision decides between floating types, so they stand for each other.
  CHECK(difference(file, {{"a", "BF16", {2}}, {"b", "F64", {3}}, {"c", "I64", {}}, {"e", "BOOL", {1}}}, same).empty());
  CHECK(difference(file, {{"a", "F32", {2}}, {"b", "F32", {4}}, {"c", "F32", {}}, {"e", "BOOL", {1}}}, same) ==
        text("model: 2 weights differ"));
  CHECK(difference(file, {{"a", "F32", {2, 1}}, {"b", "F32", {3}}, {"d", "I64", {}}, {"e", "BOOL", {1}}}, same) ==
        text("model: 1 weight differs, 1 weight is new, 1 weight is gone"));
  CHECK(difference(file, {}, {"EMA", "Timer", "SWA", "Other"}) ==
        text("model: 4 weights are gone; callbacks: Other is new, SWA is new"));
  CHECK(difference(file, {{"a", "F32", {2}}, {"b", "F32", {3}}, {"c", "I64", {}}, {"e", "F32", {1}}}, {"Timer"}) ==
        text("model: 1 weight differs; callbacks: EMA is gone"));

  write_safetensors(folder / "foreign", {}, [](auto&&) {});
  SafetensorsFile const foreign(folder / "foreign");
  CHECK(
      assembly_difference(foreign, {}, [](auto&&) {}, [](auto&) {}).empty());  // of another program, which said nothing
}
