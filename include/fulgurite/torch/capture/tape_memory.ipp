#pragma once
// The bodies of torch/capture/tape_memory.hpp.

#include <cstring>

#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/torch/capture/tape_memory.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY void MemoryPlan::use(Storage storage, std::size_t step) {
  auto const [found, first] = uses_.try_emplace(storage, uses_.size(), step, step);
  if (!first) found->second.last = step;
}

FULGURITE_BULK_BODY void MemoryPlan::lay_out() {
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

FULGURITE_BULK_BODY MemoryPlan::Use::Use(std::size_t n, std::size_t from, std::size_t to)
    : number(n), first(from), last(to) {}

FULGURITE_BULK_BODY std::optional<ProductArguments> product_arguments(Call const& call) {
  if (!call.op.operator_name().overload_name.empty()) return std::nullopt;
  auto const name = call.name();
  if (name == "aten::mm" || name == "aten::bmm") return ProductArguments{0, 1, false};
  if (name == "aten::addmm" || name == "aten::baddbmm") return ProductArguments{1, 2, true};
  return std::nullopt;
}

FULGURITE_BULK_BODY native::Plan const* plan_of(Call const& call, bool zeroed, at::Tensor const* onto) {
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

FULGURITE_BULK_BODY Product::Product(native::Plan const& by, Call const& call, at::Tensor const* place)
    : plan(&by), c(place ? *place : call.out[0].toTensor()) {
  auto const where = *product_arguments(call);
  a = call.in[where.a].toTensor();
  b = call.in[where.b].toTensor();
  if (where.adds) start = call.in[0].toTensor();
}

FULGURITE_BULK_BODY void Product::run() const {
  auto const& shape = plan->shape();
  auto* const to = static_cast<float*>(c.mutable_data_ptr());
  auto const* const row = start.defined() ? native::numbers(start) : nullptr;
  if (shape.epilogue == native::Epilogue::onto) std::memcpy(to, row, c.nbytes());
  if (shape.threads == at::get_num_threads()) return plan->run(native::numbers(a), native::numbers(b), to, row);
  native::product_by_libtorch(shape.epilogue, a, b, c, start);  // its bits depend on this start value
}

FULGURITE_BULK_BODY void TapeLook::run() {
  auto const size = static_cast<std::size_t>(gradient.numel());
  if (gradient.scalar_type() == at::kFloat) run<float>(size);
  else run<double>(size);
}

FULGURITE_BULK_BODY void TapeLook::report() const {
  if (seen->looks()) seen->note(gradient, finite);
}

FULGURITE_BULK_BODY TapeMemory::TapeMemory(std::vector<Call> calls, std::vector<at::Tensor> leaving)
    : calls_(std::move(calls)), leaving_(std::move(leaving)) {}

FULGURITE_BULK_BODY bool TapeMemory::is_constant(Call const& call) const {
  if (!is_constant_factory(call.name())) return false;
  bool constant = true;
  each_tensor_of(call.out,
                 [&](at::Tensor const& tensor) { constant = constant && !rewritten_.contains(storage_of(tensor)); });
  return constant;
}

FULGURITE_BULK_BODY void TapeMemory::own_memory(Listing const& listing, std::vector<at::Tensor> const& batch) {
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

FULGURITE_BULK_BODY at::Storage TapeMemory::without_memory(std::size_t bytes) {
  return {at::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, at::kCPU), c10::GetCPUAllocator(), true};
}

FULGURITE_BULK_BODY at::Tensor TapeMemory::scratch_like(at::Tensor const& tensor) {
  auto scratch = detached(tensor);
  scratch.unsafeGetTensorImpl()->set_storage_keep_dtype(without_memory(tensor.nbytes()));
  scratch.unsafeGetTensorImpl()->set_storage_offset(0);
  made_.insert(storage_of(scratch));
  return scratch;
}

FULGURITE_BULK_BODY void TapeMemory::fill(Storage storage) {
  if (storage->nbytes() == 0) return;
  storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(storage->nbytes()));
  std::memset(storage->mutable_data(), 0xff, storage->nbytes());
  facts_.bytes += storage->nbytes();
}

FULGURITE_BULK_BODY void TapeMemory::share_memory(std::vector<TapeStep> const& constants) {
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

}  // namespace fulgurite::libtorch::capture
