#pragma once
// What BatchNorm needs after a model's weights were replaced: one more pass over the training data.

#include <type_traits>

#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/batch_pass.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/end_if_asked.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/loop/transfer.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// What asked for the pass puts its weights into the model first: `before_statistics_pass(ctx)`.
template <class R, class Pack>
void prepare_statistics(State<R>& run, Pack& pack) {
  Context<R, phase::Train> ctx(run);
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.before_statistics_pass(ctx); }) callback.before_statistics_pass(ctx);
  });
}

/// The training loader is where it was, however the pass over it has ended: a run that is trained on later has the
/// batches that it would have had without the pass. One that can be told where to begin has the order of the epoch that
/// would follow, also where the pass is done once more.
template <class R, class Loader, class Pass>
void out_of_count([[maybe_unused]] Loader& loader, [[maybe_unused]] long epoch, Pass&& pass) {
  [[maybe_unused]] auto const stand_between_epochs = [&] {
    if constexpr (Jumps<Loader>) {
      if constexpr (requires { loader.set_epoch(epoch); }) loader.set_epoch(epoch);
      loader.resume_at(0);
    }
  };
  stand_between_epochs();
  if constexpr (requires { typename R::Backend::RunFile::Memory; }) {
    using RunFile = typename R::Backend::RunFile;
    if constexpr (Stateful<Loader, typename RunFile::Saver>) {
      typename RunFile::Memory place;
      auto const fold = [&](auto& archive) { archive.child("train_loader", loader); };
      auto const put_back = [&] {
        place.put_back(fold);
        stand_between_epochs();  // it would end the pass before once more
      };
      place.save(fold);
      try {
        pass();
      } catch (...) {
        put_back();
        throw;
      }
      return put_back();
    }
  }
  pass();
}

/// The training data once more, through training_step alone: no gradients, no update, no hook but those of the
/// transfer, nothing logged. BatchNorm takes its statistics from it. Where each of several ranks has passed its own
/// part of the data, they combine what they have found.
template <class R, class Pack, class Source>
void statistics_pass(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan) {
  using Backend = typename R::Backend;
  Context<R, phase::Train> ctx(run);
  auto const outside = run.facts;
  auto& model = *run.parts.model;
  if constexpr (R::automatic) {
    [[maybe_unused]] auto const gradients_off = Backend::no_grad(false);
    [[maybe_unused]] auto const generators = Backend::isolated_rng();
    auto& loader = source.train();
    auto const take = [&](auto&& raw, long b, auto&& end) {
      run.facts.batch_idx = b;
      run.facts.is_last_batch = end.before_step();
      if (!is_none(raw))
        with_batch(run, source, ctx, present(raw), [&](auto& batch) {
          run.facts.in_batch = true;  // training_step logs as it does in a step
          measure(run, batch);
          [[maybe_unused]] auto const scope = Backend::autocast(run.parts.precision, run.parts.strategy.device());
          [[maybe_unused]] auto const products = products_scope(run);
          if constexpr (Recurrent<typename R::Model>) {
            run.carried.hidden.reset();
            for (auto& slice : time_slices<R>(model, batch, run.asked.optimization.tbptt, ctx)) {
              auto const output = call_training_step(model, slice, run.carried.hidden, ctx);
              if constexpr (!is_optional<std::remove_cvref_t<decltype(output)>>)
                run.carried.hidden.emplace(Backend::detached_state(output.hidden));
              else if (output) run.carried.hidden.emplace(Backend::detached_state(output->hidden));
            }
          } else {
            call_training_step(model, batch, run.carried.hidden, ctx);
          }
          run.measured.train_board.restart();
        });
      end_alone_if_asked<R>(pack);
      return !end.after_step();
    };
    out_of_count<R>(loader, run.progress.epoch, [&] { each_batch(loader, plan.most(), take); });
    if constexpr (requires { run.parts.strategy.share_statistics(model); }) run.parts.strategy.share_statistics(model);
  }
  run.facts = outside;
}

}  // namespace fulgurite::loop
