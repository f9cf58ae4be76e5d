#pragma once
// The one callback of a rehearsal: it calls the functions of the plan, and counts its steps.

#include <algorithm>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/flow.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/rates.hpp>
#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// `end_if_asked()` throws where the program is to end.
template <class R>
class Conductor {
 public:
  using Stateless = ByChoice;

  Conductor(State<R>& run, RehearsalPlan const& plan, EpochPlan const& epoch, LearningRates& rates,
            std::function<void()> end_if_asked)
      : run_(&run),
        plan_(&plan),
        epoch_(&epoch),
        rates_(&rates),
        end_if_asked_(std::move(end_if_asked)),
        begin_(run.progress.global_step) {}

  Flow on_train_batch_start(auto&) {
    auto const& progress = run_->progress;
    bool const opens = run_->facts.batch_idx == progress.window_start + progress.left_out;
    if (R::automatic && !opens) return Flow::proceed;
    step_.emplace(*rates_, run_->progress.global_step - begin_);
    step_->set_batch(run_->facts.batch_idx, run_->facts.batch_size, nullptr);
    if (plan_->before_step) plan_->before_step(*step_);
    return Flow::proceed;
  }
  Flow on_train_batch_end(auto& outputs, auto&, auto&) { return after(&outputs); }
  Flow on_train_batch_end(auto&, auto&) { return after(static_cast<NoOutput*>(nullptr)); }
  /// The loader left this batch out. A window that it closes may have been stepped, and has no loss that is its own.
  Flow on_train_batch_end(auto&) {
    end_if_asked_();
    return step_ && run_->point.counts ? tell_step() : Flow::proceed;
  }

  /// An epoch is over. Where its end was found late, its last step followed the hooks of its last batch.
  void end_epoch() {
    if (std::exchange(waits_, false) && step_ && run_->progress.global_step != heard_) tell_step();
  }

 private:
  using Backend = typename R::Backend;

  template <class Outputs>
  Flow after(Outputs* outputs) {
    end_if_asked_();
    if (!step_) return Flow::proceed;
    bool const closes = !R::automatic || !run_->facts.accumulating;
    waits_ = !closes && run_->facts.end_unknown;
    if (!closes && !waits_) return Flow::proceed;
    auto loss = loss_of_batch(outputs);
    if (waits_ && loss) loss = [value = loss()] { return value; };  // the outputs will be gone
    step_->set_batch(run_->facts.batch_idx, run_->facts.batch_size, std::move(loss));
    return closes ? tell_step() : Flow::proceed;
  }
  Flow tell_step() {
    heard_ = run_->progress.global_step;
    step_->set_made(heard_ - begin_);
    if (plan_->after_step) plan_->after_step(*step_);
    if (!step_->stops()) return Flow::proceed;
    auto& stop = run_->due.stop;
    stop.holds = stop.asked = true;  // of several ranks all have seen the same loss
    return Flow::stop;
  }

  template <class Outputs>
  std::function<double()> loss_of_batch([[maybe_unused]] Outputs* outputs) const {
    if constexpr (!std::is_same_v<Outputs, NoOutput>) {
      if (auto* loss = loss_of<Backend>(*outputs))
        return [run = run_, loss, batches = batches_of_window()] {
          return mean_of_ranks(*run, Backend::read(*loss) * static_cast<double>(batches));
        };
    }
    return nullptr;
  }
  /// The number of batches that the whole window would have had. The outputs of a step are divided by it.
  long batches_of_window() const {
    auto const& progress = run_->progress;
    auto const& most = epoch_->batches;
    return (most ? std::min(progress.window_end, *most) : progress.window_end) - progress.window_start;
  }

  State<R>* run_;
  RehearsalPlan const* plan_;
  EpochPlan const* epoch_;
  LearningRates* rates_;
  std::function<void()> end_if_asked_;
  long begin_;
  std::optional<RehearsedStep> step_ = std::nullopt;
  bool waits_ = false;  ///< whether the batch at hand has ended its window is not known yet
  long heard_ = -1;     ///< the step that was told of last
};

}  // namespace fulgurite::loop
