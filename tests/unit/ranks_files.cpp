// Checkpoints of several ranks: all of them take part, rank 0 writes, every rank goes on from the file.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/loader.hpp>

#include "checkpoint_folder.hpp"
#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace {

using Rows = std::vector<double>;

/// Draws random numbers of its rank in each step; logs the mean of what it saw.
struct Noisy {
  static constexpr Metric<"seen"> seen{.on_epoch = Report::yes};
  using Metrics = MetricList<seen>;
  Tensor p = Tensor::parameter(0.25);
  std::vector<double> weights = {};
  Tensor training_step(Rows const& rows, auto& ctx) {
    double sum = 0;
    for (double const x : rows) sum += x;
    double const noise = toy::draw();
    ctx.log(seen, sum + noise);
    return p * Tensor(sum * noise);
  }
  void on_train_batch_end() { weights.push_back(p.value()); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.01, .momentum = 0.5}; }
};

auto loader() {
  std::vector<double> numbers;
  for (int i = 0; i != 24; ++i) numbers.push_back(i + 1);
  return data::Loader{numbers, data::LoaderOptions{.batch_size = 2, .shuffle = true, .seed = 7}};
}

/// Asks for a file after that batch of that epoch, or at the end of each epoch: the last one stays.
struct Asks {
  using Stateless = ByChoice;
  toy::At at = {-1, -1};
  bool each_epoch = false;
  void on_train_batch_end(auto& ctx) const {
    if (toy::Positions::here(ctx) == at) ctx.request_checkpoint("here");
  }
  void on_train_epoch_end(auto& ctx) const {
    if (each_epoch) ctx.request_checkpoint("here");
  }
};

struct Ran {
  std::vector<double> weights;
  std::optional<double> seen;
  std::size_t saved;
  std::uint64_t random;
};
using From = std::optional<CkptPath>;
template <class C = Asks>
Ran ran(Rank rank, int epochs, From const& from, Automatic how, C callback = {}) {
  if (!from) toy::world.rng = 100 + static_cast<std::uint64_t>(rank.rank());
  toy::world.saved.clear();
  Noisy model;
  auto trainer = make_trainer<Noisy>({.max_epochs = epochs}, rank, Float32{}, how, std::move(callback));
  auto train = loader();
  trainer.fit(model, train, from);
  return {model.weights, trainer.value(Noisy::seen), toy::world.saved.size(), toy::world.rng};
}
template <class Result>
void require_fine(std::vector<toy::RankResult<Result>> const& ranks) {
  for (auto const& one : ranks) REQUIRE(one.error == "");
}

}  // namespace

TEST_CASE("ranks: a run that goes on from a file has the bits of the unbroken one, on each rank; rank 0 alone writes") {
  for (int k : {1, 2})
    for (auto const& [epoch, batch] : std::vector<std::pair<int, long>>{{0, 1}, {0, 3}, {1, 3}, {0, 5}}) {
      CAPTURE(k, epoch, batch);
      Automatic const how{.accumulate_grad_batches = k};
      auto const whole =
          toy::on_ranks(2, [&](Rank rank) { return ran(rank, 3, std::nullopt, how, Asks{{epoch, batch}}); });
      require_fine(whole);
      CHECK(whole[0].result->saved == 1);
      CHECK(whole[1].result->saved == 0);
      auto const after = toy::on_ranks(2, [&](Rank rank) {
        toy::world.rng = 1;
        return ran(rank, 3, CkptPath{"here"}, how, Asks{});
      });
      require_fine(after);
      for (std::size_t r : {0U, 1U}) {
        auto const& all = whole[r].result->weights;
        auto const& rest = after[r].result->weights;
        REQUIRE(rest.size() < all.size());
        CHECK(std::vector(all.end() - static_cast<std::ptrdiff_t>(rest.size()), all.end()) == rest);
        CHECK(rest.size() == 18 - static_cast<std::size_t>(epoch * 6 + batch + 1));
        CHECK(after[r].result->seen == whole[r].result->seen);
        CHECK(after[r].result->random == whole[r].result->random);
      }
      CHECK(whole[0].result->random != whole[1].result->random);
    }
}

