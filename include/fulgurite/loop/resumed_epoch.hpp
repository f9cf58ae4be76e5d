#pragma once
// An epoch in which a run was stopped: where it goes on, and what it still has to do of its last batch.

#include <optional>
#include <type_traits>

#include <fulgurite/loop/after_batch.hpp>
#include <fulgurite/loop/batch_pass.hpp>
#include <fulgurite/loop/transfer.hpp>

namespace fulgurite::loop {

/// `pass_` is the walk over the training loader, once it has begun.
template <class R, class Pack, class Source>
class ResumedEpoch : public AfterBatch<R, Pack, Source> {
  using Base = AfterBatch<R, Pack, Source>;

 public:
  /// Begins a pass over the loader where a run that was left at `point` goes on, unless its epoch has no other batch.
  /// Error where the loader ends before it; one that tells its size is long enough.
  void find_place(State<R>& run, SafePoint const& point) {
    if (!asks_for_batches(run, point)) return;
    long first = run.progress.batch;
    if (point.at == At::batch_end && is_read_ahead(first)) {
      if (point.last) return;
      ++first;
    }
    // The loader draws the random numbers that it drew when the pass began; those of the run stay as they are.
    auto random = R::Backend::rng_state();
    if (run.carried.pass_random) run.carried.pass_random->restore();
    auto& loader = source_.train();
    pass_.emplace(begin_at(run, loader, first), loader, plan_.most(), first);
    random.restore();
  }
  /// What a run that was left at `point` still has to do of its last batch; whether the epoch goes on.
  bool go_on(State<R>& run, Pack& pack, SafePoint const& point) {
    this->observed_ = point.observed;
    if (point.at == At::batch_end) return end_batch(run, pack, point);
    return finish_batch(run, pack, point);
  }

 protected:
  using Loader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;
  using Base::Base;
  using Base::count_step;
  using Base::ctx_;
  using Base::plan_;
  using Base::settle;
  using Base::source_;

  std::optional<BatchPass<Loader>> pass_{};

 private:
  /// A batch whose step was made when its end failed. It is made once more for those that have not heard of its end,
  /// and random numbers are as they were. Whether the epoch goes on.
  [[gnu::noinline, gnu::cold]] bool end_batch(State<R>& run, Pack& pack, SafePoint const& point) {
    auto random = R::Backend::rng_state();
    auto const others = [&](auto&... args) {
      random.restore();
      if (tell_others<hook::on_train_batch_end>(run, pack, args...) == Flow::stop) wish_stop(run);
    };
    auto const end_with = [&](long b, auto& end, bool left_out, auto&& tell_of_it) {
      auto& facts = run.facts;
      facts.batch_idx = b;
      facts.is_last_batch = end.before_step();
      if constexpr (std::remove_cvref_t<decltype(end)>::late) facts.end_unknown = !end.before_step();
      facts.accumulating = point.accumulating;
      facts.in_batch = true;
      facts.left_out = left_out;
      run.point.counts = left_out && point.counts;
      tell_of_it();
      facts.left_out = run.point.counts = false;
      return this->finish(run, pack, b, end, point.accumulating, point.counts);
    };
    auto const take = [&](auto&& raw, long b, auto&& end) {
      return end_with(b, end, is_none(raw), [&] {
        if (is_none(raw)) return others(ctx_);
        with_batch(run, source_, ctx_, present(raw), [&](auto& batch) {
          measure(run, batch);
          others(batch, ctx_);
        });
      });
    };
    bool const more = [&] {
      if (!is_read_ahead(run.progress.batch)) return pass_->template walk<true>(take);
      KnownEnd end{point.last};  // and that batch cannot be had again
      return end_with(run.progress.batch, end, false, [&] { others(ctx_); });
    }();
    run.facts.in_batch = false;
    return more;
  }

  /// The loader saves its place, and that was after batch b while b was trained on.
  bool is_read_ahead(long b) const {
    return KeepsPlace<Loader> && BatchesStayValid<Loader> && !SizedLoader<Loader> && b + 1 != plan_.most();
  }

  bool finish_batch(State<R>& run, Pack& pack, SafePoint const& point) {
    if (point.at == At::before_batch) return true;
    if (point.at == At::after_step) {
      if (point.counts) report_step(run, pack);
      if (point.last || steps_exhausted(run) || stops(run)) return Base::leave(run, pack, point.last, point.counts);
      settle(run, pack, false, point.counts);
    } else if (point.at == At::after_batch) {
      settle(run, pack, point.last, point.counts, point.last || steps_exhausted(run) || stops(run));
    } else {
      write_requests(run, pack, source_, point);
      if (point.counts) count_step(run);
    }
    if (point.last || steps_exhausted(run)) return false;
    return !stops(run) || this->stop_here(run, point.accumulating);
  }
};

}  // namespace fulgurite::loop
