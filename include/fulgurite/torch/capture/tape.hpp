#pragma once
// A recorded step, made ready to be run again. It gets memory of its own; views and calls without effect are left out;
// where an operator allocates its results, their memory takes the place of what the recorded step had.

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/capture/direct_gradients.hpp>
#include <fulgurite/torch/capture/later_additions.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/memory_plan.hpp>
#include <fulgurite/torch/capture/out_form.hpp>
#include <fulgurite/torch/capture/tape_product.hpp>

namespace fulgurite::libtorch::capture {

/// Counts that describe a tape to a person.
struct TapeFacts {
  std::size_t recorded = 0, replayed = 0, views = 0, constants = 0, dead = 0, out_forms = 0, direct = 0;
  std::size_t products = 0;  ///< of the replayed, those that a kernel of ours computes
  std::size_t bytes = 0;     ///< kept for what the step computes
};

class Tape {
 public:
  /// Takes over the calls of a step that `listing` has found fit. `leaving`: the tensors that the step returned and
  /// logged, in order.
  Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch,
       std::vector<at::Tensor> leaving, at::Tensor seed)
      : calls_(std::move(calls)), leaving_(std::move(leaving)), seed_(std::move(seed)) {
    facts_.recorded = calls_.size();
    auto const alive = live(listing);
    std::vector<std::optional<OutForm>> forms(calls_.size());
    for (std::size_t i = 0; i != calls_.size(); ++i)
      if (alive[i]) forms[i] = out_form(calls_[i]);  // tried while the values of the step are still there
    DirectGradients const gradients(calls_, alive, forms, listing, leaving_);
    LaterAdditions const later(calls_, alive, gradients, listing, leaving_);
    std::vector<native::Plan const*> plans(calls_.size());
    std::vector<at::Tensor const*> places(calls_.size());
    for (std::size_t i = 0; i != calls_.size(); ++i) {
      if (!alive[i] || !forms[i]) continue;
      places[i] = gradients.place_of(i);
      auto const* const onto = places[i] ? nullptr : later.place_of(i);
      if (onto && (plans[i] = plan_of(calls_[i], false, onto))) places[i] = onto;
      else plans[i] = plan_of(calls_[i], places[i] != nullptr);
    }
    for (auto& call : calls_)
      for (auto& [storage, version] : call.written)
        if (listing.is_world(storage)) versions_.push_back(version);
    own_memory(listing, batch);
    std::vector<Step> constants;
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
      at::Tensor before;
      if (forms[i] && !forms[i]->before.empty()) {
        before = scratch_like(calls_[i].in[0].toTensor());
        auto const& form = forms[i]->before.front();
        steps_.push_back(
            {finished({form.op, form.stack(calls_[i].in, {before}), 1, calls_[i].graph, false, {}, {}}), {}});
      }
      auto const* const place = gradients.place_of(i);
      auto step = forms[i] ? written_to(calls_[i], *forms[i], place, before) : adopting(calls_[i]);
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
    c10::impl::ExcludeDispatchKeyGuard const below(above());
    for (auto const& step : constants) run(step);
  }
  Tape(Tape const&) = delete;
  Tape& operator=(Tape const&) = delete;

