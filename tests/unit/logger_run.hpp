#pragma once
// Fits whose loggers are looked at: below a folder, killed in the middle, and gone on with.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include <fulgurite/callback/model_checkpoint.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

// In a namespace, since other tests of the same program may use the same words.
namespace logged {

inline fulgurite::TrainerOptions below(std::filesystem::path const& folder, int epochs = 3) {
  auto options = probe::quick(epochs);
  options.default_root_dir = folder;
  return options;
}
/// Kills the process in a batch, and asks for a row with a column of its own before that.
struct Kills {
  using Stateless = fulgurite::ByChoice;
  long at = -1;
  void on_train_start(auto& ctx) {
    fulgurite::Scalar const row[] = {{"began", 1}};
    ctx.log_scalars(row);
  }
  void on_train_batch_start(auto& ctx) {
    if (at < 0 || ctx.global_step() < at - 1) return;
    fulgurite::Scalar const row[] = {{"late", 1}};
    if (ctx.global_step() == at) ::kill(::getpid(), SIGKILL);
    if (at % 2 != 0) ctx.log_scalars(row);  // after the last file
  }
};
/// A row at the start of each batch.
struct PostsEach {
  using Stateless = fulgurite::ByChoice;
  void on_train_batch_start(auto& ctx) {
    fulgurite::Scalar const row[] = {{"posted", static_cast<double>(ctx.batch_idx())}};
    ctx.log_scalars(row);
  }
};
inline fulgurite::ModelCheckpoint<> every_second() {
  return fulgurite::ModelCheckpoint{{.save_top_k = -1, .every_n_train_steps = 2}};
}
inline fulgurite::ModelCheckpoint<> keeps_last() { return fulgurite::ModelCheckpoint{{.save_last = true}}; }

template <class Model = probe::Scripted, class... Cs>
auto trainer_of(fulgurite::TrainerOptions options, Cs... callbacks) {
  return fulgurite::make_trainer<Model>(std::move(options), probe::SavingDevice{}, fulgurite::Float32{},
                                        fulgurite::Automatic{}, std::move(callbacks)...);
}
/// A whole fit of four batches an epoch, or one that goes on. What it says.
template <class Model, class... Cs>
std::string fit(Model& model, fulgurite::TrainerOptions options, std::optional<fulgurite::CkptPath> from,
                Cs... callbacks) {
  return probe::said([&] {
    auto trainer = trainer_of<Model>(std::move(options), std::move(callbacks)...);
    trainer.fit(model, toy::batches(4), toy::batches(1), from);
  });
}
/// The same in a process that is killed at the start of the batch after so many steps.
template <class Model = probe::Scripted, class... Cs>
void killed_after(long steps, fulgurite::TrainerOptions const& options, Cs... callbacks) {
  auto const child = ::fork();
  if (child == 0) {
    Model model;
    model.script = {3, 2, 1};
    fit(model, options, {}, Kills{steps}, std::move(callbacks)...);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
}

/// A run whose part of an epoch ends with max_steps, and which then goes on without, leaves what `content(folder)`
/// reads of an unbroken one.
template <class Model, class MakeLogger, class Content>
void leaves_the_unbroken_one_where_cut(MakeLogger logger, Content content) {
  auto const run = [&](probe::Folder const& in, std::optional<long> most,
                       std::optional<fulgurite::CkptPath> const& from = {}) {
    auto options = below(in.path);
    options.max_steps = most;
    Model model;
    model.script = {3, 2, 1};
    fit(model, options, from, logger(), keeps_last());
    return content(in);
  };
  probe::Folder const other;
  auto const whole = run(other, {});
  for (long const most : {1, 2, 6, 11}) {
    CAPTURE(most);
    probe::Folder const folder;
    CHECK(run(folder, most) != whole);
    CHECK(run(folder, {}, fulgurite::CkptPath{"last"}) == whole);
  }
}

}  // namespace logged
