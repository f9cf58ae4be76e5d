#pragma once
// The memory of a tape: what a recorded step computes gets places of its own, and shares them where it can.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/native/products.hpp>
#include <fulgurite/torch/native/small_call.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch::capture {

// Where the results of a tape lie: results that are never needed at the same time share their place in memory, as in a
// step that frees what it no longer needs.

/// Gives memory to storages that have none so far. A tape that kept each result in a place of its own would work on
/// several times as much memory as a plain step, and more than fits into the caches: for larger nets that costs more
/// than a replay saves.
class MemoryPlan {
 public:
  MemoryPlan() = default;
  MemoryPlan(MemoryPlan const&) = delete;
  MemoryPlan& operator=(MemoryPlan const&) = delete;

  /// This storage gets its memory elsewhere, or keeps it for good: it shares with no other.
  void leave_out(Storage storage) { apart_.insert(storage); }
  /// The tape's step of this number reads or writes the storage.
  void use(Storage storage, std::size_t step) {
    auto const [found, first] = uses_.try_emplace(storage, uses_.size(), step, step);
    if (!first) found->second.last = step;
  }

  std::size_t last_use(Storage storage) const { return uses_.at(storage).last; }

  /// Gives memory to all storages that were used and not left out. Each place begins at a cache line, as LibTorch's own
  /// memory does, since kernels may add in another order elsewhere.
  FULGURITE_BULK void lay_out() {
    std::vector<std::pair<Storage, Use>> pieces;
    for (auto const& [storage, use] : uses_)
      if (!apart_.contains(storage) && storage->nbytes() != 0) pieces.emplace_back(storage, use);
    sort_seldom(pieces, [](auto const& a, auto const& b) { return a.second.number < b.second.number; });
    std::vector<Place> taken, all;  // taken: in the order of their places
    for (auto const& [storage, use] : pieces) {
      std::erase_if(taken, [&](Place const& place) { return place.last < use.first; });
      auto const size = (storage->nbytes() + line - 1) / line * line;
      std::size_t begin = 0;
      auto at = taken.begin();
      while (at != taken.end() && at->begin < begin + size) begin = (at++)->end;
      taken.insert(at, {storage, begin, begin + size, use.last});
      all.push_back({storage, begin, begin + size, use.last});
      bytes_ = std::max(bytes_, begin + size);
    }
    if (bytes_ == 0) return;
    memory_ = c10::GetCPUAllocator()->allocate(bytes_);
    std::memset(memory_.get(), 0xff, bytes_);
    for (auto const& place : all)
      place.storage->set_data_ptr_noswap({static_cast<char*>(memory_.get()) + place.begin, at::kCPU});
  }

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t line = 64;
  struct Use {
    std::size_t number, first, last;  ///< which one it is in the order of first uses; the steps
    Use(std::size_t n, std::size_t from, std::size_t to) : number(n), first(from), last(to) {}
  };
  struct Place {
    Storage storage;
    std::size_t begin, end, last;
  };

  std::unordered_map<Storage, Use> uses_;
  std::unordered_set<Storage> apart_;
  std::size_t bytes_ = 0;
  at::DataPtr memory_;
};

// A matrix product on a tape: the certified kernel itself, where the recorded step has a product of LibTorch's.

/// Where the arguments of such a call are.
struct ProductArguments {
  std::size_t a, b;
  bool adds;  ///< the first argument is added
};
FULGURITE_BULK std::optional<ProductArguments> product_arguments(Call const& call) {
  if (!call.op.operator_name().overload_name.empty()) return std::nullopt;
  auto const name = call.name();
  if (name == "aten::mm" || name == "aten::bmm") return ProductArguments{0, 1, false};
  if (name == "aten::addmm" || name == "aten::baddbmm") return ProductArguments{1, 2, true};
  return std::nullopt;
}

