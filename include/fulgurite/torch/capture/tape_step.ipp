#pragma once
// The bodies of torch/capture/tape_step.hpp.

#include <cstring>
#include <exception>
#include <iterator>
#include <string>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>
#include <fulgurite/torch/native/fastest.hpp>
#include <fulgurite/torch/weights/summary.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY Stack OutForm::stack(Stack const& given, Stack const& places, at::Tensor const& made) const {
  Stack all;
  for (auto const& source : arguments) {
    using Kind = Source::Kind;
    if (source.kind == Kind::before) all.emplace_back(made);
    else
      all.push_back(source.kind == Kind::given   ? given[source.index]
                    : source.kind == Kind::place ? places[source.index]
                                                 : source.constant);
  }
  return all;
}

FULGURITE_BULK_BODY std::vector<c10::OperatorHandle> const& overloads(std::string const& name) {
  static auto const all = [] {
    std::unordered_map<std::string, std::vector<c10::OperatorHandle>> found;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (auto const& known : dispatcher.getAllOpNames())
      if (auto const op = dispatcher.findSchema(known)) found[known.name].push_back(*op);
    return found;
  }();
  static std::vector<c10::OperatorHandle> const none;
  auto const found = all.find(name);
  return found == all.end() ? none : found->second;
}

/// Returns the overload that takes the same arguments in the same order, followed by memory for each result. It must
/// have a CPU kernel of its own, and not one that calls the plain form.
FULGURITE_BULK_BODY std::optional<OutForm> same_arguments(c10::FunctionSchema const& plain,
                                                          c10::OperatorHandle const& op) {
  auto const& out = op.schema();
  if (out.arguments().size() != plain.arguments().size() + plain.returns().size() ||
      out.returns().size() != plain.returns().size())
    return std::nullopt;
  OutForm form{op, {}, {}};
  std::size_t given = 0, places = 0;
  for (auto const& argument : out.arguments()) {
    if (argument.is_out()) {
      form.arguments.push_back({OutForm::Source::Kind::place, places++});
      continue;
    }
    if (given == plain.arguments().size()) return std::nullopt;
    auto const& same = plain.arguments()[given];
    if (same.name() != argument.name() || *same.real_type() != *argument.real_type()) return std::nullopt;
    form.arguments.push_back({OutForm::Source::Kind::given, given++});
  }
  for (auto const& result : plain.returns())
    if (result.real_type()->kind() != c10::TypeKind::TensorType) return std::nullopt;
  if (places != plain.returns().size() || !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  return form;
}

/// Some operators have no out-form, but another operator computes the same and has one.
FULGURITE_BULK_BODY std::optional<OutForm> other_name(std::string const& name) {
  using Kind = OutForm::Source::Kind;
  auto const named = [](char const* other, char const* overload) {
    return c10::Dispatcher::singleton().findSchema({other, overload});
  };
  if (name == "aten::relu")
    if (auto const op = named("aten::clamp_min", "out"))
      return OutForm{*op, {{Kind::given, 0}, {Kind::constant, 0, at::Scalar(0)}, {Kind::place, 0}}, {}};
  if (name == "aten::addmm")  // addmm's own out-form would call an operator to copy the bias
    if (auto const op = named("aten::addmm_", ""))
      return OutForm{
          *op, {{Kind::place, 0}, {Kind::given, 1}, {Kind::given, 2}, {Kind::given, 3}, {Kind::given, 4}}, 0};
  if (name == "aten::clone" || name == "aten::_to_copy")
    if (auto const op = named("aten::copy_", ""))
      return OutForm{*op, {{Kind::place, 0}, {Kind::given, 0}, {Kind::constant, 0, false}}, {}};
  return std::nullopt;
}

/// Computes the mean of squared differences by other operators: LibTorch's own out-form of it warns, and divides the
/// sum by a separate operator, which for a few numbers takes longer than the rest.
FULGURITE_BULK_BODY std::optional<OutForm> mean_of_squares(Call const& call) {
  using Kind = OutForm::Source::Kind;
  if (call.name() != "aten::mse_loss" || call.in[2].toInt() != at::Reduction::Mean) return std::nullopt;
  auto const &x = call.in[0].toTensor(), &y = call.in[1].toTensor();
  bool const fits = x.is_contiguous() && y.is_contiguous() && x.sizes() == y.sizes() &&
                    x.scalar_type() == y.scalar_type() && x.numel() != 0 &&
                    (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  auto const squares = c10::Dispatcher::singleton().findSchema({"aten::mse_loss", "out"}),
             sum = c10::Dispatcher::singleton().findSchema({"aten::sum", "IntList_out"});
  if (!fits || !squares || !sum) return std::nullopt;
  OutForm form{*sum,
               {{Kind::before},
                {Kind::constant, 0, c10::List<std::int64_t>()},
                {Kind::constant, 0, false},
                {Kind::constant, 0, IValue()},
                {Kind::place, 0}}};
  form.before.push_back(
      {*squares,
       {{Kind::given, 0}, {Kind::given, 1}, {Kind::constant, 0, std::int64_t(at::Reduction::None)}, {Kind::place, 0}}});
  form.divisor = static_cast<double>(x.numel());
  return form;
}

FULGURITE_BULK_BODY void Memory::run() const {
  if (kind == Kind::repeat) return repeat(tensors[0], tensors[1]);
  if (kind == Kind::zero_plus) return add(tensors[0], tensors[1]);
  for (auto const& tensor : tensors) {
    if (kind == Kind::clear) clear(tensor);
    else if (kind == Kind::divide) divide(tensor);
    else add(tensor, tensor);
  }
}

FULGURITE_BULK_BODY bool Memory::fits_rows() const {
  auto const &row = tensors[0], &all = tensors[1];
  return row.dim() == 1 && all.dim() == 2 && row.is_contiguous() && all.is_contiguous() && row.size(0) == all.size(1) &&
         row.scalar_type() == all.scalar_type() && all.numel() != 0;
}

FULGURITE_BULK_BODY void Memory::repeat(at::Tensor const& row, at::Tensor const& all) {
  auto const bytes = row.nbytes();
  auto const* const from = row.const_data_ptr();
  auto* to = static_cast<char*>(all.data_ptr());
  for (auto rows = all.size(0); rows != 0; --rows, to += bytes) std::memcpy(to, from, bytes);
}

FULGURITE_BULK_BODY void Memory::clear(at::Tensor const& tensor) {
  auto* const to = static_cast<char*>(tensor.data_ptr());
  auto const bytes = static_cast<std::int64_t>(tensor.itemsize());
  in_parts(tensor.numel(), [&](std::int64_t begin, std::int64_t end) {
    std::memset(to + begin * bytes, 0, static_cast<std::size_t>((end - begin) * bytes));
  });
}

FULGURITE_BULK_BODY void Memory::add(at::Tensor const& to, at::Tensor const& from) {
  auto const each = [&]<class T>(T* sum, T const* added) {
    in_parts(to.numel(),
             [&](std::int64_t begin, std::int64_t end) { zero_plus(sum + begin, added + begin, end - begin); });
  };
  if (to.scalar_type() == at::kFloat)
    each(static_cast<float*>(to.data_ptr()), static_cast<float const*>(from.const_data_ptr()));
  else each(static_cast<double*>(to.data_ptr()), static_cast<double const*>(from.const_data_ptr()));
}

FULGURITE_BULK_BODY void Memory::divide(at::Tensor const& tensor) const {
  auto const each = [&]<class T>(T* all) {
    in_parts(tensor.numel(),
             [&](std::int64_t begin, std::int64_t end) { divide(all + begin, static_cast<T>(number), end - begin); });
  };
  if (tensor.scalar_type() == at::kFloat) each(static_cast<float*>(tensor.data_ptr()));
  else each(static_cast<double*>(tensor.data_ptr()));
}

/// Runs an operator and an out-form on copies of the call's arguments. The bits, layouts and arguments must be the same
/// afterwards, and there must be no warning.
class Trial {
 public:
  explicit Trial(Call const& call) : call_(call), quiet_(&count_) {}

  bool passes(OutForm const& form) {
    try {
      at::AutoDispatchBelowADInplaceOrView const below;
      Marked const as_ever(Matmul::libtorch);  // with kernels of ours the two forms of a product may differ
      at::AutoGradMode const mode(call_.graph);
      Stack plain = copies();
      call_.op.callBoxed(plain);
      Stack given = copies(), results;
      std::vector<at::Tensor> places;
      for (IValue const& result : call_.out) {
        auto const& like = result.toTensor();
        at::Tensor place = at::empty_strided(like.sizes(), like.strides(), like.options());
        if (!same_layout(place, like) || place.storage().nbytes() > like.storage().nbytes()) return false;
        if (auto const n = place.storage().nbytes()) std::memset(place.storage().mutable_data(), 0xff, n);
        places.push_back(place);
        results.push_back(place);
      }
      std::vector<std::pair<Storage, std::size_t>> before;
      for (auto const& place : places) before.emplace_back(storage_of(place), place.storage().nbytes());
      if (form.rows) {
        Memory const rows{Memory::Kind::repeat, {given[*form.rows].toTensor(), places[0]}};
        if (!rows.fits_rows()) return false;
        rows.run();
      }
      at::Tensor made;
      for (auto const& earlier : form.before) {
        made = at::empty_like(given[0].toTensor());
        Stack first = earlier.stack(given, {made});
        earlier.op.callBoxed(first);
      }
      Stack all = form.stack(given, results, made);
      form.op.callBoxed(all);
      if (form.divisor != 1) Memory{Memory::Kind::divide, places, form.divisor}.run();
      for (std::size_t i = 0; i != places.size(); ++i) {
        auto const& result = plain[i].toTensor();
        if (storage_of(places[i]) != before[i].first || places[i].storage().nbytes() != before[i].second ||
            !same_layout(places[i], result) || !same_bytes(places[i], result))
          return false;
      }
      return count_.warnings == 0 && arguments_untouched(given);
    } catch (std::exception const&) { return false; }
  }

 private:
  struct Count : c10::WarningHandler {
    int warnings = 0;
    void process(c10::Warning const&) override { ++warnings; }
  };

  /// A copy of the tensor's bytes, at the same offset from the start of a cache line.
  static at::Tensor copy(at::Tensor const& tensor) {
    auto const item = static_cast<std::int64_t>(tensor.itemsize());
    auto const span = span_of(tensor);
    auto const bytes = static_cast<std::size_t>(span.end - span.begin);
    auto const before = bytes == 0 ? 0 : reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64;
    at::Storage storage(at::Storage::use_byte_size_t(), static_cast<std::int64_t>(before + bytes),
                        c10::GetCPUAllocator(), true);
    if (bytes != 0) std::memcpy(static_cast<char*>(storage.mutable_data()) + before, tensor.const_data_ptr(), bytes);
    auto other = frozen(tensor);
    other.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
    other.unsafeGetTensorImpl()->set_storage_offset(static_cast<std::int64_t>(before) / item);
    return other;
  }
  static bool same_bytes(at::Tensor const& a, at::Tensor const& b) {
    auto const x = span_of(a), y = span_of(b);
    auto const bytes = static_cast<std::size_t>(x.end - x.begin);
    return x.end - x.begin == y.end - y.begin &&
           (bytes == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), bytes) == 0);
  }
  Stack copies() const {
    Stack all;
    for (IValue const& value : call_.in) all.push_back(with_tensors(value, copy));
    return all;
  }
  bool arguments_untouched(Stack const& now) const {
    std::vector<at::Tensor> was;
    each_tensor_of(call_.in, [&](at::Tensor const& tensor) { was.push_back(tensor); });
    std::size_t i = 0;
    bool same = true;
    each_tensor_of(now, [&](at::Tensor const& tensor) { same = same && same_bytes(tensor, was[i++]); });
    return same;
  }

  Call const& call_;
  Count count_;
  c10::WarningUtils::WarningHandlerGuard quiet_;
};

