#pragma once
// The beginning of a fit: the file that it goes on from, setup, optimizers, the hooks up to on_fit_start.

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/answer_searches.hpp>
#include <fulgurite/loop/assembly.hpp>
#include <fulgurite/loop/early_looks.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/log_hyperparameters.hpp>
#include <fulgurite/loop/log_program.hpp>
#include <fulgurite/loop/reopened_epoch.hpp>
#include <fulgurite/loop/resume.hpp>
#include <fulgurite/loop/training_plan.hpp>

namespace fulgurite::loop {

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
    run_.facts = {};
    run_.facts.has_validation =
        Source::template evaluates<hook::val_dataloader> && !run_.asked.options.limit_val_batches.none();
    run_.due = {};
    run_.clock.earlier = 0;
    run_.clock.training_began.reset();
    run_.made.outcome.ended_by.clear();
    run_.loading.resuming = run_.loading.training_is_open = run_.loading.validation_is_open = false;
    run_.loading.loaders = &loader_names<Source>;
    run_.loading.forgets_place = !all_remember_place<Source>;
    run_.carried.pass_random.reset();
    run_.carried.slices = 0;
    run_.point = {};
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
    Context<R, phase::Fit> ctx(run_);
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
    log_hyperparameters(run_, pack_, source_);
    if (!is_resumed()) log_program(run_, pack_);  // one that goes on, when all of its file is known to fit
    if constexpr (resumes)
      if (resumed_) resumed_->load_training();
    check_time(run_);
    if (is_resumed()) agree_on_stop(run_);
    if constexpr (resumes)
      if (resumed_ && !run_.asked.options.limit_train_batches.none()) reopen_epoch(run_);  // unless time is up, too
  }

  /// What configure_optimizers returns. The backend may add to what an optimizer refuses.
  decltype(auto) made_optimizers(Context<R, phase::Fit>& ctx) {
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
    start_.template look<true>(run_, pack_);
    if (start_.is_found() && start_.tell_of_folders(pack_)) run_.made.log_dir.clear();  // loggers say it anew
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
    start_.template look<true>(run_, pack_);
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
    if constexpr (searches) answer(std::exchange(run_.searching.settings, {}), run_, pack_, source_, plan_);
  }
  /// Between two epochs: what callbacks wanted tried out.
  void answer_searches() {
    if constexpr (searches) answer(std::exchange(run_.searching.due, {}), run_, pack_, source_, plan_);
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