  /// Runs the step once more, on this batch, which has the layout of the recorded one.
  void replay(std::vector<at::Tensor> const& batch) {
    for (std::size_t i = 0; i != inputs_.size(); ++i)
      if (inputs_[i].defined() && inputs_[i].numel() != 0)
        std::memcpy(inputs_[i].data_ptr(), batch[i].const_data_ptr(), batch[i].nbytes());
    Graphs const graphs;
    c10::impl::ExcludeDispatchKeyGuard const below(above());
    for (auto const& [what, done] : steps_) {
      if (auto const* call = std::get_if<Step>(&what)) run(*call);
      else if (auto const* product = std::get_if<Product>(&what)) product->run();
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
  struct Adopted {
    std::size_t result, element;
    bool listed;
    at::Tensor into;
  };
  struct Step {
    c10::OperatorHandle op;
    Stack in;
    std::size_t returns;
    bool graph, straight;
    c10::DispatchKeySet keys;
    std::vector<Adopted> adopted;
  };
  struct Entry {
    std::variant<Step, Memory, Product> what;
    std::vector<Storage>
        done;  ///< adopted memory that is not needed any more; what is made next finds it in the caches
  };
  class Graphs {
   public:
    ~Graphs() { c10::GradMode::set_enabled(outer_); }

   private:
    bool outer_ = c10::GradMode::is_enabled();
  };

  static c10::DispatchKeySet above() {
    return c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) |
           c10::autocast_dispatch_keyset;
  }

  void run(Step const& step) {
    if (c10::GradMode::is_enabled() != step.graph) c10::GradMode::set_enabled(step.graph);
    stack_.clear();
    stack_.insert(stack_.end(), step.in.begin(), step.in.end());
    if (step.straight) step.op.redispatchBoxed(step.keys, &stack_);
    else step.op.callBoxed(stack_);
    if (step.adopted.empty()) return;
    auto const first = stack_.size() - step.returns;
    for (auto const& adopted : step.adopted) {
      IValue const& value = stack_[first + adopted.result];
      adopt(adopted.listed ? value.toListRef()[adopted.element].toTensor() : value.toTensor(), adopted.into, step);
    }
  }

  /// Gives the memory of `made` to `into`, so that whoever looks at `into`, or at a view of it, sees the new values.
  FULGURITE_COLD static void adopt(at::Tensor const& made, at::Tensor const& into, Step const& step) {
    if (!made.defined() || !same_layout(made, into) || storage_of(made)->nbytes() != storage_of(into)->nbytes())
        [[unlikely]]
      throw Error("fulgurite.capture.layout", c10::toString(step.op.operator_name()) +
                                                  " returned a tensor of another shape in a replay than when the step "
                                                  "was recorded: use the strategy without Captured, and report this");
    swap_memory(*storage_of(made), *storage_of(into));
  }

  /// Which calls are run again: all that are not known to be without effect.
  FULGURITE_COLD std::vector<bool> live(Listing const& listing) {
    std::unordered_set<Storage> needed;
    for (auto const& tensor : leaving_) needed.insert(storage_of(tensor));
    auto const touches = [&](Stack const& values) {
      bool any = false;
      each_tensor_of(values, [&](at::Tensor const& tensor) {
        any = any || needed.contains(storage_of(tensor)) || listing.role(tensor).kind != Role::Kind::made;
      });
      return any;
    };
    std::vector<bool> alive(calls_.size());
    for (std::size_t i = calls_.size(); i-- > 0;) {
      auto const& call = calls_[i];
      auto const name = call.name();
      if (listing.view[i]) {
        ++facts_.views;
        continue;
      }
      bool const factory = is_empty_factory(name) || is_constant_factory(name);
      bool const pure = (call.op.hasTag(at::Tag::pointwise) || factory ||
                         one_of(name, {"aten::fill_", "aten::zero_", "aten::copy_"})) &&
                        !call.op.hasTag(at::Tag::nondeterministic_seeded);
      bool const unseen = !touches(call.out) && !(call.op.schema().is_mutable() && touches(call.in));
      if (is_empty_factory(name) || (pure && unseen)) {
        ++facts_.dead;
        continue;
      }
      alive[i] = true;
      each_tensor_of(call.in, [&](at::Tensor const& tensor) { needed.insert(storage_of(tensor)); });
    }
    return alive;
  }

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
  FULGURITE_COLD void share_memory(std::vector<Step> const& constants) {
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
      if (auto const* call = std::get_if<Step>(&steps_[i].what)) {
        each_tensor_of(call->in, use);
        for (auto const& result : call->adopted) {
          use(result.into);
          plan_.leave_out(storage_of(result.into));
          if (!alone.contains(storage_of(result.into))) adopted.push_back(storage_of(result.into));
        }
      } else if (auto const* product = std::get_if<Product>(&steps_[i].what)) {
        for (auto const* tensor : {&product->a, &product->b, &product->c, &product->start})
          if (tensor->defined()) use(*tensor);
      } else {
        for (auto const& tensor : std::get<Memory>(steps_[i].what).tensors) use(tensor);
      }
    }
    for (auto const storage : adopted) steps_[plan_.last_use(storage)].done.push_back(storage);
    plan_.lay_out();
    facts_.bytes += plan_.bytes();
  }

  /// `place`: where its only result goes, if not into the result's own memory.
  FULGURITE_COLD static Step written_to(Call const& call, OutForm const& form, at::Tensor const* place,
                                        at::Tensor const& before) {
    Stack const results = place ? Stack{*place} : call.out;
    return finished({form.op, form.stack(call.in, results, before), results.size(), call.graph, false, {}, {}});
  }

  FULGURITE_COLD static Step adopting(Call const& call) {
    std::unordered_set<Storage> seen;
    each_tensor_of(call.in, [&](at::Tensor const& tensor) { seen.insert(storage_of(tensor)); });
    std::vector<Adopted> adopted;
    for (std::size_t i = 0; i != call.out.size(); ++i) {
      auto const one = [&](IValue const& value, std::size_t element, bool listed) {
        if (value.isTensor() && value.toTensor().defined() && seen.insert(storage_of(value.toTensor())).second)
          adopted.push_back({i, element, listed, value.toTensor()});
      };
      if (call.out[i].isTensorList())
        for (std::size_t e = 0; e != call.out[i].toListRef().size(); ++e) one(call.out[i].toListRef()[e], e, true);
      else one(call.out[i], 0, false);
    }
    return finished({call.op, call.in, call.out.size(), call.graph, false, {}, std::move(adopted)});
  }

  /// If the CPU's kernel would be called next in any case, it is called without the dispatcher.
  FULGURITE_COLD static Step finished(Step step) {
    c10::DispatchKeySet keys;
    each_tensor_of(step.in, [&](at::Tensor const& tensor) { keys = keys | tensor.key_set(); });
    keys = keys - above();
    step.straight = keys.highestPriorityTypeId() == c10::DispatchKey::CPU &&
                    step.op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
    step.keys = keys;
    return step;
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
