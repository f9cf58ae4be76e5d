// What a context says of its place, hook by hook: the same in every epoch, and in a fit that resumes.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "callback_stderr.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace facts {

using Rows = std::vector<double>;
using Lines = std::vector<std::string>;

Lines lines;
template <class Ctx>
void note(std::string const& hook, Ctx& ctx) {
  if (ctx.sanity_checking()) return;
  auto const number = [](auto const& n) { return n ? std::to_string(*n) : std::string("-"); };
  auto line = hook;
  line.resize(std::max<std::size_t>(26, line.size() + 1), ' ');
  line += "epoch " + std::to_string(ctx.current_epoch()) + " step " + std::to_string(ctx.global_step()) + " batch " +
          std::to_string(ctx.batch_idx()) + " of " + number(ctx.num_training_batches()) + "/" +
          number(ctx.num_eval_batches()) + " size " + std::to_string(ctx.batch_size());
  if (ctx.is_last_batch()) line += " last";
  if (ctx.accumulating()) line += " accumulating";
  lines.push_back(line);
}

struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  Rows on_before_batch_transfer(Rows batch, auto& ctx) {
    note("on_before_batch_transfer", ctx);
    return batch;
  }
  toy::Tensor training_step(Rows const& batch, auto& ctx) {
    note("training_step", ctx);
    return p * toy::Tensor(batch.front());
  }
  void validation_step(Rows const&, auto& ctx) { note("validation_step", ctx); }
  void test_step(Rows const&, auto& ctx) { note("test_step", ctx); }
  double predict_step(Rows const&, auto& ctx) {
    note("predict_step", ctx);
    return 0;
  }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};

/// Notes each event; asks for a file at each event of training.
struct Notes {
  using Stateless = ByChoice;
  bool saves = false;
  void on_fit_start(auto& ctx) { note("on_fit_start", ctx); }
  void on_train_start(auto& ctx) {
    note("on_train_start", ctx);
    if (!saves) toy::world.restored = [] { lines.clear(), toy::world.restored = nullptr; };
  }
  void on_train_epoch_start(auto& ctx) { here("on_train_epoch_start", ctx); }
  void on_train_batch_start(auto& ctx) { here("on_train_batch_start", ctx); }
  void on_before_zero_grad(auto&, auto& ctx) { note("on_before_zero_grad", ctx); }
  void on_before_optimizer_step(auto&, auto& ctx) { note("on_before_optimizer_step", ctx); }
  void on_train_batch_end(auto& ctx) { here("on_train_batch_end", ctx); }
  void on_validation_start(auto& ctx) { note("on_validation_start", ctx); }
  void on_validation_batch_start(auto& ctx) { note("on_validation_batch_start", ctx); }
  void on_validation_batch_end(auto& ctx) { note("on_validation_batch_end", ctx); }
  void on_validation_end(auto& ctx) { here("on_validation_end", ctx); }
  void on_train_epoch_end(auto& ctx) { here("on_train_epoch_end", ctx); }
  void on_train_end(auto& ctx) { note("on_train_end", ctx); }
  void on_test_start(auto& ctx) { note("on_test_start", ctx); }
  void on_predict_start(auto& ctx) { note("on_predict_start", ctx); }

 private:
  void here(std::string const& hook, auto& ctx) {
    note(hook, ctx);
    if (!saves || ctx.sanity_checking()) return;
    ctx.request_checkpoint({this, [](CheckpointFiles& to) {
                              auto const file = std::to_string(files().size());
                              to.write(file);
                              files().emplace_back(file, lines.size());
                            }});
  }

 public:
  /// The files, and how many lines there were when each was written.
  static std::vector<std::pair<std::string, std::size_t>>& files() {
    static std::vector<std::pair<std::string, std::size_t>> all;
    return all;
  }
};

std::vector<Rows> batches(std::size_t n, std::size_t rows) { return std::vector<Rows>(n, Rows(rows, 1)); }

Lines fitted(bool saves, auto... from) {
  lines.clear();
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 3, .val_check_interval = 2, .num_sanity_val_steps = 1},
                                 Automatic{.accumulate_grad_batches = 2}, Notes{saves});
  trainer.fit(net, batches(3, 4), batches(1, 5), from...);
  toy::world.restored = nullptr;
  return lines;
}

/// Those of one epoch, with `epoch` in place of its number and steps counted from its beginning.
Lines of_epoch(Lines const& all, int epoch) {
  auto const begins = [](std::string const& line) { return line.starts_with("on_train_epoch_start"); };
  auto from = all.begin();
  for (int i = 0; i <= epoch; ++i) from = std::find_if(i == 0 ? from : from + 1, all.end(), begins);
  auto to = std::find_if(from + 1, all.end(),
                         [&](auto const& line) { return begins(line) || line.starts_with("on_train_end"); });
  Lines some(from, to);
  for (auto& line : some) {
    line.replace(line.find("epoch " + std::to_string(epoch)), 7, "epoch e");
    auto const at = line.find("step ", line.find("epoch e")) + 5;
    line.replace(at, line.find(' ', at) - at, std::to_string(std::stol(line.substr(at)) - 2 * epoch));
  }
  return some;
}

}  // namespace facts

