// Where batches come from: loaders, data modules, the model itself; asked for once, told the epoch, never copied.
#include <catch2/catch_test_macros.hpp>

#include <memory>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::note;
using toy::noted;
using toy::Trace;
using toy::trace;

namespace {

/// Counts copies and passes; is told the epoch.
struct Counted {
  std::vector<double> values = toy::batches(2);
  std::vector<long> epochs = {};
  int passes = 0;
  Counted() = default;
  Counted(Counted const&) = delete;
  Counted(Counted&&) = delete;
  auto begin() {
    ++passes;
    return values.begin();
  }
  auto end() { return values.end(); }
  std::size_t size() const { return values.size(); }
  void set_epoch(long epoch) { epochs.push_back(epoch); }
};

struct Lends {
  Counted train = {}, val = {};
  Counted& train_dataloader() {
    note("train");
    return train;
  }
  Counted& val_dataloader() {
    note("val");
    return val;
  }
};

struct Itself : toy::Validated {
  int validated = 0;
  std::vector<double> train_dataloader() { return toy::batches(3); }
  std::vector<double> val_dataloader() { return toy::batches(1); }
  void validation_step(double) { ++validated; }
};

/// Only the batch at hand and the one before it may be looked at.
struct Lookahead {
  static constexpr bool batches_stay_valid = true;
  struct Iterator {
    Lookahead* from;
    int at;
    double const& operator*() const { return from->slots[at % 2]; }
    Iterator& operator++() {
      ++at;
      from->slots[at % 2] = at;
      from->slots[(at + 1) % 2] = at - 1;
      from->ahead = std::max(from->ahead, at);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(Iterator const& other) const { return at == other.at; }
    using difference_type = std::ptrdiff_t;
    using value_type = double;
  };
  int n;
  double slots[2] = {0, 0};
  int ahead = 0;
  Iterator begin() {
    slots[0] = 0;
    return {this, 0};
  }
  Iterator end() { return {this, n}; }
};
struct Watches : toy::P {
  std::vector<double> batches = {};
  std::vector<bool> last = {};
  toy::Tensor training_step(double const& batch, auto& ctx) {
    batches.push_back(batch);
    last.push_back(ctx.is_last_batch());
    return -p;
  }
};

struct Asks : toy::P {
  std::size_t groups = 0;
  void validation_step(double, auto& ctx) { groups = ctx.optimizer().groups(); }
};

/// Its step returns what cannot be copied.
struct Moved {
  toy::Tensor loss;
  std::unique_ptr<double> batch;
};
struct Moves : toy::P {
  std::vector<double> batches = {};
  Moved training_step(double batch) { return {-p, std::make_unique<double>(batch)}; }
  void on_train_batch_end(auto& outputs, double, auto&) { batches.push_back(*outputs.batch); }
};
/// A data module that is a list of samples.
struct Listed : std::vector<std::string> {
  auto train_dataloader() { return toy::batches(3); }
};
/// A model that is a list of layers.
struct Layered : Itself {
  std::vector<std::string> layers = {"first", "second"};
  auto begin() { return layers.begin(); }
  auto end() { return layers.end(); }
};

}  // namespace

TEST_CASE("what a step returns beside the loss need not be copyable") {
  Moves model;
  toy::train<Moves>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(2));
  CHECK(model.batches == std::vector<double>{0, 1});
}

TEST_CASE("a data module or a model that can be iterated over is not taken for a loader") {
  toy::P model;
  Listed data;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, data);
  CHECK(trainer.progress().global_step == 3);

  Layered layered;
  auto other = toy::train<Layered>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{});
  other.fit(layered);
  CHECK(other.progress().global_step == 3);
  CHECK(layered.validated == 1);
  other.validate(layered);
  CHECK(layered.validated == 2);
}

TEST_CASE(
    "a data module is asked once a fit for each loader; loaders that it lends are not copied; they are given each "
    "epoch") {
  toy::Validated model;
  Lends data;
  trace.clear();
  toy::train<toy::Validated>({.max_epochs = 3}, Automatic{}).fit(model, data);
  CHECK(noted("train") == 1);
  CHECK(noted("val") == 1);
  CHECK(data.train.epochs == std::vector<long>{0, 1, 2});
  CHECK(data.train.passes == 3);
  CHECK(data.val.passes == 1 + 3);
}

TEST_CASE("without a sanity check the training loader is asked for first, and both before training starts") {
  toy::Validated model;
  Lends data;
  trace.clear();
  toy::train<toy::Validated>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{}).fit(model, data);
  CHECK(trace == Trace{"train", "val"});
}

TEST_CASE("NoValidation: the module's validation loader is never asked for") {
  toy::Validated model;
  Lends data;
  trace.clear();
  toy::train<toy::Validated>({.max_epochs = 1}, Automatic{}).fit(model, data, NoValidation{});
  CHECK(trace == Trace{"train"});
}

TEST_CASE("a model may have its loaders itself") {
  Itself model;
  auto trainer = toy::train<Itself>({.max_epochs = 2, .num_sanity_val_steps = 0}, Automatic{});
  trainer.fit(model);
  CHECK(trainer.progress().global_step == 6);
  CHECK(model.validated == 2);
  trainer.validate(model, model);
  CHECK(model.validated == 3);
}

TEST_CASE("an unsized loader that promises it is read one batch ahead, to know the last; the batch stays valid") {
  Watches model;
  Lookahead loader{.n = 4};
  toy::train<Watches>({.max_epochs = 1}, Automatic{}).fit(model, loader);
  CHECK(model.batches == std::vector<double>{0, 1, 2, 3});
  CHECK(model.last == std::vector<bool>{false, false, false, true});
  Lookahead limited{.n = 9};
  toy::train<Watches>({.max_epochs = 1, .limit_train_batches = 2}, Automatic{}).fit(model, limited);
  CHECK(limited.ahead == 1);  // the limit tells which is the last: nothing is fetched that is not used
}

TEST_CASE("optimizers belong to fit: asked for in a lone validation they are an Error, not a null reference") {
  Asks model;
  CHECK(toy::refusal([&] { toy::train<Asks>({.max_epochs = 1}, Automatic{}).validate(model, toy::batches(1)); }) ==
        "fulgurite.context.optimizers");
  toy::train<Asks>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(1), toy::batches(1));
  CHECK(model.groups == 1);
}
