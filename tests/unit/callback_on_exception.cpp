#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/watch.hpp>

#include <cerrno>

#include "callback_run.hpp"

using namespace fulgurite;
using Kept = std::set<std::string>;

TEST_CASE("C145 on exception: a failed fit leaves a file at the step it had reached, a successful one removes it") {
  Folder const folder;
  Scripted model{.fails_at = 3};
  CHECK(error_of([&] {
          fitted(model, quick(1), 5, OnExceptionCheckpoint{{.dirpath = folder.path}});
        }).starts_with("[fulgurite.test.step]"));
  CHECK(folder.files() == Kept{"on_exception.safetensors"});
  CHECK(to_text(run_state(SafetensorsFile(folder / "on_exception.safetensors"))).find(R"("global_step":3)") !=
        std::string::npos);
  Scripted fine;
  auto trainer = fitted(fine, quick(1), 5, OnExceptionCheckpoint{{.dirpath = folder.path}});
  CHECK(folder.files().empty());
  CHECK(trainer.template callback<OnExceptionCheckpoint>().ckpt_path() == folder / "on_exception.safetensors");
}

TEST_CASE("on exception: another run than fit neither writes nor removes") {
  Folder const folder;
  put(folder / "died.safetensors", "x");
  Scripted model;
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                        OnExceptionCheckpoint{{.dirpath = folder.path, .filename = "died"}});
  trainer.validate(model, toy::batches(1));
  CHECK(folder.files() == Kept{"died.safetensors"});
  CHECK_FALSE(error_of([&] { trainer.validate(model, toy::batches(0)); }).empty());
  CHECK(content(folder / "died.safetensors") == "x");
}

TEST_CASE("on exception: an empty file name is refused") {
  CHECK(error_of([] {
          OnExceptionCheckpoint{{.dirpath = "runs", .filename = ""}};
        }).starts_with("[fulgurite.callback.on_exception]"));
}

TEST_CASE("on exception: without dirpath the file lies in default_root_dir, and the next fit resumes from it") {
  Folder const folder;
  auto options = quick(1);
  options.default_root_dir = folder.path;
  Scripted model{.fails_at = 3};
  CHECK(error_of([&] {
          fitted(model, options, 5, OnExceptionCheckpoint{{.filename = "died"}});
        }).starts_with("[fulgurite.test.step]"));
  CHECK(folder.files() == Kept{"died.safetensors"});
  Scripted fine;
  auto trainer = fitted(fine, options, 5, OnExceptionCheckpoint{{.filename = "died"}});
  CHECK(trainer.progress().global_step == 5);
  CHECK(fine.batches == 2);
  CHECK(folder.files().empty());
}

namespace on_exception_names {
struct Other : Scripted {};
}  // namespace on_exception_names

TEST_CASE("on exception: without dirpath and filename the file is named after the program and the model") {
  Folder const folder;
  auto options = quick(1);
  options.default_root_dir = folder.path;
  Scripted model{.fails_at = 3};
  CHECK(error_of([&] { fitted(model, options, 5, OnExceptionCheckpoint{}); }).starts_with("[fulgurite.test.step]"));
  Kept const left{"on_exception_" + std::string(program_invocation_short_name) + "_Scripted.safetensors"};
  CHECK(folder.files() == left);
  // Another model in the same folder neither resumes from that file nor removes it.
  on_exception_names::Other other;
  auto others =
      make_trainer<on_exception_names::Other>(options, SavingDevice{}, Float32{}, Automatic{}, OnExceptionCheckpoint{});
  others.fit(other, toy::batches(5), NoValidation{});
  CHECK(other.batches == 5);
  CHECK(folder.files() == left);
  Scripted fine;
  auto trainer = fitted(fine, options, 5, OnExceptionCheckpoint{});
  CHECK(trainer.progress().global_step == 5);
  CHECK(fine.batches == 2);
  CHECK(trainer.template callback<OnExceptionCheckpoint>().last_checkpoints() == std::vector{folder / *left.begin()});
  CHECK(folder.files().empty());
}
