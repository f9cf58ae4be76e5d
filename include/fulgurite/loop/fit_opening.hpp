#pragma once
// The beginning of a fit: the file that it goes on from, setup, optimizers, the hooks up to on_fit_start.

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/found_checkpoints.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/rehearsal.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/validation_timing.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

// Whether the loaders of a program can go on where those of a file were, found out before training starts.

/// Inside an epoch each rank has trained on its share of the batches so far; other shares of the rest would train on
/// some samples twice and never on others.
[[noreturn]] void refuse_other_shares(long consumed, long then, long now);

/// The epoch of the file is shared out between as many ranks as here, and the batch at which it resumes is one of the
/// `batches` that training has, where it is known how many.
template <class R, class RunFile>
void refuse_unfit_data(State<R>& run, RunFile const& file, std::optional<long> batches) {
  Progress progress;
  SafePoint point;
  bool stop = false;
  long const here_shared = shares_of_data(run);
  long shared = here_shared;
  file.load([&](auto& archive) {
    if (!lacks(archive, "progress")) archive.child("progress", progress);
    if (!lacks(archive, "point")) archive("point", point)("stop", stop);
    if (!lacks(archive, "shares_of_epoch")) archive("shares_of_epoch", shared);
  });
  auto const here = std::exchange(run.progress, progress);
  bool const stops_here = std::exchange(run.due.stop.holds, stop || run.due.stop.holds);
  reopen_epoch(run, point);
  bool const asks = asks_for_batches(run, point);
  progress = std::exchange(run.progress, here);
  run.due.stop.holds = stops_here;
  if (!asks || progress.batch == 0) return;
  if (shared != here_shared) refuse_other_shares(progress.batch, shared, here_shared);
  if (batches && progress.batch >= *batches) refuse_short(progress.batch, *batches);
}

/// Loads what loaders keep, and puts them back: hooks are still to be heard before they are set to their place.
template <class R, class Source, class RunFile>
void try_loaders(State<R>& run, Source& source, RunFile const& file) {
  typename R::Backend::RunFile::Memory before;
  auto const fold = [&](auto& archive) { fold_loaders(run, source, archive); };
  before.save(fold);
  file.load(fold);
  before.put_back(fold);
}

/// Loads one file in three parts. Weights and what the model, the data module and the callbacks keep are there before
/// the optimizers are made, and these before training starts; what hooks did to them on the way is undone when the
/// first batch is due, and random numbers go on as they were. A file that does not fit leaves everything as it was.
/// `RunFile`: where it is loaded from, which may be a snapshot in memory.
template <class R, class Pack, class Source, class RunFile>
class Resumption {
  using Saver = typename R::Backend::RunFile::Saver;
  /// A data module makes them after hooks have been heard, and a callback that has searched sets the size it found.
  static constexpr bool loaders_change = any_searches<Pack> || requires(Source& source) { source.reload_training(); };

 public:
  Resumption(State<R>& run, Pack& pack, Source& source, RunFile file)
      : run_(run), pack_(pack), source_(source), file_(std::move(file)), before_(run, source) {}

  /// After setup and configure_model. The model's parameters are written in place.
  void load_model() {
    if constexpr (is_snapshot<RunFile> && data_has_state<R, Source, Saver>)
      if (!file_.left())
        throw Error(
            "fulgurite.resume.snapshot",
            "this fit has a loader or a data module that keeps its place by a state, and the snapshot was taken "
            "when no fit had ended with such: go on from a file, or take the snapshot after the fit");
    before_.keep_model();
    note([&] { file_.load_weights(*run_.parts.model); });
    note([&] {
      file_.load([&](auto& archive) { fold_model(run_, source_, archive); });
      auto const& most = run_.asked.options.max_epochs;
      if (most && *most >= 0 && run_.progress.epoch > *most)
        throw Error("fulgurite.resume.max_epochs", "the file is of a run of " + std::to_string(run_.progress.epoch) +
                                                       " epochs, and max_epochs = " + std::to_string(*most) +
                                                       ": raise it, or take an earlier file");
    });
    if (!problems_.empty()) before_.put_back();
  }

