// Names by which callbacks, loaders, schedules and strategies say something while compiling, as data members that mean
// something else.
#include <catch2/catch_test_macros.hpp>

#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <models.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/describe.hpp>

using namespace fulgurite;

namespace {

/// What a user's own callback may well call its members.
struct Diary {
  using Stateless = ByChoice;
  std::vector<long> order = {};
  long reads = 0, writes = 0;
  void on_train_batch_end(auto& ctx) {
    ++reads;
    order.push_back(ctx.batch_idx());
  }
};

/// A loader that has a name of its own, and a mode.
struct Named : std::vector<double> {
  using std::vector<double>::vector;
  std::string loader_name = "mine";
  int combine_mode = 0;
};

struct Halving {
  using Stateless = ByChoice;
  double per_step = 0.5;
  double operator()(long moves) const { return moves == 0 ? 1.0 : per_step; }
};

struct Counting : toy::Device {
  long moves = 0;
  bool supports = true, clips = false;
};

struct Net : toy::P {
  void validation_step(double) {}
  double predict_step(double batch) { return batch; }
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, Halving{}); }
};

}  // namespace

TEST_CASE("a callback is asked for by its type, or by its class template", "[hook]") {
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 1}, {}, Diary{}, EarlyStopping{Net::loss, {.patience = 7}});
  trainer.fit(net, toy::batches(2), NoValidation{});
  CHECK(&trainer.callback<EarlyStopping>() ==
        &trainer.callback<EarlyStopping<std::remove_const_t<decltype(Net::loss)>>>());
  CHECK(trainer.callback<EarlyStopping>().best_score() == -0.5);
}

TEST_CASE("data members named as what is said while compiling mean something else, and compile", "[hook]") {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 2}, Counting{}, Float32{}, Automatic{}, Diary{});
  trainer.fit(net, toy::batches(2), std::tuple(Named{1.0, 2.0}, Named{3.0}));
  CHECK(trainer.callback<Diary>().order == std::vector<long>{0, 1, 0, 1});
  CHECK(net.p.value() == 1 + 1 + 0.5 + 0.5);  // the schedule moves once an epoch: its per_step is a number of its own
  CHECK(trainer.predict(net, Named{4.0}).front() == std::vector<double>{4.0});
  std::ostringstream said;
  said << describe(trainer);
  CHECK(said.str().find("Diary") != std::string::npos);
  STATIC_REQUIRE(order_of<Diary>() == Order::normal);
}