/// The plan of a recorded product, while its values are still there, where the scope that is open on this thread wants
/// one. `zeroed`: its result goes to a gradient that was cleared before, so that zero is added as it is stored. `onto`:
/// the gradient that it is added to, where that is not nullptr.
FULGURITE_BULK native::Plan const* plan_of(Call const& call, bool zeroed, at::Tensor const* onto = nullptr) {
  using native::Epilogue;
  auto const how = native::on_this_thread();
  auto const where = product_arguments(call);
  if (how == Matmul::libtorch || !where || !call.out[0].toTensor().is_contiguous()) return nullptr;
  auto const &a = call.in[where->a].toTensor(), &b = call.in[where->b].toTensor();
  if (!native::is_plain_float(a) || !native::is_plain_float(b)) return nullptr;
  auto const epilogue =
      where->adds ? native::epilogue_of(call.in[0].toTensor(), a, b, call.in[3].toScalar(), call.in[4].toScalar())
                  : std::optional(zeroed ? Epilogue::zero_plus
                                  : onto ? Epilogue::then_onto
                                         : Epilogue::none);
  if (!epilogue || (where->adds && (zeroed || onto))) return nullptr;
  auto const* const start = where->adds ? native::numbers(call.in[0].toTensor())
                            : onto      ? native::numbers(*onto)
                                        : nullptr;
  return native::plan_of(native::product_shape(a, b, *epilogue), {native::numbers(a), native::numbers(b), start}, how);
}

struct Product {
  native::Plan const* plan;
  at::Tensor a, b, c, start;

  /// `place`: of the result, where that is not its own memory.
  Product(native::Plan const& by, Call const& call, at::Tensor const* place)
      : plan(&by), c(place ? *place : call.out[0].toTensor()) {
    auto const where = *product_arguments(call);
    a = call.in[where.a].toTensor();
    b = call.in[where.b].toTensor();
    if (where.adds) start = call.in[0].toTensor();
  }

  void run() const {
    auto const& shape = plan->shape();
    auto* const to = static_cast<float*>(c.mutable_data_ptr());
    auto const* const row = start.defined() ? native::numbers(start) : nullptr;
    if (shape.epilogue == native::Epilogue::onto) std::memcpy(to, row, c.nbytes());
    if (shape.threads == at::get_num_threads()) return plan->run(native::numbers(a), native::numbers(b), to, row);
    native::product_by_libtorch(shape.epilogue, a, b, c, start);  // its bits depend on that number
  }
};

// Large gradients of a tape, each looked at right after its last write, while it is in the cache: see GradientLooks.

/// One look. Where the last write is 0 + x it is done here, too, a stretch at a time that stays in the first cache.
struct TapeLook {
  std::shared_ptr<SeenGradients> seen;
  at::Tensor gradient, added = {};  ///< the parameter's own handle; x, or undefined
  bool finite = true;

  void run() {
    auto const size = static_cast<std::size_t>(gradient.numel());
    if (gradient.scalar_type() == at::kFloat) run<float>(size);
    else run<double>(size);
  }
  /// When the versions have moved as the recorded step moves them.
  void tell() const {
    if (seen->looks()) seen->note(gradient, finite);
  }

 private:
  static constexpr std::size_t stretch = 4096;

  template <class T>
  void run(std::size_t size) {
    auto* const to = static_cast<T*>(gradient.mutable_data_ptr());
    auto const* const from = added.defined() ? static_cast<T const*>(added.const_data_ptr()) : nullptr;
    bool const looks = seen->looks();
    finite = true;
    if (!from) return void(finite = !looks || all_finite(to, size));
    for (std::size_t i = 0; i < size; i += stretch) {
      auto const length = std::min(stretch, size - i);
      Memory::zero_plus(to + i, from + i, static_cast<std::int64_t>(length));
      if (looks) finite = all_finite(to + i, length) && finite;
    }
  }
};

/// f(tensor) for each tensor that a step of a tape may read or write.
template <class What, class F>
void each_tensor_of_step(What const& what, F f) {
  if (auto const* call = std::get_if<TapeStep>(&what)) {
    each_tensor_of(call->in, f);
    for (auto const& result : call->adopted) f(result.into);
  } else if (auto const* product = std::get_if<Product>(&what)) {
    for (auto const* tensor : {&product->a, &product->b, &product->c, &product->start})
      if (tensor->defined()) f(*tensor);
  } else if (auto const* small = std::get_if<native::SmallCall>(&what)) {
    for (auto const* tensors : {&small->in, &small->out})
      for (auto const& tensor : *tensors) f(tensor);
  } else if (auto const* memory = std::get_if<Memory>(&what)) {
    for (auto const& tensor : memory->tensors) f(tensor);
  } else {
    auto const& look = std::get<TapeLook>(what);
    f(look.gradient);
    if (look.added.defined()) f(look.added);
  }
}

