// What goes wrong on one rank: the others end with its name and its text, and nobody waits for ever.
#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace {

/// Fails where it is told to, on one rank.
struct Fragile {
  static constexpr Metric<"val"> val{};
  using Metrics = MetricList<val>;
  Tensor p = Tensor::parameter(0.0);
  int rank = 0;
  std::string where = {};

  void fail(std::string_view here) const {
    if (rank == 1 && where == here) throw std::runtime_error("no more milk");
  }
  Tensor training_step(double, auto& ctx) {
    if (ctx.batch_idx() == 2) fail("training_step");
    return -p;
  }
  void on_after_backward(auto& ctx) {
    if (ctx.batch_idx() == 2) fail("on_after_backward");
  }
  void setup() const { fail("setup"); }
  void on_before_optimizer_step() const { fail("on_before_optimizer_step"); }
  void on_train_batch_end() const { fail("on_train_batch_end"); }
  void validation_step(double, auto& ctx) {
    ctx.log(val, 1.0);
    fail("validation_step");
  }
  void on_train_epoch_end() const { fail("on_train_epoch_end"); }
  toy::Sgd configure_optimizers() const {
    fail("configure_optimizers");
    return {.params = {p}};
  }
};

struct Hears {
  using Stateless = ByChoice;
  std::string* heard;
  void on_exception(std::exception const& error, auto&) const { *heard = error.what(); }
};

/// What each rank has thrown.
std::vector<std::string> errors(std::string where, int world = 3) {
  auto const all = toy::on_ranks(world, [&](Rank rank) {
    Fragile model;
    model.rank = rank.rank();
    model.where = where;
    std::string heard;
    auto trainer = make_trainer<Fragile>({.max_epochs = 2, .num_sanity_val_steps = 0}, rank, Float32{}, Automatic{},
                                         Hears{&heard});
    toy::OwnPart<double> train{toy::batches(4)}, val{toy::batches(2)};
    try {
      trainer.fit(model, train, val);
    } catch (std::exception const& error) {
      if (heard != error.what()) throw std::logic_error("on_exception heard " + heard);
      throw;
    }
    return 0;
  });
  std::vector<std::string> texts;
  for (auto const& one : all) texts.push_back(one.error);
  return texts;
}

}  // namespace

TEST_CASE("ranks: an exception on one ends the others, with its rank and its text, wherever it is thrown") {
  for (std::string const where :
       {"setup", "configure_optimizers", "training_step", "on_after_backward", "on_before_optimizer_step",
        "on_train_batch_end", "validation_step", "on_train_epoch_end"}) {
    CAPTURE(where);
    auto const texts = errors(where);
    std::string const other = "[fulgurite.distributed.rank_ended] rank 1 ended: no more milk";
    CHECK(texts == std::vector<std::string>{other, "no more milk", other});
  }
}

namespace {

struct Unsaved {
  Tensor p = Tensor::parameter(0.0);
  int rank = 0;
  Tensor training_step(double) const { return -p; }
  toy::Sgd configure_optimizers() const { return {.params = {p}}; }
  void state(auto& archive) {
    if (rank == 1 && !archive.loading) throw std::runtime_error("no more milk");
    archive("rank", rank);
  }
};

}  // namespace

TEST_CASE("ranks: an exception of one in a file ends the others with its text, also where more files were to come") {
  bool const in_one_request = GENERATE(false, true);
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Unsaved model;
    model.rank = rank.rank();
    auto asks = toy::Influence{[=](std::string_view where, auto& ctx) {
      if (where != "on_train_batch_end") return;
      if (in_one_request)
        return ctx.request_checkpoint(CheckpointRequest(nullptr, [](CheckpointFiles& files) {
          try {
            files.write("one");
          } catch (...) {
            static_cast<void>(files.taken("other"));
            files.write("other");
          }
        }));
      ctx.request_checkpoint("one");
      ctx.request_checkpoint("other");
    }};
    auto trainer = make_trainer<Unsaved>({.max_epochs = 1}, rank, Float32{}, Automatic{}, asks);
    trainer.fit(model, toy::OwnPart<double>{toy::batches(2)});
    return 0;
  });
  CHECK(all[0].error == "[fulgurite.distributed.rank_ended] rank 1 ended: no more milk");
  CHECK(all[1].error == "no more milk");
}