TEST_CASE("facts of a context: a table of an epoch, the same in the first and in later ones") {
  auto const all = facts::fitted(false);
  auto const first = facts::of_epoch(all, 0);
  std::string table;
  for (auto const& line : first) table += line + "\n";
  CHECK(table == "on_train_epoch_start      epoch e step 0 batch 0 of 3/- size 0\n"
                 "on_before_batch_transfer  epoch e step 0 batch 0 of 3/- size 0 accumulating\n"
                 "on_train_batch_start      epoch e step 0 batch 0 of 3/- size 4 accumulating\n"
                 "training_step             epoch e step 0 batch 0 of 3/- size 4 accumulating\n"
                 "on_before_zero_grad       epoch e step 0 batch 0 of 3/- size 4 accumulating\n"
                 "on_train_batch_end        epoch e step 0 batch 0 of 3/- size 4 accumulating\n"
                 "on_before_batch_transfer  epoch e step 0 batch 1 of 3/- size 0\n"
                 "on_train_batch_start      epoch e step 0 batch 1 of 3/- size 4\n"
                 "training_step             epoch e step 0 batch 1 of 3/- size 4\n"
                 "on_before_optimizer_step  epoch e step 0 batch 1 of 3/- size 4\n"
                 "on_train_batch_end        epoch e step 1 batch 1 of 3/- size 4\n"
                 "on_validation_start       epoch e step 1 batch 1 of 3/- size 0\n"
                 "on_before_batch_transfer  epoch e step 1 batch 0 of 3/1 size 0 last\n"
                 "on_validation_batch_start epoch e step 1 batch 0 of 3/1 size 5 last\n"
                 "validation_step           epoch e step 1 batch 0 of 3/1 size 5 last\n"
                 "on_validation_batch_end   epoch e step 1 batch 0 of 3/1 size 5 last\n"
                 "on_validation_end         epoch e step 1 batch 0 of 3/1 size 0 last\n"
                 "on_before_batch_transfer  epoch e step 1 batch 2 of 3/- size 0 last\n"
                 "on_train_batch_start      epoch e step 1 batch 2 of 3/- size 4 last\n"
                 "training_step             epoch e step 1 batch 2 of 3/- size 4 last\n"
                 "on_before_zero_grad       epoch e step 1 batch 2 of 3/- size 4 last\n"
                 "on_before_optimizer_step  epoch e step 1 batch 2 of 3/- size 4 last\n"
                 "on_train_batch_end        epoch e step 2 batch 2 of 3/- size 4 last\n"
                 "on_train_epoch_end        epoch e step 2 batch 2 of 3/- size 0 last\n");
  CHECK(facts::of_epoch(all, 1) == first);
  CHECK(facts::of_epoch(all, 2) == first);
}

TEST_CASE("facts of a context: a fit that resumes says of each hook what the unbroken one says") {
  said([] {
    toy::world.files.clear();
    facts::Notes::files().clear();
    auto const whole = facts::fitted(true);
    auto const files = facts::Notes::files();
    CHECK(files.size() >= 20);
    for (auto const& [file, before] : files) {
      CAPTURE(file, whole[before - 1]);
      CHECK(facts::fitted(false, CkptPath{file}) ==
            facts::Lines(whole.begin() + static_cast<std::ptrdiff_t>(before), whole.end()));
    }
  });
}

TEST_CASE("facts of a context: an evaluation after a fit begins without those of the fit") {
  facts::Net net;
  auto trainer = toy::train<facts::Net>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{}, facts::Notes{});
  trainer.fit(net, facts::batches(3, 4), facts::batches(1, 5));
  facts::lines.clear();
  trainer.test(net, facts::batches(1, 6));
  trainer.predict(net, facts::batches(1, 7));
  std::string table;
  for (auto const& line : facts::lines) table += line + "\n";
  CHECK(table == "on_test_start             epoch 1 step 3 batch 0 of -/- size 0\n"
                 "on_before_batch_transfer  epoch 1 step 3 batch 0 of -/1 size 0 last\n"
                 "test_step                 epoch 1 step 3 batch 0 of -/1 size 6 last\n"
                 "on_predict_start          epoch 1 step 3 batch 0 of -/- size 0\n"
                 "on_before_batch_transfer  epoch 1 step 3 batch 0 of -/1 size 0 last\n"
                 "predict_step              epoch 1 step 3 batch 0 of -/1 size 7 last\n");
}