FULGURITE_BULK_BODY std::optional<OutForm> out_form(Call const& call) {
  if (call.op.schema().is_mutable() || call.op.hasTag(at::Tag::nondeterministic_seeded) ||
      writes_undeclared(call.name()))
    return std::nullopt;
  std::unordered_map<Storage, int> seen;
  each_tensor_of(call.in, [&](at::Tensor const& tensor) { ++seen[storage_of(tensor)]; });
  for (IValue const& value : call.out)
    if (!value.isTensor() || !value.toTensor().defined() || seen[storage_of(value.toTensor())]++ != 0)
      return std::nullopt;
  std::string const name = call.name();
  if (auto form = other_name(name); form && Trial(call).passes(*form)) return form;
  if (auto form = mean_of_squares(call); form && Trial(call).passes(*form)) return form;
  for (auto const& op : overloads(name))
    if (auto form = same_arguments(call.op.schema(), op); form && Trial(call).passes(*form)) return form;
  return std::nullopt;
}

FULGURITE_BULK_BODY c10::DispatchKeySet above_kernels() {
  return c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) |
         c10::autocast_dispatch_keyset;
}

FULGURITE_BULK_BODY bool may_be_ours(c10::OperatorHandle const& op) {
  auto const& all = native::intercepted;
  return native::on_this_thread() == Matmul::fastest &&
         std::find(all.begin(), all.end(), op.operator_name().name) != all.end();
}

