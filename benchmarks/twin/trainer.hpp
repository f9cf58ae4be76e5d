#pragma once
// The dynamic twin: the trainer that one writes without templates. Virtual callbacks, std::function hooks, values
// logged by name.
//
// It does what fulgurite::Trainer does in automatic optimization: windows, clipping, limits, validation inside an
// epoch, stops, logging at a cadence. It is what P1, P8, P10 and P11 are measured against, so nothing in it is slower
// than it has to be. `Library` only says what a tensor and a batch are (a program of its own would have `using` in its
// place); no decision of the trainer depends on it.

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callback.hpp"
#include "interfaces.hpp"
#include "logbook.hpp"

namespace twin {

struct Options {
  using Clock = std::chrono::steady_clock;

  std::optional<int> max_epochs = std::nullopt;
  std::optional<int> min_epochs = std::nullopt;
  std::optional<long> max_steps = std::nullopt;
  std::optional<long> min_steps = std::nullopt;
  std::optional<double> max_seconds = std::nullopt;
  std::optional<long> limit_train_batches = std::nullopt;
  std::optional<long> limit_val_batches = std::nullopt;
  std::optional<long> val_check_interval = std::nullopt;  ///< batches; nullopt: at the end of an epoch
  int check_val_every_n_epoch = 1;
  int num_sanity_val_steps = 2;
  int log_every_n_steps = 50;
  int accumulate_grad_batches = 1;
  double clip_norm = 0;  ///< 0: none
};

/// Functions to be called at an event, beside the callbacks.
template <class Library>
struct Hooks {
  using Event = std::vector<std::function<void(Trainer<Library>&)>>;
  Event train_batch_start = {}, before_optimizer_step = {}, train_batch_end = {}, train_epoch_end = {},
        validation_end = {};
};

template <class Library>
class Trainer {
 public:
  using Tensor = typename Library::Tensor;
  using Batch = typename Library::Batch;
  using Callback = twin::Callback<Library>;
  using Module = twin::Module<Library>;
  using Loader = twin::Loader<Library>;

  explicit Trainer(Options options) : options_(std::move(options)) {}

  void add(std::unique_ptr<Callback> callback) { callbacks_.push_back(std::move(callback)); }
  void add(std::unique_ptr<Logger> logger) { loggers_.push_back(std::move(logger)); }
  Hooks<Library>& hooks() { return hooks_; }

  void fit(Module& model, Loader& train, Loader* validation = nullptr) {
    model_ = &model;
    validation_ = validation;
    began_ = Options::Clock::now();
    try {
      optimizer_ = model.configure_optimizer();
      notify([this](Callback& c) { c.on_fit_start(*this); });
      if (validation_ && options_.num_sanity_val_steps != 0) validate(options_.num_sanity_val_steps);
      book_.restart();
      notify([this](Callback& c) { c.on_train_start(*this); });
      while (!done()) epoch(train);
      notify([this](Callback& c) { c.on_train_end(*this); });
      notify([this](Callback& c) { c.on_fit_end(*this); });
    } catch (std::exception const& error) {
      notify([&](Callback& c) { c.on_exception(*this, error); });
      throw;
    }
  }

  /// Its epoch's mean is weighted by the batch.
  void log(std::string const& name, Tensor const& value) { book_.log(name, value, static_cast<double>(batch_size_)); }
  void request_stop() { stop_ = true; }

  int current_epoch() const { return epoch_; }
  long global_step() const { return global_step_; }
  long batch_idx() const { return batch_; }
  bool accumulating() const { return accumulating_; }
  Options const& options() const { return options_; }
  Module& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  template <class F>
  void notify(F&& f) {
    for (auto& callback : callbacks_) f(*callback);
    f(*model_);
  }
  void call(typename Hooks<Library>::Event const& functions) {
    for (auto const& f : functions) f(*this);
  }

  bool minima_met() const {
    return epoch_ >= options_.min_epochs.value_or(options_.min_steps ? 1 : 0) &&
           global_step_ >= options_.min_steps.value_or(0);
  }
  bool stops() const { return stop_ && minima_met(); }
  bool steps_exhausted() const { return options_.max_steps && global_step_ >= *options_.max_steps; }
  bool done() const { return steps_exhausted() || (options_.max_epochs && epoch_ >= *options_.max_epochs) || stops(); }

