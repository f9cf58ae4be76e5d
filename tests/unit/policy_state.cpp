// A precision and an optimization that learn something are as they were when a fit goes on; what says that it has
// nothing to save is believed.
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/watch.hpp>

#include <catch2/catch_template_test_macros.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

long learnt_last = 0;
struct Learns {
  static constexpr Dtype parameters = Dtype::float32, compute = Dtype::float32;
  static constexpr bool autocasts = false, scales_loss = false;
  long learnt = 0;
  void state(auto& archive) {
    archive("learnt", learnt);
    learnt_last = learnt;
  }
};
struct Counts : Manual {
  long counted = 0;
  void state(auto& archive) { archive("counted", counted); }
};
struct Steps {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  bool fails = false;
  void training_step(double, auto& ctx) {
    if (fails && ctx.global_step() == 2) throw Error("fulgurite.test.step", "a step failed");
    auto [optimizer] = ctx.optimizers();
    ctx.minimize(optimizer, -p);
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

}  // namespace

TEST_CASE("resume: the state of a precision and of an optimization is that of the run that was stopped") {
  Folder const folder;
  for (bool const fails : {true, false}) {
    Steps model{.fails = fails};
    auto trainer = make_trainer<Steps>(quick(1), SavingDevice{}, Learns{fails ? 7 : 0}, Counts{{}, fails ? 8 : 0},
                                       OnExceptionCheckpoint{{.dirpath = folder.path}});
    said([&] { CHECK(error_of([&] { trainer.fit(model, toy::batches(4)); }).empty() != fails); });
    CHECK(trainer.optimization().counted == 8);
    CHECK(learnt_last == 7);
    if (!fails) CHECK(trainer.progress().global_step == 4);
  }
}

namespace {

/// Moves nothing, and says that there is nothing to remember.
struct Idle {
  using Stateless = ByChoice;
  static constexpr bool needs_closure = false, stable_gradients = true;
  static constexpr std::string_view name() { return "Idle"; }
  std::vector<toy::Tensor> all;
  void zero_grad() {}
  void step() {}
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return 1; }
  void set_lr(std::size_t, double) {}
  std::vector<toy::Tensor> const& parameters() const { return all; }
};
template <class O>
struct With {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  bool fails = false;
  toy::Tensor training_step(double, auto& ctx) {
    if (fails && ctx.global_step() == 2) throw Error("fulgurite.test.step", "a step failed");
    return -p;
  }
  O configure_optimizers() {
    if constexpr (std::is_same_v<O, NoOptimizer>) return {};
    else return O{{p}};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("resume: a fit goes on with an optimizer that says Stateless, and without an optimizer", "",
                   NoOptimizer, Idle) {
  Folder const folder;
  With<TestType> model{.fails = true};
  auto trainer = make_trainer<With<TestType>>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                              OnExceptionCheckpoint{{.dirpath = folder.path}});
  CHECK_FALSE(error_of([&] { trainer.fit(model, toy::batches(4)); }).empty());
  model.fails = false;
  said([&] { trainer.fit(model, toy::batches(4)); });
  CHECK(trainer.progress().global_step == 4);
}