  /// When the optimizers are there: a file that did not fit so far is refused, with what else of it does not. Loaders
  /// that were given are there, too; `open()` prepares them, `count()` says how many batches training has, where that
  /// is known.
  template <class OpenLoaders, class Count>
  void refuse_unfit([[maybe_unused]] OpenLoaders&& open, [[maybe_unused]] Count&& count) {
    before_.keep_training();
    if constexpr (!loaders_change)
      if (!run_.asked.options.limit_train_batches.none()) note([&] { refuse_unfit_data(run_, file_, count()); });
    if constexpr (loaders_have_state<Source, Saver> && !loaders_change)
      note([&] {
        open();
        try_loaders(run_, source_, file_);
      });
    if (problems_.empty()) return;
    note([&] { file_.load([&](auto& archive) { fold_training(run_, archive); }); });
    before_.put_back();
    auto const all = all_of(problems_);
    tell_of_difference(all);
    throw all;
  }

  /// After on_fit_start, when the optimizers are there. What comes last is tried now, so that nearly all of the file is
  /// known to fit before training starts.
  void load_training() {
    refuse_forgetful();
    or_put_back([&] {
      file_.load([&](auto& archive) {
        fold_model(run_, source_, archive);
        fold_training(run_, archive);
        auto random = R::Backend::rng_state();
        archive.child("random", random);
      });
    });
  }

  /// When the loaders are what they will be, before on_train_start: what the file holds of them fits, and they are long
  /// enough, where it is known how many `batches` training has: under several ranks fewer than a loader may have.
  void refuse_unfit_loaders(std::optional<long> batches) {
    or_put_back([&] {
      refuse_unfit_data(run_, file_, batches);
      if constexpr (loaders_have_state<Source, Saver> && loaders_change) try_loaders(run_, source_, file_);
    });
  }

  /// After on_train_start, when the loaders are there, too: everything, as it was saved. Then `find_place()`, which
  /// refuses a loader that only its end shows not to be long enough. Where one of them fails, no loader and no random
  /// number has moved.
  template <class FindPlace>
  void load_all(FindPlace&& find_place) {
    auto random = R::Backend::rng_state();
    typename R::Backend::RunFile::Memory loader;
    loader.save([&](auto& archive) { fold_loader(run_, source_, archive); });
    or_put_back([&] {
      file_.load_weights(*run_.parts.model);
      file_.load_whole([&](auto& archive) {
        fold_assembly(run_, archive);
        fold_everything(run_, source_, archive);
      });
      take_own_part(run_, source_);
      reopened_ = reopen_epoch(run_);
      try {
        find_place();
      } catch (...) {
        loader.put_back([&](auto& archive) { fold_loader(run_, source_, archive); });
        random.restore();
        throw;
      }
    });
  }

  /// After that, when the weights are those in training: inside an epoch that had been cut short nothing is left of
  /// what hooks did at its end.
  void go_back_if_reopened() {
    if (reopened_) or_put_back([&] { go_back_before_cut(run_, pack_); });
  }

  /// For a run that has nothing left to train: the random numbers after this fit are those that came after the fit of
  /// the file.
  void load_random() {
    auto random = R::Backend::rng_state();
    file_.load([&](auto& archive) { archive.child("random", random); });
    random.restore();
  }
  /// For such a run: loads what its loaders keep. The loaders have to be there.
  void load_data() {
    or_put_back([&] { file_.load([&](auto& archive) { fold_loaders(run_, source_, archive); }); });
  }

 private:
  /// An optimizer that saves nothing would begin anew, with other steps than those of the run that was stopped.
  void refuse_forgetful() {
    if constexpr (!optimizers_resume<R, Saver>)
      throw Error("fulgurite.resume.optimizer",
                  "an optimizer has no state(archive), so the run cannot go on: give it one that saves its moments");
  }