namespace {

/// By hand: two batches make a step, before which the ranks do not exchange the gradients of the first one.
struct ByHand {
  Tensor p = Tensor::parameter(0.25);
  std::vector<double> weights = {};
  void training_step(Rows const& rows, auto& ctx) {
    auto& [one] = ctx.optimizers();
    bool const opens = ctx.batch_idx() % 2 == 0;
    if (opens) one.zero_grad();
    auto const scope = ctx.toggle(one, {.sync_grad = !opens});
    ctx.backward(p * Tensor(rows.front()));
    if (!opens) ctx.step(one);
  }
  void on_train_batch_end() { weights.push_back(p.value()); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.01}; }
};

}  // namespace

TEST_CASE("ranks: by hand, each rank goes on with its own gradients, where they were not exchanged before the file") {
  auto const run = [](long file_after, From const& from) {
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      ByHand model;
      auto trainer =
          make_trainer<ByHand>({.max_epochs = 1}, rank, Float32{}, Manual{}, Asks{{0, from ? -1 : file_after}});
      auto train = loader();
      trainer.fit(model, train, from);
      return model.weights;
    });
    require_fine(all);
    CHECK(all[0].result == all[1].result);
    return *all[0].result;
  };
  for (long const after : {0, 2, 3}) {
    CAPTURE(after);
    auto const whole = run(after, std::nullopt), rest = run(after, CkptPath{"here"});
    CHECK(rest == std::vector(whole.begin() + after + 1, whole.end()));
  }
}

namespace {
thread_local double seconds = 0;  ///< on the clock of this rank
TrainerOptions::Clock::time_point ticking() {
  return TrainerOptions::Clock::time_point{} + std::chrono::milliseconds(static_cast<long>(seconds * 1000));
}
/// From a file or from its beginning, until a limit; the second clock is `ahead`.
Ran limited(Rank rank, TrainerOptions options, From const& from, double ahead) {
  if (!from) toy::world.rng = 100 + static_cast<std::uint64_t>(rank.rank());
  seconds = 0;
  options.max_epochs = 3;
  options.now = &ticking;
  Noisy model;
  auto trainer = make_trainer<Noisy>(options, rank, Float32{}, Automatic{.accumulate_grad_batches = 2},
                                     toy::Influence{[&](std::string_view where, auto& ctx) {
                                       if (where == "on_train_start") seconds = rank.rank() == 1 ? ahead : 0;
                                       if (where == "on_train_batch_end") ++seconds;
                                       if (where == "on_train_epoch_end") ctx.request_checkpoint("end of epoch");
                                     }});
  auto train = loader();
  trainer.fit(model, train, from);
  trainer.save_checkpoint("end of fit");
  return {model.weights, trainer.value(Noisy::seen), 0, toy::world.rng};
}
}  // namespace

TEST_CASE("ranks: where a limit has cut an epoch short, all go on inside it once it is raised, from each file") {
  auto const whole = toy::on_ranks(2, [](Rank rank) { return limited(rank, {}, std::nullopt, 0); });
  require_fine(whole);
  for (double const ahead : {0.0, 0.5, 1.0})
    for (int const most : {1, 2, 4, 7}) {
      TrainerOptions steps, time;
      steps.max_steps = most;
      time.max_time = std::chrono::seconds(2 * most);  // a step takes two
      for (auto const& limit : {steps, time})
        for (auto const& [file, starts] :
             {std::pair("end of epoch", 1), std::pair("end of fit", 1), std::pair("end of fit", 2)}) {
          CAPTURE(ahead, most, file, starts, limit.max_steps.has_value());
          require_fine(toy::on_ranks(2, [&](Rank rank) { return limited(rank, limit, std::nullopt, ahead); }));
          if (starts == 2)  // trains nothing, and writes the file again
            require_fine(toy::on_ranks(2, [&](Rank rank) { return limited(rank, limit, CkptPath{file}, ahead); }));
          auto const rest = toy::on_ranks(2, [&](Rank rank) { return limited(rank, {}, CkptPath{file}, 0); });
          require_fine(rest);
          for (std::size_t r : {0U, 1U}) {
            CHECK(rest[r].result->weights.back() == whole[r].result->weights.back());
            CHECK(rest[r].result->seen == whole[r].result->seen);
            CHECK(rest[r].result->random == whole[r].result->random);
          }
        }
    }
}

