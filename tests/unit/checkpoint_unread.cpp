// What a file holds and a program does not read: a part of the run that would be lost without a word.
#include <optional>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {
struct Pair {
  int a = 0, b = 0;
  void state(auto& archive) { archive("a", a)("b", b); }
};
struct First {
  int a = 0;
  void state(auto& archive) { archive("a", a); }
};
std::string loaded(std::string const& text, auto&& fold, auto&&... before) {
  auto const tree = from_text(text);
  (load_state(tree, before), ...);
  return error_of([&] { load_state(tree, fold, Unread::refused); });
}
std::string const unread =
    "[fulgurite.checkpoint.state_unread] the saved state holds what nothing here is loaded from: ";

struct WithState : Scripted {
  int kept = 1;
  void state(auto& archive) { archive("kept", kept); }
};
struct OneOptimizer : Scripted {
  void training_step(double, auto& ctx) {
    ++batches;
    ctx.minimize(std::get<0>(ctx.optimizers()), -p);
  }
};
struct TwoOptimizers : OneOptimizer {
  toy::Tensor q = toy::Tensor::parameter(0.0);
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    ctx.minimize(first, -p);
    ctx.minimize(second, -q);
  }
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}, toy::Sgd{{q}}); }
};
template <class M>
using PolicyOf = std::conditional_t<std::derived_from<M, OneOptimizer>, Manual, Automatic>;
struct MoreLogged : Scripted {
  static constexpr Metric<"more"> more{};
  using Metrics = MetricList<loss, vl, missing, acc, more>;
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.log(more, batch);
    return Scripted::training_step(batch, ctx);
  }
};

/// A file of a fit with a model of type M.
template <class M, class... Cs>
std::string file_of(Folder const& folder, M model = {}, Cs... callbacks) {
  auto trainer = make_trainer<M>(quick(1), SavingDevice{}, Float32{}, PolicyOf<M>{}, std::move(callbacks)...,
                                 ModelCheckpoint{{.dirpath = folder.path, .filename = "x"}});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  return folder / "x.safetensors";
}
template <class M>
std::string goes_on(M& model, std::string const& file) {
  auto trainer = make_trainer<M>(quick(2), SavingDevice{}, Float32{}, PolicyOf<M>{},
                                 ModelCheckpoint{{.dirpath = file + "d", .filename = "x"}});
  return error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1), CkptPath{file}); });
}
}  // namespace

TEST_CASE("state: what nothing reads is refused by name where all was to be read, and nothing is changed") {
  First one{7};
  CHECK(loaded(R"({"x":{"a":1,"b":2},"y":{"a":3,"b":4},"z":[]})", [&](auto& archive) { archive.child("x", one); }) ==
        unread + "'x.b', 'y', 'z': resume with the program that saved it, or begin a new run with its weights by "
                 "load_weights");
  CHECK(one.a == 7);
  Pair pair;
  auto const fold = [&](auto& archive) { archive.child("x", pair); };
  CHECK(loaded(R"({"x":{"a":1,"b":2}})", fold) == "");
  CHECK(pair.b == 2);
}

TEST_CASE("state: lists, optionals and tensors are read with what they hold") {
  std::vector<First> list;
  std::optional<First> maybe, none;
  SavedTensor tensor;
  std::string const text = R"({"list":[{"a":1},{"a":2,"b":3}],"maybe":{"a":1,"c":2},"none":null,)"
                           R"("tensor":{"$tensor":{"dtype":"U8","shape":[1],"bytes":"00"}}})";
  CHECK(loaded(text, [&](auto& archive) {
          archive("list", list)("maybe", maybe)("none", none)("tensor", tensor);
        }).starts_with(unread + "'list[1].b', 'maybe.c': "));
}

TEST_CASE("state: an entry that an earlier fold of the same file has read is read, and some may be left out") {
  int x = 0, y = 0;
  auto const first = [&](auto& archive) { archive("x", x); };
  auto const second = [&](auto& archive) { archive("y", y); };
  CHECK(loaded(R"({"x":1,"y":2})", second, first) == "");
  CHECK(loaded(R"({"x":1,"y":2})", second).starts_with(unread + "'x': "));
  auto const some = [&](auto& archive) {
    archive.child("in", [&](auto& inner) {
      inner("x", x);
      leave_out_others(inner);
    });
  };
  CHECK(loaded(R"({"in":{"x":1,"more":{"a":1}}})", some) == "");
  CHECK(loaded(R"({"in":{"x":1,"more":{"a":1}},"out":1})", some).starts_with(unread + "'out': "));
}

TEST_CASE("resume: a file with more optimizers, or of a model with a state, is refused by a program without them") {
  Folder const two, kept;
  auto const of_two = file_of<TwoOptimizers>(two), of_state = file_of<WithState>(kept);
  Scripted model;
  model.p.set(42);
  auto const error = goes_on(model, of_state);
  CHECK(error.starts_with(unread + "'model': "));
  CHECK(model.p.value() == 42);
  CHECK(model.batches == 0);
  OneOptimizer one;
  auto const of_one = goes_on(one, of_two);
  CHECK(of_one.starts_with("[fulgurite.checkpoint.state_unread] the file was written by a program that is put together "
                           "differently "));
  CHECK(
      of_one.find("): optimizers: 1 SGD is gone. What does not fit: the saved state holds what nothing here is loaded "
                  "from: 'optimizers.1 SGD', 'rates.1', 'gradients.1': ") != std::string::npos);
  CHECK(one.batches == 0);
  WithState same;
  CHECK(goes_on(same, of_state) == "");
}

TEST_CASE("resume: a program may have fewer metrics and callbacks than the one that wrote the file") {
  Folder const folder;
  auto const file = file_of<MoreLogged>(folder, {}, EarlyStopping{MoreLogged::vl, {.patience = 5}});
  Scripted model;
  std::string error;
  auto const warned = said([&] { error = goes_on(model, file); });
  CHECK(error == "");
  CHECK(warned.find("[fulgurite.resume.no_callback]") != std::string::npos);
  CHECK(model.batches == 2);
}
