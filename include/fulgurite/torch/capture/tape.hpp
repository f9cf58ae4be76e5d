#pragma once
// A recorded step, made ready to be run again. It gets memory of its own; views and calls without effect are left out;
// where an operator allocates its results, their memory takes the place of what the recorded step had.

#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/torch/capture/direct_gradients.hpp>
#include <fulgurite/torch/capture/later_additions.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/live_calls.hpp>
#include <fulgurite/torch/capture/out_form.hpp>
#include <fulgurite/torch/capture/small_trial.hpp>
#include <fulgurite/torch/capture/tape_memory.hpp>
#include <fulgurite/torch/capture/tape_product.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>

namespace fulgurite::libtorch::capture {

/// A step that can be replayed: made of the calls that a Listing has found fit, with memory of its own. A replay gives
/// the bits of the code on that batch, or the step should not have been recorded; nothing but the batch is checked
/// here.
class Tape : TapeMemory {
 public:
  /// Takes over the calls of a step that `listing` has found fit. `leaving`: the tensors that the step returned and
  /// logged, in order. `parameters`: of the model, of which some may want their gradients looked at.
  Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch,
       std::vector<at::Tensor> leaving, at::Tensor seed, std::vector<at::Tensor> const& parameters)
      : TapeMemory(std::move(calls), std::move(leaving)), seed_(std::move(seed)) {
    facts_.recorded = calls_.size();
    auto const alive = live_calls(calls_, leaving_, listing, facts_);
    std::vector<std::optional<OutForm>> forms(calls_.size());
    for (std::size_t i = 0; i != calls_.size(); ++i)
      if (alive[i]) forms[i] = out_form(calls_[i]);  // tried while the values of the step are still there
    DirectGradients const gradients(calls_, alive, forms, listing, leaving_);
    LaterAdditions const later(calls_, alive, gradients, listing, leaving_);
    std::vector<native::Plan const*> plans(calls_.size());
    std::vector<at::Tensor const*> places(calls_.size());
    std::vector<std::optional<native::SmallCall>> small(calls_.size());
    for (std::size_t i = 0; i != calls_.size(); ++i) {
      if (!alive[i] || !forms[i]) continue;
      places[i] = gradients.place_of(i);
      auto const* const onto = places[i] ? nullptr : later.place_of(i);
      if (onto && (plans[i] = plan_of(calls_[i], false, onto))) places[i] = onto;
      else plans[i] = plan_of(calls_[i], places[i] != nullptr);
      if (!plans[i]) small[i] = small_call(calls_[i], *forms[i], places[i]);
    }
    for (auto& call : calls_)
      for (auto& [storage, version] : call.written)
        if (listing.is_world(storage)) versions_.push_back(version);
    own_memory(listing, batch);
    std::vector<TapeStep> constants;
    for (std::size_t i = 0; i != calls_.size(); ++i) {
      if (!alive[i]) continue;
      if (auto instead = gradients.instead_of(i)) {
        ++facts_.direct;
        auto const maker = gradients.added_by(i);
        bool const added = maker && plans[*maker];  // as the product was stored
        if (!instead->tensors.empty() && !added) steps_.push_back({std::move(*instead), {}});
        continue;
      }
      if (auto const product = later.product_of(i); product && places[*product] == later.place_of(*product)) {
        ++facts_.direct;
        continue;
      }
      if (plans[i]) {
        steps_.push_back({Product(*plans[i], calls_[i], places[i]), {}});
        ++facts_.out_forms;
        ++facts_.products;
        ++facts_.replayed;
        continue;
      }
      if (small[i]) {
        steps_.push_back({std::move(*small[i]), {}});
        ++facts_.out_forms;
        ++facts_.small;
        ++facts_.replayed;
        continue;
      }
      at::Tensor before;
      if (forms[i] && !forms[i]->before.empty()) {
        before = scratch_like(calls_[i].in[0].toTensor());
        auto const& form = forms[i]->before.front();
        steps_.push_back(
            {TapeStep::finished({form.op, form.stack(calls_[i].in, {before}), 1, calls_[i].graph, false, {}, {}}), {}});
      }
      auto const* const place = gradients.place_of(i);
      auto step = forms[i] ? TapeStep::written_to(calls_[i], *forms[i], place, before) : TapeStep::adopting(calls_[i]);
      if (forms[i]) ++facts_.out_forms;
      if (forms[i] && forms[i]->rows)
        steps_.push_back(
            {Memory{Memory::Kind::repeat, {calls_[i].in[*forms[i]->rows].toTensor(), step.in[0].toTensor()}}, {}});
      if (is_constant(calls_[i])) {
        ++facts_.constants;
        constants.push_back(std::move(step));
      } else {
        steps_.push_back({std::move(step), {}});
        if (forms[i] && forms[i]->divisor != 1)
          steps_.push_back(
              {Memory{Memory::Kind::divide, {place ? *place : calls_[i].out[0].toTensor()}, forms[i]->divisor}, {}});
        ++facts_.replayed;
      }
    }
    add_looks(steps_, parameters);
    for (std::size_t i = 0; i != steps_.size(); ++i)
      if (std::holds_alternative<TapeLook>(steps_[i].what)) looks_.push_back(i);
    share_memory(constants);
    Graphs const graphs;
    c10::impl::ExcludeDispatchKeyGuard const below(above_kernels());
    for (auto const& step : constants) step.run(stack_);
  }
  Tape(Tape const&) = delete;
  Tape& operator=(Tape const&) = delete;

  /// Runs the step once more, on this batch, which has the layout of the recorded one.
  void replay(std::vector<at::Tensor> const& batch) {
    for (std::size_t i = 0; i != inputs_.size(); ++i)
      if (inputs_[i].defined() && inputs_[i].numel() != 0)
        std::memcpy(inputs_[i].data_ptr(), batch[i].const_data_ptr(), batch[i].nbytes());
    Graphs const graphs;
    c10::impl::ExcludeDispatchKeyGuard const below(above_kernels());
    for (auto& [what, done] : steps_) {
      if (auto const* call = std::get_if<TapeStep>(&what)) call->run(stack_);
      else if (auto const* product = std::get_if<Product>(&what)) product->run();
      else if (auto const* small = std::get_if<native::SmallCall>(&what)) small->run();
      else if (auto const* memory = std::get_if<Memory>(&what)) memory->run();
      else std::get<TapeLook>(what).run();
      for (auto const storage : done) storage->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
    }
    for (auto& version : versions_) version.bump();
    for (auto const look : looks_) std::get<TapeLook>(steps_[look].what).tell();
  }

  /// What leaves the step, as the last replay has computed it. The next replay overwrites it.
  std::vector<at::Tensor> const& leaving() const { return leaving_; }
  TapeFacts const& facts() const { return facts_; }

  /// f(generator) for each generator that the step names in a call.
  template <class F>
  void each_generator(F&& f) const {
    for (auto const& call : calls_)
      for (IValue const& value : call.in)
        if (value.isGenerator()) f(value.toGenerator());
  }

 private:
  class Graphs {
   public:
    ~Graphs() { c10::GradMode::set_enabled(outer_); }

   private:
    bool outer_ = c10::GradMode::is_enabled();
  };

  at::Tensor seed_;                             ///< held, so that its values stay as long as the tape
  std::vector<c10::VariableVersion> versions_;  ///< of the model's tensors: a replay moves them as the step did
  Stack stack_;
  std::vector<std::size_t> looks_;  ///< which of the steps are looks
};

}  // namespace fulgurite::libtorch::capture