TEST_CASE("ranks: between epochs another number of ranks goes on, each with its share of the same order") {
  auto const two =
      toy::on_ranks(2, [&](Rank rank) { return ran(rank, 2, std::nullopt, Automatic{}, Asks{.each_epoch = true}); });
  require_fine(two);
  auto const three = toy::on_ranks(3, [&](Rank rank) { return ran(rank, 3, CkptPath{"here"}, Automatic{}); });
  require_fine(three);
  CHECK(three[0].result->weights.size() == 4);
  for (auto const& rank : three) CHECK(rank.result->weights == three[0].result->weights);
}

TEST_CASE("ranks: inside an epoch another number of ranks is an Error before training, on all of them") {
  for (int const before : {1, 2, 3})
    for (int const after : {1, 2, 3}) {
      CAPTURE(before, after);
      require_fine(
          toy::on_ranks(before, [&](Rank rank) { return ran(rank, 1, std::nullopt, Automatic{}, Asks{{0, 1}}); }));
      auto const then = toy::on_ranks(after, [&](Rank rank) { return ran(rank, 1, CkptPath{"here"}, Automatic{}); });
      if (before == after) require_fine(then);
      else
        for (auto const& rank : then)
          CHECK(rank.error.find("[fulgurite.resume.ranks] the run stopped after 2 batches of an epoch that " +
                                std::to_string(before) + (before == 1 ? " process" : " processes") +
                                " shared, and there " + (after == 1 ? "is " : "are ") + std::to_string(after) +
                                " now: resume with as many, or from a checkpoint written between epochs") !=
                rank.error.npos);
    }
}

TEST_CASE("ranks: what rank 0 cannot write is an Error of all of them") {
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    toy::world.disk_full = true;
    return ran(rank, 1, std::nullopt, Automatic{}, Asks{{0, 1}});
  });
  toy::world.disk_full = false;
  for (auto const& rank : all)
    CHECK(rank.error == "[fulgurite.distributed.file] rank 0 could not write here: no space left on device");
}

namespace {

/// A rank that keeps a part of what optimizers keep; what it is asked for, in order.
struct Sharing : Rank {
  static constexpr bool shards_state = true;
  using Asked = std::vector<std::string>;
  Asked* asked;

  Sharing(Rank const& rank, Asked& to) : Rank(rank), asked(&to) {}
  void share_state(auto& optimizers) {
    asked->push_back("share after " + std::to_string(std::get<0>(optimizers).steps));
    barrier("share");
  }
  auto whole_state(auto&) {
    barrier("whole");
    asked->push_back("whole");
    auto const apart = [](Asked* to) { to->push_back("apart"); };
    return std::unique_ptr<Asked, decltype(apart)>(asked, apart);
  }
};
struct PartingSgd : toy::Sgd {
  static constexpr bool state_in_parts = true;
};
/// Fails in the second epoch, and asks for a file then.
struct EndsBadly {
  using Stateless = ByChoice;
  bool fails;
  void on_train_batch_end(auto& ctx) const {
    if (fails && ctx.current_epoch() == 1) throw std::runtime_error("the third disk is full");
  }
  void on_exception(auto& ctx) const { ctx.request_checkpoint("of the end"); }
};
struct InParts : Noisy {
  PartingSgd configure_optimizers() { return {{.params = {p}, .rate = 0.01, .momentum = 0.5}}; }
};

}  // namespace