  /// What does not fit is told when all of it is known. Anything else that goes wrong ends the fit now.
  template <class Load>
  void note(Load&& load) {
    try {
      load();
    } catch (Error const& error) { problems_.push_back(error); } catch (...) {
      before_.put_back();
      throw;
    }
  }
  template <class Load>
  void or_put_back(Load&& load) {
    try {
      load();
    } catch (Error const& error) {
      before_.put_back();
      tell_of_difference(error);
      throw;
    } catch (...) {
      before_.put_back();
      throw;
    }
  }

  /// Throws what does not fit with the parts of the program before it that are not those of the file.
  void tell_of_difference(Error const& error) {
    auto const fold = [&](auto& archive) { fold_assembly(run_, archive); };
    if constexpr (requires { file_.difference(*run_.parts.model, fold); }) {
      if (error.identifier().starts_with("fulgurite.resume.")) return;  // of limits and data, not of parts
      auto const parts = file_.difference(*run_.parts.model, fold);
      if (parts.empty()) return;
      auto const said = std::string(error.what()).substr(error.identifier().size() + 3);
      throw Error(error.identifier(), parts + ". What does not fit: " + said);
    }
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  RunFile file_;
  BeforeResuming<R, Source> before_;
  std::vector<Error> problems_{};
  bool reopened_ = false;
};

/// `From`: what the fit goes on from.
template <class R, class Pack, class Source, class From>
class FitOpening {
 protected:
  /// Whether there is anything to go on from.
  static constexpr bool resumes = !std::is_same_v<From, Anew> || any_resumes_fit<Pack>;
  using Start = StartOf<R, From>;
  /// Callbacks may want steps tried out before training goes on.
  static constexpr bool searches = any_searches<Pack>;

  FitOpening(State<R>& run, Pack& pack, Source& source, From const& from)
      : run_(run), pack_(pack), source_(source), is_open_(run.loading), start_(from) {}

  /// Nothing of an earlier run is due, or at hand, in this one.
  void begin_anew() {
    forget_searches(run_);  // of a fit that has failed while it opened, or of an evaluation
    run_.begin_fit(Source::template evaluates<hook::val_dataloader>);
    run_.loading.loaders = &loader_names<Source>;
    run_.loading.forgets_place = !all_remember_place<Source>;
    run_.carried.pass_random.reset();
    run_.carried.slices = 0;
    if constexpr (shares<R>) run_.shared = {};
    run_.watch.manual = {};
    watch_finite(run_);
    run_.parts.optimizers.reset();
    run_.searching.answers = searches;
    forget_results(run_);
  }

  /// Up to on_fit_start: the model, its optimizers, what is counted from here on.
  void assemble() {
    auto& parts = run_.parts;
    RunContext<R, phase::Fit> ctx(run_);
    set_up(run_, pack_, source_, ctx, FileOfFit{*this});
    run_.loading.count_training = Counts::template to<&FitOpening::count_training>(*this);
    parts.optimizers.emplace(AsList<std::remove_cvref_t<decltype(made_optimizers(ctx))>>::make(made_optimizers(ctx)));
    if constexpr (requires { R::Backend::check_optimizers(*parts.model, parts.optimizers->optimizers); })
      R::Backend::check_optimizers(*parts.model, parts.optimizers->optimizers);
    if constexpr (requires { parts.strategy.share_state(parts.optimizers->optimizers); })
      parts.strategy.share_state(parts.optimizers->optimizers);
    arrange_gradients(run_, pack_);
    if constexpr (R::Precision::scales_loss) parts.scaler.emplace(parts.precision, parts.strategy.device());
    if constexpr (resumes)
      if (resumed_) resumed_->refuse_unfit([this] { open_given_loaders(); }, run_.loading.count_training);
    auto const every = static_cast<std::size_t>(run_.asked.options.log_every_n_steps) *
                       static_cast<std::size_t>(run_.asked.window_length);
    run_.measured.train_board.reserve(every == 0 ? State<R>::Board::most_waiting : every);
    if (tell<hook::on_fit_start>(run_, pack_, ctx) == Flow::stop) wish_stop(run_);
    answer_settings();
    if (!is_resumed()) answer_searches();  // one that goes on has its state later
    log_hyperparameters(run_, source_);
    if (!is_resumed()) log_program(run_, pack_);  // one that goes on, when all of its file is known to fit
    if constexpr (resumes)
      if (resumed_) resumed_->load_training();
    check_time(run_);
    if (is_resumed()) agree_on_stop(run_);
    if constexpr (resumes)
      if (resumed_ && !run_.asked.options.limit_train_batches.none()) reopen_epoch(run_);  // unless time is up, too
  }

