#pragma once
// A step as it is handed to a strategy that replays steps. It can be run, asked which answers of its context it depends
// on, and run once more as an earlier step.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/estimate.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/loop/wrong_replay.hpp>

namespace fulgurite::loop {

/// The answer of a context, as it would be now; what is not there is -1.
template <class R>
std::int64_t answer(State<R>& run, Question question) {
  using enum Question;
  switch (question) {
  case global_step: return run.progress.global_step;
  case skipped_steps: return run.progress.skipped_steps;
  case logged_steps: return run.progress.logged_steps;
  case current_epoch: return run.progress.epoch;
  case batch_idx: return run.facts.batch_idx;
  case batch_size: return run.facts.batch_size;
  case is_last_batch: return run.facts.is_last_batch;
  case accumulating: return run.facts.accumulating;
  case stop_requested: return stop_wished(run);
  case accumulate_grad_batches: return run.asked.window_length;
  case num_training_batches: return run.facts.train_batches.value_or(-1);
  case estimated_steps: return loop::estimated_steps(run).value_or(-1);  // may ask the loader for its size
  default: return 0;
  }
}

/// Sets such an answer, for a step that is run once more as an earlier one. Sizes of the run cannot be set.
template <class R>
void set_answer(State<R>& run, Question question, std::int64_t to) {
  using enum Question;
  switch (question) {
  case global_step: run.progress.global_step = to; return;
  case skipped_steps: run.progress.skipped_steps = to; return;
  case logged_steps: run.progress.logged_steps = to; return;
  case current_epoch: run.progress.epoch = static_cast<int>(to); return;
  case batch_idx: run.facts.batch_idx = to; return;
  case batch_size: run.facts.batch_size = to; return;
  case is_last_batch: run.facts.is_last_batch = to != 0; return;
  case accumulating: run.facts.accumulating = to != 0; return;
  case stop_requested: run.due.stop = {.holds = to != 0}; return;
  case accumulate_grad_batches: run.asked.window_length = static_cast<int>(to); return;
  default: return;
  }
}

/// `body(batch, key)`: training_step, clearing, backward.
template <class R, class Body>
class StepSeam {
 public:
  StepSeam(State<R>& run, StepKey key, Body& body) : run_(run), key_(key), body_(body) {}

  template <class Batch>
  auto operator()(Batch& batch) {
    return body_(batch, key_);
  }

  int epoch() const { return run_.progress.epoch; }
  /// No other batch follows in this epoch.
  bool is_last() const { return run_.facts.is_last_batch; }

  /// What the context was asked since the last `forget_questions`.
  Questions const& questions() const { return run_.watch.questions; }
  void forget_questions() { run_.watch.questions = {}; }
  Answers answers(Questions const& asked) const {
    Answers all{.asked = asked};
    each_comparable(
        asked, [&](Question question) { all.numbers[static_cast<std::size_t>(question)] = answer(run_, question); });
    return all;
  }
  /// The first question whose answer is another now.
  std::optional<Question> changed(Answers const& before) const {
    std::optional<Question> first;
    if (before.asked.empty()) return first;
    each_comparable(before.asked, [&](Question question) {
      if (!first && before.numbers[static_cast<std::size_t>(question)] != answer(run_, question)) first = question;
    });
    return first;
  }

  /// f() with the place in the window, the answers and the size of an earlier batch. Everything is back afterwards,
  /// with which gradients count as received.
  template <class Batch, class F>
  decltype(auto) as(StepKey key, Batch const& batch, Answers const& answers, F&& f) {
    auto& optimizer = std::get<0>(run_.parts.optimizers->optimizers);
    Outside<std::remove_reference_t<decltype(optimizer)>> const outside(run_, key_, optimizer);
    key_ = key;
    run_.facts.batch_size = R::Backend::batch_size(batch);
    run_.facts.in_batch = true;
    each_comparable(answers.asked, [&](Question question) {
      set_answer(run_, question, answers.numbers[static_cast<std::size_t>(question)]);
    });
    return f();
  }

 private:
  /// What `as` puts back.
  template <class Optimizer>
  class Outside {
   public:
    Outside(State<R>& run, StepKey& key, Optimizer& optimizer)
        : run_(run),
          at_(key),
          optimizer_(optimizer),
          facts_(run.facts),
          progress_(run.progress),
          key_(key),
          window_(run.asked.window_length),
          stop_(run.due.stop) {
      if constexpr (requires { optimizer.received(); }) received_ = optimizer.received();
    }
    ~Outside() {
      run_.facts = facts_;
      run_.progress = progress_;
      run_.asked.window_length = window_;
      run_.due.stop = stop_;
      at_ = key_;
      if constexpr (requires { optimizer_.received(); }) optimizer_.set_received(received_);
    }
    Outside(Outside const&) = delete;
    Outside& operator=(Outside const&) = delete;

   private:
    State<R>& run_;
    StepKey& at_;
    Optimizer& optimizer_;
    Facts facts_;
    Progress progress_;
    StepKey key_;
    int window_;
    StopRequest stop_;
    std::vector<bool> received_ = {};
  };

  State<R>& run_;
  StepKey key_;
  Body& body_;
};

}  // namespace fulgurite::loop