TEST_CASE("ranks: what optimizers keep is shared out before the first step, and gathered for each file of it") {
  probe::Folder const folder;
  for (bool const fails : {false, true}) {
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      Sharing::Asked asked;
      InParts model;
      auto trainer = make_trainer<InParts>(
          {.max_epochs = 2, .default_root_dir = folder.path}, Sharing(rank, asked), Float32{}, Automatic{},
          Asks{.each_epoch = true}, ModelCheckpoint{{.save_weights_only = true}}, EndsBadly{fails && rank.rank() == 1});
      auto train = loader();
      try {
        trainer.fit(model, train);
      } catch (std::exception const& error) { asked.push_back(error.what()); }
      for (auto const& warning : trainer.warnings()) asked.push_back(warning);
      return asked;
    });
    require_fine(all);
    for (auto const& rank : all) {
      REQUIRE(rank.result->size() >= 3);
      CHECK(std::vector(rank.result->begin(), rank.result->begin() + 3) ==
            Sharing::Asked{"share after 0", "whole", "apart"});
    }
    if (!fails) {
      CHECK(*all[0].result == Sharing::Asked{"share after 0", "whole", "apart", "whole", "apart"});
      CHECK(*all[1].result == *all[0].result);
    } else {
      for (auto const& line : *all[0].result) UNSCOPED_INFO(line);
      CHECK(std::ranges::count(*all[0].result, "whole") == 1);
      CHECK(std::ranges::any_of(*all[0].result, [](std::string const& line) {
        return line.find("[fulgurite.distributed.state_in_parts]") != std::string::npos;
      }));
    }
  }
}

TEST_CASE("ranks: one folder, and the same files by name in each of them") {
  probe::Folder const folder;
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Noisy model;
    auto trainer = make_trainer<Noisy>({.max_epochs = 3, .default_root_dir = folder.path}, rank, Float32{}, Automatic{},
                                       ModelCheckpoint{Noisy::seen, {.save_top_k = 2, .save_last = true}});
    auto train = loader();
    trainer.fit(model, train);
    auto const& files = trainer.callback<ModelCheckpoint>();
    std::string names =
        files.dirpath().string() + " " + files.best_model_path().string() + " " + files.last_model_path().string();
    for (auto const& file : files.best_k_models()) names += " " + file.string();
    return names;
  });
  require_fine(all);
  CHECK(all[0].result == all[1].result);
}

TEST_CASE("ranks: a file is named by the values of all ranks, and has one name on each of them") {
  probe::Folder const folder;
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Noisy model;
    using Files = ModelCheckpoint<Last<Metric<"seen">>>;
    auto trainer = make_trainer<Noisy>(
        {.max_epochs = 2}, rank, Float32{}, Automatic{},
        Files(Noisy::seen.last(),
              {.dirpath = folder.path, .filename = "{step}-{seen}", .save_top_k = -1, .every_n_train_steps = 2}));
    auto train = loader();
    trainer.fit(model, train);
    auto const& files = trainer.template callback<Files>();
    std::string names;
    for (std::size_t i = 0; i != files.best_k_models().size(); ++i) {
      auto const name = files.best_k_models()[i].stem().string();
      auto const right = "step=" + std::to_string(2 * (i + 1)) + "-seen=" + exact_number(files.best_k_scores()[i]);
      names += " " + name + (name == right ? "" : ", not " + right);
    }
    return names;
  });
  require_fine(all);
  CHECK(all[0].result == all[1].result);
  CHECK(all[0].result->find("not") == std::string::npos);  // checked here, since Catch2 checks in one thread alone
}