FULGURITE_BULK_BODY void TapeStep::run(Stack& stack) const {
  if (c10::GradMode::is_enabled() != graph) c10::GradMode::set_enabled(graph);
  stack.clear();
  stack.insert(stack.end(), in.begin(), in.end());
  if (straight) op.redispatchBoxed(keys, &stack);
  else op.callBoxed(stack);
  if (adopted.empty()) return;
  auto const first = stack.size() - returns;
  for (auto const& one : adopted) {
    IValue const& value = stack[first + one.result];
    adopt(one.listed ? value.toListRef()[one.element].toTensor() : value.toTensor(), one.into);
  }
}

FULGURITE_BULK_BODY TapeStep TapeStep::written_to(Call const& call, OutForm const& form, at::Tensor const* place,
                                                  at::Tensor const& before) {
  Stack const results = place ? Stack{*place} : call.out;
  return finished({form.op, form.stack(call.in, results, before), results.size(), call.graph, false, {}, {}});
}

FULGURITE_BULK_BODY TapeStep TapeStep::adopting(Call const& call) {
  std::unordered_set<Storage> seen;
  each_tensor_of(call.in, [&](at::Tensor const& tensor) { seen.insert(storage_of(tensor)); });
  std::vector<AdoptedResult> results;
  for (std::size_t i = 0; i != call.out.size(); ++i) {
    auto const one = [&](IValue const& value, std::size_t element, bool listed) {
      if (value.isTensor() && value.toTensor().defined() && seen.insert(storage_of(value.toTensor())).second)
        results.push_back({i, element, listed, value.toTensor()});
    };
    if (call.out[i].isTensorList())
      for (std::size_t e = 0; e != call.out[i].toListRef().size(); ++e) one(call.out[i].toListRef()[e], e, true);
    else one(call.out[i], 0, false);
  }
  return finished({call.op, call.in, call.out.size(), call.graph, false, {}, std::move(results)});
}