TEST_CASE("ranks: one that leaves, or never comes, is an Error of those that wait") {
  toy::Meeting meeting(2, std::chrono::milliseconds(200));
  auto const late = toy::on_ranks(meeting, [](Rank rank) {
    if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    toy::P model;
    auto trainer = make_trainer<toy::P>({.max_epochs = 1}, rank, Float32{}, Automatic{});
    trainer.fit(model, toy::OwnPart<double>{toy::batches(2)});
    return 0;
  });
  CHECK(late[0].error.find("[toy.ranks] rank 0 waits at ") == 0);
  CHECK(late[1].error != "");
  toy::Meeting left(2);
  auto const gone = toy::on_ranks(left, [&](Rank rank) {
    if (rank.rank() == 1) {
      while (!left.has_waiting()) std::this_thread::yield();
      return 0;
    }
    toy::P model;
    auto trainer = make_trainer<toy::P>({.max_epochs = 1}, rank, Float32{}, Automatic{});
    trainer.fit(model, toy::OwnPart<double>{toy::batches(2)});
    return 0;
  });
  CHECK(gone[0].error.find("[toy.ranks] rank 1 left while others are at ") == 0);
}

namespace {

/// Its data are prepared once a machine, while the other ranks wait.
struct Prepared {
  std::atomic<int>* made;
  std::atomic<bool>* there;
  void prepare_data() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++*made;
    *there = true;
  }
  void setup() const {
    if (!*there) throw std::runtime_error("setup came before the data");
  }
  toy::OwnPart<double> train_dataloader() { return {toy::batches(2)}; }
};

}  // namespace

TEST_CASE("ranks: prepare_data runs on one process of each machine, and setup waits for it") {
  for (int a_machine : {4, 2}) {
    std::atomic<int> made = 0;
    std::atomic<bool> there = false;
    auto const all = toy::on_ranks(4, [&](Rank rank) {
      rank.ranks_a_machine = a_machine;
      toy::P model;
      auto trainer = make_trainer<toy::P>({.max_epochs = 1}, rank, Float32{}, Automatic{});
      Prepared data{&made, &there};
      trainer.fit(model, data);
      return 0;
    });
    for (auto const& one : all) CHECK(one.error == "");
    CHECK(made == 4 / a_machine);
  }
}

TEST_CASE("ranks: validation data without a batch are refused, unless another rank has some") {
  /// `batches`: of each rank. Of a fit, and of an evaluation alone.
  auto const refusals = [](std::vector<int> const& batches) {
    std::vector<std::string> all;
    for (bool const fits : {true, false})
      for (auto const& rank : toy::on_ranks(static_cast<int>(batches.size()), [&](Rank rank) {
             Fragile model;
             auto trainer = make_trainer<Fragile>({.max_epochs = 1}, rank);
             toy::OwnPart<double> train{toy::batches(2)};
             toy::OwnPart<double> val{toy::batches(batches[static_cast<std::size_t>(rank.rank())])};
             if (fits) trainer.fit(model, train, val);
             else trainer.validate(model, val);
             return 0;
           }))
        all.push_back(rank.error.substr(0, rank.error.find(']') + 1));
    return all;
  };
  std::string const empty = "[fulgurite.data.empty]";
  CHECK(refusals({0}) == std::vector<std::string>{empty, empty});
  CHECK(refusals({0, 0}) == std::vector<std::string>{empty, empty, empty, empty});
  CHECK(refusals({1, 0}) == std::vector<std::string>{"", "", "", ""});
}

namespace {

/// Keeps a place, and fails the time that it is told to when it loads one.
struct Place : toy::OwnPart<double> {
  long place = 0;
  int loads = 0, fails_at = 0;
  void state(auto& archive) {
    if (archive.loading && ++loads == fails_at) throw std::runtime_error("no more milk");
    archive("place", place);
  }
};

}  // namespace

TEST_CASE("ranks: a finished run whose own part cannot be loaded leaves loaders and random numbers as they were") {
  auto const fit = [](Rank rank, Place& data, std::optional<CkptPath> const& from) {
    toy::P model;
    auto trainer = make_trainer<toy::P>({.max_epochs = 1}, rank);
    trainer.fit(model, data, NoValidation{}, from);
    trainer.save_checkpoint("end");
    return 0;
  };
  auto const start = [&](int fails_at) {
    return toy::on_ranks(2, [&](Rank rank) {
      Place data{{toy::batches(2)}, fails_at == -1 ? 5 : 0, 0, fails_at};
      toy::world.rng = fails_at == -1 ? 7 : 8;
      std::string said;
      try {
        fit(rank, data, fails_at == -1 ? std::nullopt : std::optional(CkptPath{"end"}));
      } catch (std::runtime_error const& error) { said = error.what(); }
      return std::tuple(said, data.place, toy::world.rng == 8);
    });
  };
  for (auto const& rank : start(-1)) REQUIRE(rank.result == std::tuple("", 5, false));
  // The file is tried out and undone before it is loaded, and then comes the rank's own part.
  for (auto const& rank : start(4)) CHECK(rank.result == std::tuple("no more milk", 0, true));
  for (auto const& rank : start(0)) CHECK(rank.result == std::tuple("", 5, false));
}
