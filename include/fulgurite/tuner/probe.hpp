#pragma once
// The callback by which a sweep sees a member's metric, lets it wait and ends it.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/flow.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/tuner/race.hpp>

namespace fulgurite::tune {

/// A sweep hands it to the function that makes a member, which puts it among the callbacks of the member's trainer.
/// `Probe{Net::val_accuracy}` by itself does nothing: with it a member is made and trained alone, by the same function.
template <Watchable M>
class Probe {
 public:
  using Hooks = Implements<hook::on_train_batch_end, hook::on_validation_batch_end, hook::on_train_epoch_end>;
  using Watches = MetricTypes<M>;
  using Stateless = ByChoice;  // a sweep does not go on in another process
  static constexpr Order order = Order::checkpoint;
  static constexpr std::string_view reads = "the sweep's metric", writes = "the end of training";

  explicit Probe(M metric) : metric_(metric) {}
  Probe(M metric, std::shared_ptr<Race> race, std::size_t member)
      : metric_(metric), race_(std::move(race)), member_(member) {}

  /// The member's place in the space, from 0: for a folder of its own, say.
  std::size_t member() const { return member_; }

  void on_train_batch_end() { go_on(); }
  void on_validation_batch_end() { go_on(); }
  Stop on_train_epoch_end(auto& ctx) {
    if (!race_ || race_->is_over() || !watch::in_fit(ctx)) return Stop{false};
    auto const value = ctx.value(metric_);
    auto const last = ctx.options().max_epochs;
    bool const is_last = last && *last >= 0 && ctx.current_epoch() + 1 >= *last;
    return Stop{!race_->epoch_ended(member_, ctx.current_epoch(), value, is_last || ctx.stop_requested())};
  }

 private:
  void go_on() const {
    if (race_ && !race_->is_over()) race_->go_on();
  }

  [[no_unique_address]] M metric_;
  std::shared_ptr<Race> race_ = nullptr;  // the trainer of the best member outlives the sweep
  std::size_t member_ = 0;
};

}  // namespace fulgurite::tune