FULGURITE_BULK_BODY TapeStep TapeStep::finished(TapeStep step) {
  c10::DispatchKeySet next;
  each_tensor_of(step.in, [&](at::Tensor const& tensor) { next = next | tensor.key_set(); });
  next = next - above_kernels();
  step.straight = next.highestPriorityTypeId() == c10::DispatchKey::CPU &&
                  step.op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU) && !may_be_ours(step.op);
  step.keys = next;
  return step;
}

FULGURITE_BULK_BODY void TapeStep::adopt(at::Tensor const& made, at::Tensor const& into) const {
  if (!made.defined() || !same_layout(made, into) || storage_of(made)->nbytes() != storage_of(into)->nbytes())
      [[unlikely]]
    throw Error("fulgurite.capture.layout", c10::toString(op.operator_name()) +
                                                " returned a tensor of another shape in a replay than when the step "
                                                "was recorded: use the strategy without Captured, and report this");
  swap_memory(*storage_of(made), *storage_of(into));
}

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

FULGURITE_BULK_BODY native::Plan const* plan_of(Call const& call, native::Epilogue and_then, at::Tensor const* other) {
  using native::Epilogue;
  auto const how = native::on_this_thread();
  auto const where = product_arguments(call);
  if (how == Matmul::libtorch || !where || !call.out[0].toTensor().is_contiguous()) return nullptr;
  auto const &a = call.in[where->a].toTensor(), &b = call.in[where->b].toTensor();
  if (!native::is_plain_float(a) || !native::is_plain_float(b)) return nullptr;
  auto const epilogue =
      where->adds ? native::epilogue_of(call.in[0].toTensor(), a, b, call.in[3].toScalar(), call.in[4].toScalar())
                  : std::optional(and_then);
  if (!epilogue || (where->adds && and_then != Epilogue::none)) return nullptr;
  auto const* const start = where->adds ? native::numbers(call.in[0].toTensor())
                            : other     ? native::numbers(*other)
                                        : nullptr;
  return native::plan_of(native::product_shape(a, b, *epilogue), {native::numbers(a), native::numbers(b), start}, how);
}