namespace {

/// Files on the disk; another run takes a name while rank 0 writes a file: first the one, second the other.
thread_local std::pair<std::string, std::string> taken_with;
struct RacedBackend : toy::Backend {
  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model& model, State&& state,
                   std::span<Hyperparameter const> all) {
    if (path.filename() == taken_with.first)
      write_durably(path.parent_path() / std::exchange(taken_with, {}).second, "another's");
    toy::Backend::save(path, model, state, all);
    write_durably(path, "ours");
  }
};
struct RacedRank : Rank {
  using Backend = RacedBackend;
  RacedRank(Rank const& rank) : Rank(rank) {}
};

}  // namespace

TEST_CASE("ranks: a name that another run takes while rank 0 writes is left to it, and all of them know the next one") {
  std::string const ranked = "epoch=0-step=6.safetensors", last = "last.safetensors";
  for (auto const& [writes, taken, how] : {std::tuple(ranked, ranked, SaveLast::copy),
                                           {last, last, SaveLast::copy},
                                           {ranked, ranked, SaveLast::link},
                                           {ranked, last, SaveLast::link}}) {
    CAPTURE(writes, taken, how);
    probe::Folder const folder;
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      Noisy model;
      if (rank.rank() == 0) taken_with = {writes, taken};
      auto trainer = make_trainer<Noisy>({.max_epochs = 2}, RacedRank(rank), Float32{}, Automatic{},
                                         ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1, .save_last = how}});
      auto train = loader();
      trainer.fit(model, train);
      auto const& files = trainer.template callback<ModelCheckpoint>();
      auto names = files.last_model_path().filename().string();
      for (auto const& file : files.best_k_models()) names += " " + file.filename().string();
      return names;
    });
    require_fine(all);
    CHECK(all[0].result == all[1].result);
    CHECK(std::filesystem::exists(folder / "epoch=0-step=6-v1.safetensors") == (taken == ranked));
    CHECK(std::filesystem::exists(folder / "last-v1.safetensors") == (taken == last));
    CHECK(all[0].result->starts_with("last-v1") == (taken == last));
  }
}

TEST_CASE("ranks: a link called last that a run before has not made is made by rank 0, with the files of all") {
  std::string const file = "epoch=0-step=6.safetensors", last = "last.safetensors";
  for (auto const how : {SaveLast::link, SaveLast::copy}) {
    probe::Folder const folder;
    auto const fit = [&](From const& from) {
      auto const all = toy::on_ranks(2, [&](Rank rank) {
        Noisy model;
        auto trainer = make_trainer<Noisy>({.max_epochs = 1}, RacedRank(rank), Float32{}, Automatic{},
                                           ModelCheckpoint{{.dirpath = folder.path, .save_last = how}});
        auto train = loader();
        trainer.fit(model, train, from);
        return trainer.template callback<ModelCheckpoint>().last_model_path();
      });
      require_fine(all);
      for (auto const& rank : all) CHECK(rank.result == folder / last);
      CHECK(folder.files() == std::set{file, last});
    };
    fit(std::nullopt);
    std::filesystem::remove(folder / last);
    fit(CkptPath{folder / file});
    CHECK(std::filesystem::is_symlink(folder / last) == (how == SaveLast::link));
  }
}

TEST_CASE("ranks: a file that the program has named stays, and the rest is done by all, though only rank 0 keeps it") {
  for (auto const last : {SaveLast::no, SaveLast::link, SaveLast::copy}) {
    CAPTURE(last);
    probe::Folder const folder;
    auto const fit = [&](int epochs, From const& from) {
      require_fine(toy::on_ranks(2, [&](Rank rank) {
        Noisy model;
        auto trainer = make_trainer<Noisy>({.max_epochs = epochs}, RacedRank(rank), Float32{}, Automatic{},
                                           ModelCheckpoint{{.dirpath = folder.path, .save_last = last}});
        auto train = loader();
        trainer.fit(model, train, from);
        return 0;
      }));
    };
    std::string const first = "epoch=0-step=6.safetensors", second = "epoch=1-step=12.safetensors";
    fit(1, std::nullopt);
    fit(2, CkptPath{folder / first});
    CHECK(std::filesystem::exists(folder / first));
    CHECK(std::filesystem::exists(folder / second));
  }
}