  void epoch(Loader& loader) {
    loader.restart();
    long batches = static_cast<long>(loader.size());
    if (options_.limit_train_batches) batches = std::min(batches, *options_.limit_train_batches);
    interval_ = options_.val_check_interval.value_or(batches);
    window_start_ = 0;
    model_->train(true);
    notify([this](Callback& c) { c.on_train_epoch_start(*this); });
    for (batch_ = 0; batch_ != batches; ++batch_) {
      Batch const* batch = loader.next();
      if (!batch || !one(*batch, batches)) break;
    }
    notify([this](Callback& c) { c.on_train_epoch_end(*this); });
    call(hooks_.train_epoch_end);
    if (!loggers_.empty()) write(book_.means());
    book_.restart();
    ++epoch_;
  }

  /// One batch; whether the epoch goes on.
  bool one(Batch const& batch, long batches) {
    bool const last = batch_ + 1 == batches;
    long const divisor = std::min<long>(options_.accumulate_grad_batches, batches - window_start_);
    bool const closes = batch_ - window_start_ + 1 == options_.accumulate_grad_batches || last;
    accumulating_ = !closes;
    batch_size_ = Library::batch_size(batch);
    notify([&](Callback& c) { c.on_train_batch_start(*this, batch); });
    call(hooks_.train_batch_start);

    Tensor loss = gradients(batch, batch_ == window_start_, divisor);
    if (closes) update();
    notify([&](Callback& c) { c.on_train_batch_end(*this, loss, batch); });
    call(hooks_.train_batch_end);

    if (options_.max_seconds && seconds() >= *options_.max_seconds) stop_ = true;
    bool const leaves = last || steps_exhausted() || stops();
    if (leaves && accumulating_) flush(divisor);
    if (!accumulating_) {
      window_start_ = batch_ + 1;
      if (options_.log_every_n_steps != 0 && (++logged_ % options_.log_every_n_steps == 0 || stop_) &&
          !loggers_.empty())
        write(book_.row());
    }
    if (validation_ && (epoch_ + 1) % options_.check_val_every_n_epoch == 0 &&
        (stops() || (batch_ + 1) % interval_ == 0))
      validate(options_.limit_val_batches);
    if (!leaves && stops() && accumulating_) flush(divisor);
    return !(leaves || stops());
  }

  Tensor gradients(Batch const& batch, bool first, long divisor) {
    Tensor loss = model_->training_step(*this, batch);
    if (first) {
      notify([this](Callback& c) { c.on_before_zero_grad(*this); });
      optimizer_->zero_grad();
    }
    notify([&](Callback& c) { c.on_before_backward(*this, loss); });
    Library::backward(loss, 1.0 / static_cast<double>(divisor));
    notify([this](Callback& c) { c.on_after_backward(*this); });
    return loss;
  }

  void update() {
    notify([this](Callback& c) { c.on_before_optimizer_step(*this); });
    call(hooks_.before_optimizer_step);
    if (options_.clip_norm > 0) optimizer_->clip_norm(options_.clip_norm);
    optimizer_->step();
    ++global_step_;
  }

  /// The window ends early: the mean of the batches it has is stepped.
  void flush(long divisor) {
    optimizer_->scale_gradients(static_cast<double>(divisor) / static_cast<double>(batch_ - window_start_ + 1));
    update();
    accumulating_ = false;
  }

  void validate(std::optional<long> limit) {
    [[maybe_unused]] auto const off = Library::no_grad();
    long const training_batch = batch_;
    long const training_size = batch_size_;
    model_->train(false);
    notify([this](Callback& c) { c.on_validation_start(*this); });
    validation_->restart();
    batch_ = 0;
    for (Batch const* batch = validation_->next(); batch && (!limit || batch_ != *limit); batch = validation_->next()) {
      batch_size_ = Library::batch_size(*batch);
      notify([&](Callback& c) { c.on_validation_batch_start(*this, *batch); });
      model_->validation_step(*this, *batch);
      notify([&](Callback& c) { c.on_validation_batch_end(*this, *batch); });
      ++batch_;
    }
    notify([this](Callback& c) { c.on_validation_end(*this); });
    call(hooks_.validation_end);
    model_->train(true);
    batch_ = training_batch;
    batch_size_ = training_size;
  }

  void write(Logger::Row const& row) {
    for (auto& logger : loggers_) logger->log_metrics(row, logged_);
  }
  double seconds() const { return std::chrono::duration<double>(Options::Clock::now() - began_).count(); }

  Options options_;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  std::vector<std::unique_ptr<Logger>> loggers_;
  Hooks<Library> hooks_;
  Logbook<Library> book_;
  Module* model_ = nullptr;
  Loader* validation_ = nullptr;
  std::unique_ptr<Optimizer> optimizer_;
  Options::Clock::time_point began_{};
  int epoch_ = 0;
  long batch_ = 0, batch_size_ = 0, window_start_ = 0, interval_ = 0, global_step_ = 0, logged_ = 0;
  bool accumulating_ = false, stop_ = false;
};

}  // namespace twin
