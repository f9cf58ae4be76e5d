#pragma once
// A strategy whose training steps are recorded and replayed.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/policy/captured.hpp>
#include <fulgurite/torch/capture/report.hpp>

namespace fulgurite::libtorch::capture {

/// `Base` with its steps handed to `Steps` (CapturedSteps<...>, or TapesOrGraphs), which runs them as `Base` does or
/// replays them.
template <class Base, class Steps>
class Capturing : public Base {
 public:
  static constexpr bool captures = true;
  using AsWritten = Base;  ///< the strategy that runs the same steps without replays

  explicit Capturing(Base strategy, CaptureOptions options = {}) : Base(std::move(strategy)), options_(options) {}

  std::shared_ptr<CaptureReport const> report() const { return report_; }
  /// The same in lines of text, which describe(trainer) prints.
  std::vector<std::string> account() const {
    auto lines = capture::account(*report_);
    for (auto& line : Base::account()) lines.push_back(std::move(line));
    return lines;
  }

  template <class Model, class Precision>
  void setup(Model& model, Precision const& precision) {
    steps_.teardown();
    Base::setup(model, precision);
    steps_.setup(model, this->device());
  }
  template <class Model>
  void teardown(Model& model) {
    steps_.teardown();
    Base::teardown(model);
  }

  void backward(at::Tensor const& loss, at::Tensor const& seed) {
    steps_.backward(seed, [&] { Base::backward(loss, seed); });
  }
  template <class Batch, class Board, class Seam>
  auto gradients(StepKey key, Batch& batch, Board& board, Seam& seam) {
    auto const products = Base::matmul_scope();  // a tape takes the products that the scope it is made in wants
    return steps_.gradients(static_cast<Base&>(*this), key, batch, board, seam);
  }

  // What the loops ask of a strategy whose replays may be wrong; CapturedSteps says what each is.
  long unchecked() const { return steps_.unchecked(); }
  bool half_checked() const { return steps_.half_checked(); }
  template <class Board, class Seam>
  void confirm(Board& board, Seam& seam) {
    steps_.confirm(static_cast<Base&>(*this), board, seam);
  }
  bool may_replay() const { return steps_.may_replay(); }
  void give_up(std::string const& reason) { steps_.give_up(reason); }
  long replays() const { return report_->replayed + report_->dropped; }
  /// A wrong replay can be made good by going back.
  bool goes_back() const { return options_.go_back; }
  /// say(identifier, sentence) for each warning that was not said yet.
  template <class Say>
  void tell(Say&& say) {
    capture::tell(*report_, say);
  }

 private:
  CaptureOptions options_;
  std::shared_ptr<CaptureReport> report_ = std::make_shared<CaptureReport>();
  Steps steps_{report_};
};

}  // namespace fulgurite::libtorch::capture