namespace {

/// A signal that comes to one rank, as Signals hears it.
struct Ends {
  using Stateless = ByChoice;
  int rank;
  long batch;
  std::vector<long>* ended_at;
  void on_train_batch_end(auto& ctx) const {
    int const signal = ctx.signal_of_all(ctx.rank() == rank && ctx.batch_idx() >= batch ? 15 : 0);
    if (signal == 0) return;
    ended_at->push_back(ctx.batch_idx());
    ctx.request_checkpoint({this, [signal](CheckpointFiles&) { throw Interrupted(signal); }});
  }
  void on_exception(auto& ctx) const { ctx.request_checkpoint("interrupted"); }
};

}  // namespace

TEST_CASE("ranks: a signal that comes to one ends all after the same batch, with a file from which they go on") {
  auto const whole = toy::on_ranks(2, [&](Rank rank) { return ran(rank, 2, std::nullopt, Automatic{}); });
  require_fine(whole);
  std::vector<std::vector<long>> ended_at(2);
  auto const cut = toy::on_ranks(2, [&](Rank rank) {
    return ran(rank, 2, std::nullopt, Automatic{}, Ends{1, 2, &ended_at[static_cast<std::size_t>(rank.rank())]});
  });
  for (auto const& rank : cut) CHECK(rank.error.find("[fulgurite.run.interrupted]") == 0);
  CHECK(ended_at == std::vector<std::vector<long>>{{3}, {3}});
  auto const rest = toy::on_ranks(2, [&](Rank rank) { return ran(rank, 2, CkptPath{"interrupted"}, Automatic{}); });
  require_fine(rest);
  for (std::size_t r : {0U, 1U}) {
    CHECK(rest[r].result->weights.size() == 8);
    CHECK(rest[r].result->weights.back() == whole[r].result->weights.back());
    CHECK(rest[r].result->random == whole[r].result->random);
  }
}

TEST_CASE("ranks: averages of weights are equal on all of them") {
  auto const averaged = [](auto... make) {
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      Noisy model;
      toy::world.rng = 100 + static_cast<std::uint64_t>(rank.rank());
      auto trainer = make_trainer<Noisy>({.max_epochs = 4}, rank, Float32{}, Automatic{}, make()...);
      auto train = loader();
      trainer.fit(model, train);
      return model.p.value();
    });
    require_fine(all);
    CHECK(all[0].result == all[1].result);
  };
  averaged([] { return StochasticWeightAveraging{{.swa_lrs = 0.05}}; });
  averaged([] { return EMAWeightAveraging{{.decay = 0.5}}; });
}

namespace {

/// The system asks one rank for its end, in the middle of a pass for statistics.
struct EndsInPass {
  using Stateless = ByChoice;
  bool ends, passes = false;
  void on_train_epoch_end(auto& ctx) const { ctx.request_statistics_pass(); }
  void before_statistics_pass(auto&) { passes = ends; }
  void on_train_end() { passes = false; }
  void end_if_asked() const {
    if (passes) throw Interrupted(15);
  }
};
/// Combines what ranks have seen in that pass, which here is a number.
struct Shares : Rank {
  using Rank::Rank;
  Shares(Rank rank) : Rank(rank) {}
  void share_statistics(Noisy& model) const { model.weights.push_back(reduce(double(rank()), Reduce::sum)); }
};

}  // namespace

TEST_CASE("ranks: none ends alone inside of the pass for statistics, after which they combine what each has found") {
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Noisy model;
    auto trainer =
        make_trainer<Noisy>({.max_epochs = 1}, Shares(rank), Float32{}, Automatic{}, EndsInPass{rank.rank() == 1});
    auto train = loader();
    trainer.fit(model, train);
    return model.weights;
  });
  require_fine(all);
  CHECK(all[0].result->back() == 1);
  CHECK(all[1].result->back() == 1);
}
