#pragma once
// A few validation batches before training, so that a mistake there shows at once.

#include <optional>
#include <utility>

#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// Nothing of it is kept, random numbers included; what hooks asked for before it waits until it is over.
template <class R, class Pack, class Source>
void sanity_check(State<R>& run, Pack& pack, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    int const batches = run.asked.options.num_sanity_val_steps;
    bool const inside = run.progress.batch != 0 || (run.point.began && run.point.at < At::epoch_end);
    if (batches == 0 || !run.facts.has_validation || inside) return;
    [[maybe_unused]] auto const generators = R::Backend::isolated_rng();
    Context<R, phase::Fit> ctx(run);
    run.facts.sanity_checking = true;
    run.loading.validation_since =
        validates_in(run.asked.options, run.progress.epoch) ? run.progress.epoch : never_loaded;
    auto const stop = run.due.stop;
    run.due.set_aside();
    auto posted = std::exchange(run.due.posted, {});
    tell<hook::on_sanity_check_start>(run, pack, ctx);
    evaluate<Validation>(run, pack, source, evaluation_loaders<hook::val_dataloader>(run, source),
                         run.asked.options.limit_val_batches,
                         batches < 0 ? std::nullopt : std::optional<long>(batches));
    tell<hook::on_sanity_check_end>(run, pack, ctx);
    run.facts.sanity_checking = false;
    run.due.stop = stop;  // nothing of a sanity check is kept
    run.due.requests.clear();
    run.due.take_back();
    run.due.posted = std::move(posted);
  }
}

}  // namespace fulgurite::loop
