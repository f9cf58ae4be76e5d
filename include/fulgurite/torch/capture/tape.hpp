#pragma once
// A recorded step, made ready to be run again. It gets memory of its own; views and calls without effect are left out;
// where an operator allocates its results, their memory takes the place of what the recorded step had.

#include <cstddef>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/direct_gradients.hpp>
#include <fulgurite/torch/capture/later_additions.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/live_calls.hpp>
#include <fulgurite/torch/capture/memory_plan.hpp>
#include <fulgurite/torch/capture/out_form.hpp>
#include <fulgurite/torch/capture/small_trial.hpp>
#include <fulgurite/torch/capture/tape_product.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>

namespace fulgurite::libtorch::capture {

/// A step that can be replayed: made of the calls that a Listing has found fit, with memory of its own. A replay gives
/// the bits of the code on that batch, or the step should not have been recorded; nothing but the batch is checked
/// here.
class Tape {
 public:
  /// Takes over the calls of a step that `listing` has found fit. `leaving`: the tensors that the step returned and
  /// logged, in order.
  Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch,
       std::vector<at::Tensor> leaving, at::Tensor seed)
      : calls_(std::move(calls)), leaving_(std::move(leaving)), seed_(std::move(seed)) {
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
    for (auto const& [what, done] : steps_) {
      if (auto const* call = std::get_if<TapeStep>(&what)) call->run(stack_);
      else if (auto const* product = std::get_if<Product>(&what)) product->run();
      else if (auto const* small = std::get_if<native::SmallCall>(&what)) small->run();
      else std::get<Memory>(what).run();
      for (auto const storage : done) storage->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
    }
    for (auto& version : versions_) version.bump();
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
  struct Entry {
    std::variant<TapeStep, Memory, Product, native::SmallCall> what;
    std::vector<Storage>
        done;  ///< adopted memory that is not needed any more; what is made next finds it in the caches
  };
  class Graphs {
   public:
    ~Graphs() { c10::GradMode::set_enabled(outer_); }

   private:
    bool outer_ = c10::GradMode::is_enabled();
  };

  FULGURITE_COLD bool is_constant(Call const& call) const {
    if (!is_constant_factory(call.name())) return false;
    bool constant = true;
    each_tensor_of(call.out,
                   [&](at::Tensor const& tensor) { constant = constant && !rewritten_.contains(storage_of(tensor)); });
    return constant;
  }

  /// Gives the batch, and all that the step computes, storages that nobody else has seen. Those of the latter have no
  /// memory yet.
  FULGURITE_COLD void own_memory(Listing const& listing, std::vector<at::Tensor> const& batch) {
    std::unordered_map<Storage, at::Storage> own;
    for (auto const& tensor : batch) {
      if (!tensor.defined()) {
        inputs_.emplace_back();
        continue;
      }
      auto const item = static_cast<std::int64_t>(tensor.itemsize());
      auto const offset =
          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64) / item;
      auto input = frozen(tensor);
      input.unsafeGetTensorImpl()->set_storage_keep_dtype(
          without_memory(static_cast<std::size_t>(tensor.numel() + offset) * static_cast<std::size_t>(item)));
      fill(storage_of(input));
      input.unsafeGetTensorImpl()->set_storage_offset(offset);
      inputs_.push_back(std::move(input));
    }
    auto const change = [&](at::Tensor const& tensor) {
      auto const [kind, number] = listing.role(tensor);
      auto* impl = tensor.unsafeGetTensorImpl();
      if (kind == Role::Kind::batch) {
        auto const offset = tensor.storage_offset() - batch[number].storage_offset() + inputs_[number].storage_offset();
        impl->set_storage_keep_dtype(inputs_[number].storage());
        impl->set_storage_offset(offset);
      } else if (kind == Role::Kind::made) {
        auto const storage = storage_of(tensor);
        auto const found = own.find(storage);
        auto const mine =
            found != own.end() ? found->second : own.emplace(storage, without_memory(storage->nbytes())).first->second;
        made_.insert(mine.unsafeGetStorageImpl());
        if (listing.rewritten.contains(storage)) rewritten_.insert(mine.unsafeGetStorageImpl());
        retired_.push_back(tensor.storage());
        impl->set_storage_keep_dtype(mine);
      }
    };
    for (auto& call : calls_) {
      each_tensor_of(call.in, change);
      each_tensor_of(call.out, change);
    }
    for (auto const& tensor : leaving_) change(tensor);
    retired_.clear();
  }
  static at::Storage without_memory(std::size_t bytes) {
    return {at::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, at::kCPU), c10::GetCPUAllocator(), true};
  }
  /// A tensor of the same shape that only the tape knows.
  FULGURITE_COLD at::Tensor scratch_like(at::Tensor const& tensor) {
    auto scratch = detached(tensor);
    scratch.unsafeGetTensorImpl()->set_storage_keep_dtype(without_memory(tensor.nbytes()));
    scratch.unsafeGetTensorImpl()->set_storage_offset(0);
    made_.insert(storage_of(scratch));
    return scratch;
  }
  /// Gives the storage memory in which bytes that no call sets are easy to notice.
  FULGURITE_COLD void fill(Storage storage) {
    if (storage->nbytes() == 0) return;
    storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(storage->nbytes()));
    std::memset(storage->mutable_data(), 0xff, storage->nbytes());
    facts_.bytes += storage->nbytes();
  }

  /// Gives memory to what the step computes. What leaves the step, constants, and memory that the step itself asks for
  /// and may fill in part have places of their own. Results that are adopted bring their memory along, which is freed
  /// after its last use.
  FULGURITE_COLD void share_memory(std::vector<TapeStep> const& constants) {
    std::unordered_set<Storage> alone;
    for (auto const& tensor : leaving_) alone.insert(storage_of(tensor));
    for (auto const& step : constants) {
      each_tensor_of(step.in, [&](at::Tensor const& tensor) { alone.insert(storage_of(tensor)); });
      for (auto const& adopted : step.adopted) alone.insert(storage_of(adopted.into));
    }
    for (auto const& call : calls_)
      if (is_empty_factory(call.name()))
        each_tensor_of(call.out, [&](at::Tensor const& tensor) { alone.insert(storage_of(tensor)); });
    for (auto const storage : alone) {
      plan_.leave_out(storage);
      if (made_.contains(storage)) fill(storage);
    }
    std::vector<Storage> adopted;
    for (std::size_t i = 0; i != steps_.size(); ++i) {
      auto const use = [&](at::Tensor const& tensor) {
        if (made_.contains(storage_of(tensor))) plan_.use(storage_of(tensor), i);
      };
      if (auto const* call = std::get_if<TapeStep>(&steps_[i].what)) {
        each_tensor_of(call->in, use);
        for (auto const& result : call->adopted) {
          use(result.into);
          plan_.leave_out(storage_of(result.into));
          if (!alone.contains(storage_of(result.into))) adopted.push_back(storage_of(result.into));
        }
      } else if (auto const* product = std::get_if<Product>(&steps_[i].what)) {
        for (auto const* tensor : {&product->a, &product->b, &product->c, &product->start})
          if (tensor->defined()) use(*tensor);
      } else if (auto const* small = std::get_if<native::SmallCall>(&steps_[i].what)) {
        for (auto const* tensors : {&small->in, &small->out})
          for (auto const& tensor : *tensors) use(tensor);
      } else {
        for (auto const& tensor : std::get<Memory>(steps_[i].what).tensors) use(tensor);
      }
    }
    for (auto const storage : adopted) steps_[plan_.last_use(storage)].done.push_back(storage);
    plan_.lay_out();
    facts_.bytes += plan_.bytes();
  }

  MemoryPlan plan_;
  std::vector<Call> calls_;
  std::vector<Entry> steps_;
  std::vector<at::Tensor> inputs_, leaving_;
  at::Tensor seed_;                             ///< held, so that its values stay as long as the tape
  std::vector<c10::VariableVersion> versions_;  ///< of the model's tensors: a replay moves them as the step did
  std::vector<at::Storage> retired_;
  std::unordered_set<Storage> made_, rewritten_;
  TapeFacts facts_;
  Stack stack_;
};

}  // namespace fulgurite::libtorch::capture
