#pragma once
// A recorded step made ready to be run again: memory of its own, views and dead calls left out, results adopted where the step's were.

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

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/capture/direct_gradients.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/out_form.hpp>

namespace fulgurite::libtorch::capture {

/// What describes a tape to a person.
struct TapeFacts {
  std::size_t recorded = 0, replayed = 0, views = 0, constants = 0, dead = 0, out_forms = 0, direct = 0;
  std::size_t bytes = 0;  ///< kept for what the step computes
};

class Tape {
 public:
  /// Takes over the calls of a step that `listing` found fit; `leaving`: the tensors that it returned and logged, in order.
  Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch, std::vector<at::Tensor> leaving, at::Tensor seed)
      : calls_(std::move(calls)), leaving_(std::move(leaving)), seed_(std::move(seed)) {
    facts_.recorded = calls_.size();
    auto const alive = live(listing);
    std::vector<std::optional<OutForm>> forms(calls_.size());
    for (std::size_t i = 0; i != calls_.size(); ++i)
      if (alive[i]) forms[i] = out_form(calls_[i]);  // tried while the values of the step are still there
    DirectGradients const gradients(calls_, alive, forms, listing, leaving_);
    for (auto& call : calls_)
      for (auto& [storage, version] : call.written)
        if (listing.is_world(storage)) versions_.push_back(version);
    own_memory(listing, batch);
    Graphs const graphs;
    for (std::size_t i = 0; i != calls_.size(); ++i) {
      if (!alive[i]) continue;
      if (auto instead = gradients.instead_of(i)) {
        ++facts_.direct;
        if (!instead->tensors.empty()) steps_.emplace_back(std::move(*instead));
        continue;
      }
      auto step = forms[i] ? written_to(calls_[i], *forms[i], gradients.place_of(i)) : adopting(calls_[i]);
      if (forms[i]) ++facts_.out_forms;
      if (forms[i] && forms[i]->rows) steps_.emplace_back(Memory{Memory::Kind::repeat, {calls_[i].in[*forms[i]->rows].toTensor(), step.in[0].toTensor()}});
      if (is_constant(calls_[i])) {
        ++facts_.constants;
        c10::impl::ExcludeDispatchKeyGuard const below(above());
        run(step);
      } else {
        steps_.emplace_back(std::move(step));
        ++facts_.replayed;
      }
    }
  }
  Tape(Tape const&) = delete;
  Tape& operator=(Tape const&) = delete;

  /// The step once more, on this batch (of the layout that was recorded).
  void replay(std::vector<at::Tensor> const& batch) {
    for (std::size_t i = 0; i != inputs_.size(); ++i)
      if (inputs_[i].defined() && inputs_[i].numel() != 0) std::memcpy(inputs_[i].data_ptr(), batch[i].const_data_ptr(), batch[i].nbytes());
    Graphs const graphs;
    c10::impl::ExcludeDispatchKeyGuard const below(above());
    for (auto const& step : steps_) {
      if (auto const* call = std::get_if<Step>(&step)) run(*call);
      else std::get<Memory>(step).run();
    }
    for (auto& version : versions_) version.bump();
  }

  /// What left the step, as the last replay has computed it; the next one overwrites it.
  std::vector<at::Tensor> const& leaving() const { return leaving_; }
  TapeFacts const& facts() const { return facts_; }

  /// f(generator) for each that the step draws from by name.
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
  class Graphs {
   public:
    ~Graphs() { c10::GradMode::set_enabled(outer_); }

   private:
    bool outer_ = c10::GradMode::is_enabled();
  };

  static c10::DispatchKeySet above() {
    return c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) | c10::autocast_dispatch_keyset;
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

  /// Everybody who looks at `into` or a view of it sees the new values.
  static void adopt(at::Tensor const& made, at::Tensor const& into, Step const& step) {
    if (!made.defined() || !same_layout(made, into) || storage_of(made)->nbytes() != storage_of(into)->nbytes()) [[unlikely]]
      throw Error("fulgurite.capture.layout", c10::toString(step.op.operator_name()) + " returned a tensor of another shape in a replay than when the step "
                                              "was recorded: use the strategy without Captured, and report this");
    std::swap(storage_of(made)->_mutable_data_ptr_no_checks(), storage_of(into)->_mutable_data_ptr_no_checks());
  }

  /// Which calls are run again. Whatever is not known to be free of effects is.
  std::vector<bool> live(Listing const& listing) {
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
      bool const pure = (call.op.hasTag(at::Tag::pointwise) || factory || one_of(name, {"aten::fill_", "aten::zero_", "aten::copy_"})) &&
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

  bool is_constant(Call const& call) const {
    if (!is_constant_factory(call.name())) return false;
    bool constant = true;
    each_tensor_of(call.out, [&](at::Tensor const& tensor) { constant = constant && !rewritten_.contains(storage_of(tensor)); });
    return constant;
  }

  /// What the step computes, and its batch, get memory that nobody else has seen. Bytes that no call sets are conspicuous.
  void own_memory(Listing const& listing, std::vector<at::Tensor> const& batch) {
    std::unordered_map<Storage, at::Storage> own;
    auto const fresh = [&](std::size_t bytes) {
      at::Storage storage(at::Storage::use_byte_size_t(), static_cast<std::int64_t>(bytes), c10::GetCPUAllocator(), true);
      if (bytes != 0) std::memset(storage.mutable_data(), 0xff, bytes);
      facts_.bytes += bytes;
      return storage;
    };
    for (auto const& tensor : batch) {
      if (!tensor.defined()) {
        inputs_.emplace_back();
        continue;
      }
      auto const item = static_cast<std::int64_t>(tensor.itemsize());
      auto const offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64) / item;
      auto input = frozen(tensor);
      input.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh(static_cast<std::size_t>(tensor.numel() + offset) * static_cast<std::size_t>(item)));
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
        auto const mine = found != own.end() ? found->second : own.emplace(storage, fresh(storage->nbytes())).first->second;
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

  /// `place`: of its only result, where that is not its own memory.
  static Step written_to(Call const& call, OutForm const& form, at::Tensor const* place) {
    Stack const results = place ? Stack{*place} : call.out;
    return finished({form.op, form.stack(call.in, results), results.size(), call.graph, false, {}, {}});
  }

  static Step adopting(Call const& call) {
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

  /// Where the CPU's kernel is the next in line anyway, it is called without asking.
  static Step finished(Step step) {
    c10::DispatchKeySet keys;
    each_tensor_of(step.in, [&](at::Tensor const& tensor) { keys = keys | tensor.key_set(); });
    keys = keys - above();
    step.straight = keys.highestPriorityTypeId() == c10::DispatchKey::CPU && step.op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
    step.keys = keys;
    return step;
  }

  std::vector<Call> calls_;
  std::vector<std::variant<Step, Memory>> steps_;
  std::vector<at::Tensor> inputs_, leaving_;
  at::Tensor seed_;  ///< keeps its values as long as the tape
  std::vector<c10::VariableVersion> versions_;  ///< of the model's tensors: a replay moves them as the step did
  std::vector<at::Storage> retired_;
  std::unordered_set<Storage> rewritten_;
  TapeFacts facts_;
  Stack stack_;
};

}  // namespace fulgurite::libtorch::capture