  /// What configure_optimizers returns. The backend may add to what an optimizer refuses.
  decltype(auto) made_optimizers(RunContext<R, phase::Fit>& ctx) {
    auto& model = *run_.parts.model;
    auto const make = [&]() -> decltype(auto) { return configure_optimizers<R>(model, ctx); };
    if constexpr (requires { R::Backend::made_optimizers(model, make); })
      return R::Backend::made_optimizers(model, make);
    else return make();
  }

  using Counts = decltype(Loading::count_training);
  std::optional<long> count_training() {
    return batches_of(training_loader(run_, source_), run_.asked.options.limit_train_batches, "limit_train_batches");
  }

  /// The file that the fit goes on from, as set_up asks for it.
  struct FileOfFit {
    FitOpening& fit;
    void find() {
      if constexpr (resumes) fit.find_file();
    }
    void load() {
      if constexpr (resumes) fit.take_file();
    }
  };
  void find_file() {
    start_.template look<true>(run_);
    if (start_.is_found() && start_.tell_of_folders(run_.callbacks)) run_.made.log_dir.clear();  // loggers say it anew
  }
  /// Asks for the loaders early, so that what a file holds of them can be tried before training.
  void open_given_loaders() {
    if (run_.asked.options.limit_train_batches.none()) return;
    training_loader(run_, source_);
    run_.loading.training_is_open = true;
    if constexpr (Source::template evaluates<hook::val_dataloader>)
      if (run_.facts.has_validation) {
        evaluation_loaders<hook::val_dataloader>(run_, source_);
        run_.loading.validation_is_open = true;
      }
  }
  /// Setup is over: callbacks know their folders, and the model is whole.
  void take_file() {
    start_.template look<true>(run_);
    auto file = start_.take(run_);
    if (!file) return;
    resumed_.emplace(run_, pack_, source_, std::move(*file));
    run_.loading.resuming = true;
    resumed_->load_model();
  }

  bool is_resumed() const {
    if constexpr (resumes) return resumed_.has_value();
    else return false;
  }

  /// What callbacks found before, from which loaders are made.
  void answer_settings() {
    if constexpr (searches) answer(std::exchange(run_.searching.settings, {}), run_, source_, plan_);
  }
  /// Between two epochs: what callbacks wanted tried out.
  void answer_searches() {
    if constexpr (searches) answer(std::exchange(run_.searching.due, {}), run_, source_, plan_);
  }

  /// Keeps what the data save of themselves, for a file that is asked for after the fit, when they are out of reach.
  void keep_data() {
    if constexpr (requires { typename R::Backend::RunFile::Memory; })
      if constexpr (data_has_state<R, Source, typename R::Backend::RunFile::Saver>)
        run_.left.emplace().save([this](auto& archive) {
          fold_data_module<R>(source_, archive);
          fold_loaders(run_, source_, archive);
        });
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  FitIsOpen is_open_;
  [[no_unique_address]] std::conditional_t<resumes, Start, NoFile> start_;
  [[no_unique_address]] std::conditional_t<resumes, std::optional<Resumption<R, Pack, Source, typename Start::File>>,
                                           Anew> resumed_{};
  EpochPlan plan_{};
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/fit_opening.ipp>
#endif
