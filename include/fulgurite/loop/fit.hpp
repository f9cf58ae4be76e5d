#pragma once
// Training: the frame of fit, the sanity check, one epoch after another.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::loop {

/// A few validation batches before training, so that a mistake there shows at once. Nothing of it is kept, random numbers included.
template <class R, class Pack, class Source>
void sanity_check(State<R>& run, Pack& pack, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    int const batches = run.options.num_sanity_val_steps;
    if (batches == 0 || !run.facts.has_validation || run.progress.batch != 0) return;
    [[maybe_unused]] auto const generators = R::Backend::isolated_rng();
    Context<R, phase::Fit> ctx(run);
    run.facts.sanity_checking = true;
    bool const asked = run.stop_requested;
    pack.template fire<hook::on_sanity_check_start>(*run.model, ctx);
    evaluate<Validation>(run, pack, source, source.template evaluation<hook::val_dataloader>(), run.options.limit_val_batches,
                         batches < 0 ? std::nullopt : std::optional<long>(batches));
    pack.template fire<hook::on_sanity_check_end>(*run.model, ctx);
    run.facts.sanity_checking = false;
    run.stop_requested = asked;  // nothing of a sanity check is kept
    run.requests.clear();
    run.posted.clear();
  }
}

/// The epoch's values become results, then rows; x is the last step's.
template <class R, class Pack>
void report_epoch(State<R>& run, Pack& pack) {
  run.train_board.collect();
  for (std::size_t i = 0; i != State<R>::metrics; ++i)
    if (run.train_board[i].epoch.count != 0) run.results[i] = run.train_board[i].epoch;
  if constexpr (has_logger<Pack>) {
    std::vector<MetricValue> row;
    each_epoch_value<typename R::Metrics>(run.train_board, [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    log_row(run, pack, row, last_step(run));
  }
}

template <class R, class Pack, class Source, class Loader>
void train_one_epoch(State<R>& run, Pack& pack, Source& source, Loader& loader, EpochPlan const& plan) {
  Context<R, phase::Train> ctx(run);
  if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{run.progress.epoch});
  run.progress.at = At::before_batch;
  if (pack.template fire<hook::on_train_epoch_start>(*run.model, ctx) == Flow::stop) run.stop_requested = true;
  deliver_posted(run, pack, run.progress.logged_steps);
  if (!stops(run)) TrainEpoch<R, Pack, Source>(run, pack, source, plan).batches(loader);
  if (pack.template fire<hook::on_train_epoch_end>(*run.model, ctx) == Flow::stop) run.stop_requested = true;
  deliver_posted(run, pack, last_step(run));
  report_epoch(run, pack);
  ++run.progress.epoch;
  run.progress.batch = 0;
  run.progress.at = At::after_epoch;
  run.facts.accumulating = false;
  write_requests(run, pack);
  run.train_board.restart();
}

/// Asks for the validation loaders now, so that a limit which does not fit them is known before training.
template <class R, class Source>
void check_validation(State<R>& run, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    if (!run.facts.has_validation) return;
    auto loaders = source.template evaluation<hook::val_dataloader>();
    each_loader(loaders, [&](auto& loader, std::size_t) { check_not_empty(loader); limited(size_of(loader), run.options.limit_val_batches, Validation::limit); });
  }
}

/// Everything between setup and teardown.
template <class R, class Pack, class Source>
void train(State<R>& run, Pack& pack, Source& source) {
  Context<R, phase::Train> ctx(run);
  sanity_check(run, pack, source);
  if (run.options.limit_train_batches.none() || done(run)) return;
  auto& loader = source.train();
  auto const size = size_of(loader);
  auto const plan = plan_epoch(run.options, size, run.facts.has_validation);
  run.facts.train_batches = plan.most();
  if (size == 0)
    throw Error("fulgurite.data.empty", "the training loader has no batch (is drop_last set, with a batch larger than the data?): "
                                        "limit_train_batches = 0 is how to say that nothing is trained");
  check_validation(run, source);
  run.train_board.restart();
  if (pack.template fire<hook::on_train_start>(*run.model, ctx) == Flow::stop) run.stop_requested = true;
  if (run.options.val_check_interval.kind == ValidationInterval::Kind::time) run.last_validation = run.options.now();
  while (!done(run)) train_one_epoch(run, pack, source, loader, plan);
  Context<R, phase::TrainEnd> after(run);
  pack.template fire<hook::on_train_end>(*run.model, after);
  deliver_posted(run, pack, last_step(run));
  write_requests(run, pack);
}

/// The options of automatic optimization.
template <class R>
void check_optimization(State<R>& run) {
  if constexpr (R::automatic) {
    int const k = run.optimization.accumulate_grad_batches;
    check_window<R>("accumulate_grad_batches", k);
    Clip const clip = run.optimization.clip;
    if (clip.kind != Clip::Kind::none && !(clip.limit > 0))
      refuse_option("fulgurite.options.clip", "clip", clip.limit, "a limit is above 0; leave .clip out for no clipping");
    run.window = k;
  }
}

template <class R, class Pack, class Source>
void fit(State<R>& run, Pack& pack, Source& source) {
  check(run.options);
  check_optimization(run);
  run.facts = {};
  run.facts.stage = Stage::fit;
  run.facts.has_validation = Source::template evaluates<hook::val_dataloader> && !run.options.limit_val_batches.none();
  run.stop_requested = false;
  run.requests.clear();
  run.posted.clear();
  Context<R, phase::Fit> ctx(run);
  framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx);
    run.count_training = [&] { return limited(size_of(source.train()), run.options.limit_train_batches, "limit_train_batches"); };
    run.optimizers.emplace(AsList<std::remove_cvref_t<decltype(configure_optimizers<R>(*run.model, ctx))>>::make(
        configure_optimizers<R>(*run.model, ctx)));
    if constexpr (R::Precision::scales_loss) run.scaler.emplace(run.precision, run.strategy.device());
    auto const every = static_cast<std::size_t>(run.options.log_every_n_steps) * static_cast<std::size_t>(run.window);
    run.train_board.reserve(every == 0 ? State<R>::Board::most_waiting : every);
    run.fit_began = run.options.now();
    if (pack.template fire<hook::on_fit_start>(*run.model, ctx) == Flow::stop) run.stop_requested = true;
    check_time(run);
    {
      [[maybe_unused]] auto const anomaly = R::Backend::anomaly(run.options.detect_anomaly);
      train(run, pack, source);
    }
    run.count_training = nullptr;
    run.strategy.teardown(*run.model);
    pack.template fire<hook::on_fit_end>(*run.model, ctx);
    write_requests(run, pack);
    tell_all<hook::teardown>(run, pack, source, ctx);
    write_requests(run, pack);
    finalize_loggers(pack, Status::success);
  });
}

/// validate or test: the frame and one evaluation. Results: one list of values for each loader.
template <class Kind, class R, class Pack, class Source>
std::vector<std::vector<MetricValue>> run_evaluation(State<R>& run, Pack& pack, Source& source, Stage stage, Limit const& limit) {
  check_limit(Kind::limit, limit);
  run.facts = {};
  run.facts.stage = stage;
  Context<R, typename Kind::Phase> ctx(run);
  return framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx);
    auto results = limit.none() ? std::vector<std::vector<MetricValue>>{}
                                : evaluate<Kind>(run, pack, source, source.template evaluation<typename Kind::Loader>(), limit, std::nullopt);
    run.strategy.teardown(*run.model);
    tell_all<hook::teardown>(run, pack, source, ctx);
    finalize_loggers(pack, Status::success);
    return results;
  });
}

}  // namespace fulgurite::loop
