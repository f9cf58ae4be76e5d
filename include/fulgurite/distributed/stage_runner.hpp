#pragma once
// The stages of one process: what comes from the process before goes through them and on to the next, and the
// gradients come back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/channel.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/stages.hpp>

namespace fulgurite::distributed {

/// Between `forward` and `backward` of a micro batch it keeps what went in and what came out.
class StageRunner final : public StageRun {
 public:
  StageRunner(Group& group, torch::nn::Module const& model, std::vector<NamedStage> own)
      : group_(&group), model_(&model), own_(std::move(own)) {
    current() = this;
    int const rank = group.place().rank;
    using enum Channel::Direction;
    if (!is_first()) {
      from_before_.emplace(group, from, rank - 1);
      to_before_.emplace(group, to, rank - 1);
    }
    if (!is_last()) {
      to_next_.emplace(group, to, rank + 1);
      from_next_.emplace(group, from, rank + 1);
    }
  }
  StageRunner(StageRunner const&) = delete;
  StageRunner& operator=(StageRunner const&) = delete;
  ~StageRunner() {
    if (current() == this) current() = nullptr;
  }
  bool is_first() const { return group_->place().rank == 0; }
  bool is_last() const { return group_->place().rank + 1 == group_->place().world; }

  /// A batch begins, of so many micro batches.
  void begin(int micro_batches) {
    kept_.clear();
    kept_.resize(static_cast<std::size_t>(micro_batches));
  }
  /// Calls step(), in which `through_stages` does this process's part; whether it went on to its end. `fingerprint`: of
  /// the batch, which has to be the others'.
  template <class Step>
  bool forward(int micro_batch, std::int64_t fingerprint, Step&& step) {
    at_ = micro_batch;
    fingerprint_ = fingerprint;
    has_run_ = false;
    struct Scope {
      bool& in_step;
      ~Scope() { in_step = false; }
    } const scope{in_step_};
    in_step_ = true;
    try {
      step();
    } catch (StagesEnd) { return false; }
    if (has_run_ && !is_last())
      throw Error("fulgurite.pipeline.caught",
                  "a step has caught what through_stages(model, x) ends it with on all processes but the last, by "
                  "catch (...), and went on without an output: catch std::exception, which that is not");
    if (!has_run_)
      throw Error("fulgurite.pipeline.unused", "a step did not call through_stages(model, x), so no stage has run: a "
                                               "model for Pipeline calls it in the forward of each of its steps");
    return true;
  }
  /// The gradients of what this process has computed of a micro batch. On the last one the loss has been gone back from
  /// already.
  void backward(int micro_batch) {
    has_trained_ = true;
    auto [input, output] = std::exchange(kept_.at(static_cast<std::size_t>(micro_batch)), {});
    if (!is_last() && output.requires_grad()) {
      auto const gradient = at::empty(output.sizes(), output.options().requires_grad(false));
      from_next_->post(gradient);
      from_next_->wait("gradients of the next stages");
      output.backward(gradient);
    }
    if (is_first() || !input.requires_grad()) return;
    auto gradient = input.grad();
    if (!gradient.defined()) gradient = at::zeros_like(input);  // the stages make nothing of it
    to_before_->post(gradient.detach().contiguous());
  }
  /// What was sent has arrived.
  void finish() {
    if (to_next_) to_next_->wait("the next stages to take activations");
    if (to_before_) to_before_->wait("the stages before to take gradients");
  }

  std::vector<std::string> account() const {
    long messages = 0, bytes = 0;
    for (auto const* channel : {&to_next_, &to_before_})
      if (*channel) messages += (*channel)->messages(), bytes += (*channel)->bytes();
    return {std::to_string(messages) + " messages to other stages, " + std::to_string(bytes) + " bytes in all"};
  }

