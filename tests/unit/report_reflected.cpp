// Settings that are named once: listed, printed, checked, saved and read back by one definition; the trainer's options.
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/report/reflected.hpp>

#include "checkpoint_folder.hpp"
#include "reflected_settings.hpp"

using namespace fulgurite;
using reflected_settings::Kind;
using reflected_settings::Settings;

namespace {
/// Keeps what is saved as texts.
struct Kept {
  std::map<std::string, std::string> values;
  Kept& operator()(std::string_view name, auto& value) {
    values[std::string(name)] = reflect::field_text(value);
    return *this;
  }
};
struct Net {
  Settings hparams{};
};
}  // namespace

TEST_CASE("settings that are named once are listed for loggers, printed and saved by that") {
  Settings settings{.lr = 0.25, .layers = 7};
  CHECK(reflect::names(settings) == std::vector<std::string_view>{"lr", "layers", "bias", "kind", "optimizer"});
  CHECK(hyperparameters(Net{settings}) == std::vector<Hyperparameter>{{"lr", 0.25},
                                                                      {"layers", std::int64_t{7}},
                                                                      {"bias", true},
                                                                      {"kind", std::int64_t{1}},
                                                                      {"optimizer", std::string("adam")}});
  CHECK(reflect::text(settings) == "lr = 0.25\nlayers = 7\nbias = true\nkind = 1\noptimizer = adam\n");
  CHECK(reflect::text(settings, Settings{}) == "lr = 0.25\nlayers = 7\n");
  Settings unnamed;
  unnamed.optimizer.clear();
  CHECK(reflect::text(unnamed, Settings{}) == "optimizer = \n");
  CHECK(reflect::field_text(0.1F) == "0.100000001");
  Kept kept;
  settings.state(kept);
  CHECK(kept.values.size() == 5);
  CHECK(kept.values.at("lr") == "0.25");
}

TEST_CASE("settings that are named once come back from a file") {
  Folder const folder;
  auto const file = folder / "a.safetensors";
  auto const text = R"({"lr":0.5,"layers":9,"bias":false,"kind":0,"optimizer":"sgd"})";
  write_safetensors(file, {{"hyperparameters", text}}, [](auto&&) {});
  auto const got = hyperparameters<Settings>(file);
  CHECK(reflect::text(got) == "lr = 0.5\nlayers = 9\nbias = false\nkind = 0\noptimizer = sgd\n");
}

TEST_CASE("settings that are named once are checked against their ranges") {
  CHECK(reflect::checked(Settings{.lr = 1.0, .layers = 1}).layers == 1);
  auto const said = [](Settings settings) { return error_of([&] { reflect::checked(settings); }); };
  CHECK(said({.lr = -0.5}) == "[fulgurite.options.field] lr = -0.5: it must be from 0 to 1");
  CHECK(said({.lr = std::numeric_limits<double>::quiet_NaN()}).find("lr = nan") != std::string::npos);
  CHECK(said({.layers = 0}) == "[fulgurite.options.field] layers = 0: it must be at least 1");
}

TEST_CASE("the trainer's options are reflected: what was asked for, in words") {
  TrainerOptions const options{.max_epochs = 3,
                               .max_time = Seconds{90},
                               .limit_val_batches = Fraction{0.5},
                               .limit_test_batches = 10,
                               .val_check_interval = Batches{100},
                               .overfit_batches = Limit{2},
                               .deterministic = true,
                               .default_root_dir = "runs/a"};
  CHECK(reflect::text(options, TrainerOptions{}) ==
        "max_epochs = 3\nmax_time = 90 s\nlimit_val_batches = 0.5 of it\nlimit_test_batches = 10 batches\n"
        "val_check_interval = 100 batches\noverfit_batches = 2 batches\ndeterministic = true\n"
        "default_root_dir = runs/a\n");
  CHECK(reflect::text(TrainerOptions{}, TrainerOptions{}).empty());
  CHECK(reflect::text(Automatic{.accumulate_grad_batches = 4, .clip = ClipNorm{0.5}}, Automatic{}) ==
        "accumulate_grad_batches = 4\nclip = norm 0.5\n");
}

TEST_CASE("no option of the trainer is left out of options.txt, and each has the same text as reflected") {
  TrainerOptions const options{.max_epochs = 3, .limit_val_batches = Fraction{0.5}, .non_finite = NonFinite::skip};
  Automatic const how{.clip = ClipNorm{0.5}};
  auto const text = report::options_text(options, &how);
  auto lines = reflect::text(options) + "accumulate_grad_batches = 1\nclip = norm 0.5\ntbptt = 0\n";
  std::string_view const left_out = "default_root_dir = .\n";  // where a run lies is no part of what it is
  lines.erase(lines.find(left_out), left_out.size());
  CHECK(text == lines);
  CHECK(text.starts_with("max_epochs = 3\nmin_epochs = none\n"));
  CHECK(text.find("\nnon_finite = skip\n") != std::string::npos);
  CHECK(report::options_text(options, nullptr).ends_with("\nsilence = none\n"));
}

TEST_CASE("no option of the trainer is left out of its reflection") {
  std::size_t reflected = 0;
  TrainerOptions const options;
  reflect::each_field(options, [&](std::string_view, auto const&) { ++reflected; });
  // Compiles only where there are so many fields; those behind `now` are refused where a program names them.
  auto const& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23,
               f24, f25, f26, last, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15, r16, r17, r18,
               r19, r20] = options;
  CHECK(reflected == 27);
  CHECK(last == options.now);
  CHECK(&f1 == &options.max_epochs);
  STATIC_REQUIRE(std::is_empty_v<std::remove_cvref_t<decltype(r1)>> &&
                 std::is_empty_v<std::remove_cvref_t<decltype(r20)>>);
}