FULGURITE_BULK_BODY Product::Product(native::Plan const& by, Call const& call, at::Tensor const* place,
                                     at::Tensor const* row)
    : plan(&by), c(place ? *place : call.out[0].toTensor()) {
  auto const where = *product_arguments(call);
  a = call.in[where.a].toTensor();
  b = call.in[where.b].toTensor();
  if (where.adds) start = call.in[0].toTensor();
  else if (row) start = *row;
  fastest = native::on_this_thread() == Matmul::fastest;
  any_threads_ = fastest && !plan->shape().worth_threads();
}

FULGURITE_BULK_BODY void Product::look_up() {
  a_at_ = native::numbers(a);
  b_at_ = native::numbers(b);
  c_at_ = static_cast<float*>(c.mutable_data_ptr());
  start_at_ = start.defined() ? native::numbers(start) : nullptr;
}

FULGURITE_BULK_BODY void Product::run() const {
  auto const& shape = plan->shape();
  if (shape.epilogue == native::Epilogue::onto) std::memcpy(c_at_, start_at_, c.nbytes());
  if (any_threads_ || shape.threads == at::get_num_threads()) return plan->run(a_at_, b_at_, c_at_, start_at_);
  auto now = shape;
  now.threads = at::get_num_threads();
  // As in the step as it is written, where the rule may choose otherwise for so many threads.
  auto const* const other = fastest ? native::plan_of(now, {a_at_, b_at_, start_at_}, Matmul::fastest) : nullptr;
  if (other != nullptr) return other->run(a_at_, b_at_, c_at_, start_at_);
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

FULGURITE_BULK_BODY void TapeMemory::Entry::look_up() {
  if (auto* const product = std::get_if<Product>(&what)) product->look_up();
  else if (auto* const small = std::get_if<native::SmallCall>(&what)) small->look_up();
}

FULGURITE_BULK_BODY TapeMemory::TapeMemory(std::vector<Call> calls, std::vector<at::Tensor> leaving)
    : calls_(std::move(calls)), leaving_(std::move(leaving)) {}

FULGURITE_BULK_BODY TapeTurn::TapeTurn(Call const& call, std::vector<c10::VariableVersion> written)
    : turn(static_cast<loop::Turn>(call.in[2].toInt())), before(std::move(written)) {
  each_tensor_in(call.in[0], [&](at::Tensor const& tensor) { loss = tensor; });
  each_tensor_in(call.in[1], [&](at::Tensor const& tensor) { model.push_back(tensor); });
}

FULGURITE_BULK_BODY bool TapeMemory::is_constant(Call const& call) const {
  if (!is_constant_factory(call.name()) || call.op.schema().is_mutable()) return false;
  bool constant = true;
  each_tensor_of(call.out,
                 [&](at::Tensor const& tensor) { constant = constant && !rewritten_.contains(storage_of(tensor)); });
  return constant;
}

FULGURITE_BULK_BODY std::optional<std::size_t> TapeMemory::last_to_touch(at::Tensor const& memory) const {
  auto const mine = span_of(memory);
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i != steps_.size(); ++i)
    each_tensor_of_step(steps_[i].what, [&](at::Tensor const& tensor) {
      if (storage_of(tensor) == storage_of(memory) && span_of(tensor).overlaps(mine)) last = i;
    });
  return last;
}

FULGURITE_BULK_BODY void TapeMemory::add_looks(std::vector<at::Tensor> const& parameters) {
  for (auto const& parameter : parameters) {
    auto const& gradient = parameter.grad();
    auto seen = GradientLooks::seen_of(parameter);
    if (!seen || !gradient.defined() || !gradient.is_non_overlapping_and_dense() ||
        (gradient.scalar_type() != at::kFloat && gradient.scalar_type() != at::kDouble))
      continue;
    auto const last = last_to_touch(gradient);
    if (!last) continue;
    TapeLook look{std::move(seen), gradient};
    auto const* const memory = std::get_if<Memory>(&steps_[*last].what);
    if (memory && memory->kind == Memory::Kind::zero_plus && span_of(memory->tensors[0]) == span_of(gradient)) {
      look.added = memory->tensors[1];
      steps_[*last].what = std::move(look);
    } else {
      steps_.insert(std::next(steps_.begin(), static_cast<std::ptrdiff_t>(*last) + 1), Entry{std::move(look), {}});
    }
  }
}