/// The last of the steps that may write to this memory; nullopt: none does.
template <class Steps>
std::optional<std::size_t> last_to_touch(Steps const& steps, at::Tensor const& memory) {
  auto const mine = span_of(memory);
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i != steps.size(); ++i)
    each_tensor_of_step(steps[i].what, [&](at::Tensor const& tensor) {
      if (storage_of(tensor) != storage_of(memory)) return;
      auto const other = span_of(tensor);
      if (other.begin < mine.end && mine.begin < other.end) last = i;
    });
  return last;
}

/// Puts a look behind the last write to each large gradient of these parameters.
template <class Steps>
void add_looks(Steps& steps, std::vector<at::Tensor> const& parameters) {
  using Entry = typename Steps::value_type;
  for (auto const& parameter : parameters) {
    auto const& gradient = parameter.grad();
    auto seen = GradientLooks::seen_of(parameter);
    if (!seen || !gradient.defined() || !gradient.is_non_overlapping_and_dense() ||
        (gradient.scalar_type() != at::kFloat && gradient.scalar_type() != at::kDouble))
      continue;
    auto const last = last_to_touch(steps, gradient);
    if (!last) continue;
    TapeLook look{std::move(seen), gradient};
    auto const* const memory = std::get_if<Memory>(&steps[*last].what);
    if (memory && memory->kind == Memory::Kind::zero_plus && span_of(memory->tensors[0]) == span_of(gradient)) {
      look.added = memory->tensors[1];
      steps[*last].what = std::move(look);
    } else {
      steps.insert(std::next(steps.begin(), static_cast<std::ptrdiff_t>(*last) + 1), Entry{std::move(look), {}});
    }
  }
}

/// The calls of a step, the steps of its tape, and their memory.
class TapeMemory {
 protected:
  struct Entry {
    std::variant<TapeStep, Memory, Product, native::SmallCall, TapeLook> what;
    std::vector<Storage>
        done;  ///< adopted memory that is not needed any more; what is made next finds it in the caches
  };

  TapeMemory(std::vector<Call> calls, std::vector<at::Tensor> leaving)
      : calls_(std::move(calls)), leaving_(std::move(leaving)) {}

  FULGURITE_BULK bool is_constant(Call const& call) const {
    if (!is_constant_factory(call.name())) return false;
    bool constant = true;
    each_tensor_of(call.out,
                   [&](at::Tensor const& tensor) { constant = constant && !rewritten_.contains(storage_of(tensor)); });
    return constant;
  }

  /// Gives the batch, and all that the step computes, storages that nobody else has seen. Those of the latter have no
  /// memory yet.
  FULGURITE_BULK void own_memory(Listing const& listing, std::vector<at::Tensor> const& batch) {
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
  FULGURITE_BULK at::Tensor scratch_like(at::Tensor const& tensor) {
    auto scratch = detached(tensor);
    scratch.unsafeGetTensorImpl()->set_storage_keep_dtype(without_memory(tensor.nbytes()));
    scratch.unsafeGetTensorImpl()->set_storage_offset(0);
    made_.insert(storage_of(scratch));
    return scratch;
  }
  /// Gives the storage memory in which bytes that no call sets are easy to notice.
  FULGURITE_BULK void fill(Storage storage) {
    if (storage->nbytes() == 0) return;
    storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(storage->nbytes()));
    std::memset(storage->mutable_data(), 0xff, storage->nbytes());
    facts_.bytes += storage->nbytes();
  }

  /// Gives memory to what the step computes. What leaves the step, constants, and memory that the step itself asks for
  /// and may fill in part have places of their own. Results that are adopted bring their memory along, which is freed
  /// after its last use.
  FULGURITE_BULK void share_memory(std::vector<TapeStep> const& constants) {
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
      each_tensor_of_step(steps_[i].what, use);
      if (auto const* call = std::get_if<TapeStep>(&steps_[i].what))
        for (auto const& result : call->adopted) {
          plan_.leave_out(storage_of(result.into));
          if (!alone.contains(storage_of(result.into))) adopted.push_back(storage_of(result.into));
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
  std::vector<at::Storage> retired_;
  std::unordered_set<Storage> made_, rewritten_;
  TapeFacts facts_;
};

}  // namespace fulgurite::libtorch::capture
