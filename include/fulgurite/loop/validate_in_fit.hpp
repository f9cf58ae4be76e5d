#pragma once
// Validation inside fit, with what surrounds it.

#include <optional>
#include <string>
#include <utility>

#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/run_position.hpp>

namespace fulgurite::loop {

/// The end of a validation in which on_validation_end failed. Its values are there already; those that have not heard
/// of them are told.
template <class R, class Pack>
[[gnu::noinline, gnu::cold]] void end_validation(State<R>& run, Pack& pack) {
  Context<R, phase::Validate> ctx(run);
  Flow flow = Flow::proceed;
  in_evaluation_mode<Validation>(run, ctx, [&] {
    Context<R, phase::ValidateEnd> after(run);
    flow = tell_others<hook::on_validation_end>(run, pack, after);
  });
  if (flow == Flow::stop) wish_stop(run);
}

/// Keeps what the validation that follows begins with.
template <class R, class Pack, class Source>
void keep_before_validation(State<R>& run, Pack& pack, Source& source) {
  run.before_validation.reset();  // or its parts would be saved in place of those of now
  BeforeValidation<R> before{
      .stop = run.due.stop, .validation_since = run.loading.validation_since, .rows = run.due.rows};
  if constexpr (requires { typename R::Backend::RunFile::Memory; }) {
    using Saver = typename R::Backend::RunFile::Saver;
    before.parts.save([&](auto& archive) {
      if constexpr (Stateful<typename R::Model, Saver> && !splits_model<R>) archive.child("model", *run.parts.model);
      fold_data_module<R>(source, archive);
      fold_validation_loaders(run, source, archive);
      archive.child("results", [&](auto& inner) { fold_results(run, inner); });
    });
    before.callbacks.save([&](auto& archive) {
      each_remembering<Saver>(pack, [&]<class C>(C& callback, std::string const& name) {
        if constexpr (kept_before_validation<C>) archive.child(name, callback);
      });
    });
  }
  run.before_validation = std::move(before);
}

/// Validation inside fit, with what surrounds it. `after`: where a fit goes on from a file that is asked for here.
template <class R, class Pack, class Source>
void validate_in_fit(State<R>& run, Pack& pack, Source& source, SafePoint const& after) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    [[maybe_unused]] auto const watched = pack.template profile<action::run_validation>();
    Context<R, phase::ValidateEnd> ctx(run);
    run.due.set_aside();
    if (run.due.heard.template failed<hook::on_validation_end>()) [[unlikely]] {
      end_validation(run, pack);
    } else {
      keep_before_validation(run, pack, source);
      if (!run.facts.accumulating &&
          Listens<hook::on_validation_model_zero_grad, typename R::Model, Context<R, phase::ValidateEnd>>)
        Pack::template tell_model<hook::on_validation_model_zero_grad>(*run.parts.model, ctx);
      int const every = run.asked.options.reload_dataloaders_every_n_epochs;
      if (every != 0 && run.progress.epoch - run.loading.validation_since >= every) {
        if constexpr (requires { source.reload_validation(); }) source.reload_validation();
        run.loading.validation_since = run.progress.epoch;
      }
      evaluate<Validation>(run, pack, source, evaluation_loaders<hook::val_dataloader>(run, source),
                           run.asked.options.limit_val_batches, std::nullopt);
    }
    if (run.asked.options.val_check_interval.kind == ValidationInterval::Kind::time)
      run.clock.last_validation = run.asked.options.now();
    deliver_posted(run, pack, run.progress.logged_steps);
    // What validation has scored are the weights of the last step: inside a window, too, they are written as they are
    // now.
    run.point = after;
    run.before_validation.reset();
    if (!run.due.requests.empty()) write_now(run, pack, source);
    run.due.take_back();
    agree_on_stop(run);
  }
}

/// The same after the batch at `place`. One that fails leaves that place behind, from which it is done again. Not
/// inlined, since what writes files is no part of the hot loop.
template <class R, class Pack, class Source>
[[gnu::noinline]] void validate_from(State<R>& run, Pack& pack, Source& source, SafePoint const& place) {
  auto after = place;
  after.at = At::after_validation;
  after.validates = false;
  auto const before = std::exchange(run.point, place);
  validate_in_fit(run, pack, source, after);
  run.point = before;
}

}  // namespace fulgurite::loop