FULGURITE_BULK_BODY void TapeMemory::count(Call const& call, char const* kernel, native::Plan const* product) {
  at::IntArrayRef result;
  if (!call.out.empty() && call.out[0].isTensor() && call.out[0].toTensor().defined())
    result = call.out[0].toTensor().sizes();
  auto what = call.name().substr(call.name().rfind(':') + 1) + " ";
  if (product) what += product->shape().text();
  else if (auto const where = product_arguments(call))
    what += shape_text(call.in[where->a].toTensor().sizes()) + " x " + shape_text(call.in[where->b].toTensor().sizes());
  else what += shape_text(result);
  auto& all = facts_.calls;
  auto const same = [&](TapeFacts::Calls const& calls) { return calls.what == what && calls.kernel == kernel; };
  auto found = std::find_if(all.begin(), all.end(), same);
  if (found == all.end()) found = all.insert(all.end(), {std::move(what), kernel});
  ++found->count;
  c10::ArrayRef<c10::IValue const> const given(call.in.data(), call.in.size());
  found->flops += operation_of(call.name(), given).flops(result);
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
    auto const span = span_of(tensor);  // longer than its numbers in a slice along time
    input.unsafeGetTensorImpl()->set_storage_keep_dtype(
        without_memory(static_cast<std::size_t>(span.end - span.begin + offset * item)));
    fill(storage_of(input));
    input.unsafeGetTensorImpl()->set_storage_offset(offset);
    inputs_.push_back(std::move(input));
  }
  auto const change = [&](at::Tensor const& tensor) {
    auto const [kind, number] = listing.role(tensor);
    auto* impl = tensor.unsafeGetTensorImpl();
    if (kind == Role::Kind::batch) {
      // In bytes: the tensor may be the batch's as a type of another size.
      auto const offset = span_of(tensor).begin - span_of(batch[number]).begin + span_of(inputs_[number]).begin;
      impl->set_storage_keep_dtype(inputs_[number].storage());
      impl->set_storage_offset(offset / static_cast<std::int64_t>(tensor.itemsize()));
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

FULGURITE_BULK_BODY void TapeMemory::prepare_feeding() {
  constexpr std::size_t large = std::size_t{1} << 14;
  std::unordered_set<Storage> stays;
  for (auto const& tensor : leaving_) stays.insert(storage_of(tensor));
  for (auto const& step : steps_) {
    auto const* const small = std::get_if<native::SmallCall>(&step.what);
    bool const looks_once = small && small->make_ready;  // at shapes and strides, which takes longer than a copy
    if (looks_once || std::holds_alternative<TapeTurn>(step.what))
      each_tensor_of_step(step.what, [&](at::Tensor const& tensor) { stays.insert(storage_of(tensor)); });
  }
  for (auto const& input : inputs_) {
    bool const any = input.defined() && input.numel() != 0;
    auto const bytes = any && input.is_non_overlapping_and_dense() ? input.nbytes() : 0;
    auto const storage = any ? storage_of(input) : nullptr;
    auto const offset = any ? static_cast<std::size_t>(input.storage_offset()) * input.itemsize() : 0;
    bool const lent = bytes >= large && !stays.contains(storage);
    if (lent) facts_.bytes -= storage->nbytes();  // its memory is taken back when the tape is made
    fed_.push_back({storage, offset, bytes, lent});
  }
}

FULGURITE_BULK_BODY void TapeMemory::feed(std::vector<at::Tensor> const& batch) {
  for (std::size_t i = 0; i != fed_.size(); ++i) {
    auto const& [storage, offset, bytes, lent] = fed_[i];
    if (!storage) continue;
    auto* const from = static_cast<char*>(const_cast<void*>(batch[i].const_data_ptr()));
    // It has the recorded offset in a cache line: a batch with another offset is another kind of step.
    if (lent) storage->set_data_ptr_noswap(at::DataPtr(from - offset, at::kCPU));
    else if (bytes != 0) std::memcpy(static_cast<char*>(storage->mutable_data()) + offset, from, bytes);
    else inputs_[i].copy_(batch[i]);
  }
}

FULGURITE_BULK_BODY TapeMemory::TakesBack::~TakesBack() {
  for (auto const& one : fed)
    if (one.lent) one.storage->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
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