  /// By through_stages, as `run` is.
  bool is_in_step(torch::nn::Module const& model) const override {
    if (&model != model_ || in_step_) return &model == model_;
    if (has_trained_ && group_->place().world != 1)
      throw Error(
          "fulgurite.pipeline.hook",
          "through_stages(model, x) is called outside of a step, where rank " + std::to_string(group_->place().rank) +
              " has old weights of the other processes' stages: call it in a step, or train by another strategy");
    return false;
  }
  at::Tensor run(at::Tensor x) override {
    if (std::exchange(has_run_, true))
      throw Error("fulgurite.pipeline.twice", "a step calls through_stages(model, x) a second time, where the other "
                                              "processes are done with it: give the stages all inputs at once");
    if (!is_first()) x = receive();
    auto output = x;
    for (auto const& stage : own_) output = stage.forward(std::move(output));
    if (at::GradMode::is_enabled()) kept_.at(static_cast<std::size_t>(at_)) = {x, output};
    if (is_last()) return output;
    send(output);
    throw StagesEnd{};
  }

 private:
  // What is told of activations before they come.
  struct Told {
    enum At : std::size_t { batch, micro_batch, type, wants_gradient, dimensions, first_size };
  };
  static constexpr std::size_t most_dimensions = 10;
  using Header = std::array<std::int64_t, Told::first_size + most_dimensions>;

  static at::Tensor room_for_header() {
    return at::empty({static_cast<std::int64_t>(std::tuple_size_v<Header>)}, at::TensorOptions().dtype(at::kLong));
  }
  void send(at::Tensor const& output) {
    if (output.dim() > static_cast<std::int64_t>(most_dimensions) || !output.is_cpu() || output.is_sparse())
      throw Error("fulgurite.pipeline.activation",
                  "what a stage hands to the next process is a dense tensor on the CPU, of " +
                      std::to_string(most_dimensions) + " dimensions at most");
    Header header{};
    header[Told::batch] = fingerprint_;
    header[Told::micro_batch] = at_;
    header[Told::type] = static_cast<std::int64_t>(output.scalar_type());
    header[Told::wants_gradient] = output.requires_grad() ? 1 : 0;
    header[Told::dimensions] = output.dim();
    for (std::int64_t d = 0; d != output.dim(); ++d)
      header.at(Told::first_size + static_cast<std::size_t>(d)) = output.size(d);
    auto const told = room_for_header();
    std::memcpy(told.mutable_data_ptr(), header.data(), sizeof header);
    to_next_->post(told);
    if (output.numel() != 0) to_next_->post(output.detach().contiguous());
  }
  at::Tensor receive() {
    auto const told = room_for_header();
    from_before_->post(told);
    from_before_->wait("activations of the stages before");
    Header header{};
    std::memcpy(header.data(), told.const_data_ptr(), sizeof header);
    if (header[Told::batch] != fingerprint_ || header[Told::micro_batch] != at_)
      throw Error("fulgurite.pipeline.other_batch",
                  "rank " + std::to_string(group_->place().rank) +
                      " has another batch than the rank before it: all "
                      "processes of a pipeline read the same batches in the same order, so give their loaders the same "
                      "seed, and let no sample depend on the rank");
    std::vector<std::int64_t> sizes;
    for (std::int64_t d = 0; d != header[Told::dimensions]; ++d)
      sizes.push_back(header.at(Told::first_size + static_cast<std::size_t>(d)));
    auto input = at::empty(sizes, at::TensorOptions().dtype(static_cast<at::ScalarType>(header[Told::type])));
    if (input.numel() != 0) {
      from_before_->post(input);
      from_before_->wait("activations of the stages before");
    }
    if (header[Told::wants_gradient] != 0 && at::GradMode::is_enabled()) input.requires_grad_();
    return input;
  }

  struct Kept {
    at::Tensor input = {}, output = {};
  };

  Group* group_;
  torch::nn::Module const* model_;
  std::vector<NamedStage> own_;
  std::optional<Channel> from_before_ = {}, to_before_ = {}, to_next_ = {}, from_next_ = {};
  std::vector<Kept> kept_ = {};
  int at_ = 0;
  std::int64_t fingerprint_ = 0;
  bool in_step_ = false, has_run_ = false;
  bool has_trained_ = false;  ///< the weights are no longer everybody's
};

}  // namespace fulgurite::distributed
