#pragma once
// The bodies of torch/capture/tape.hpp.

#include <cstring>
#include <variant>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/MemoryOverlap.h>

#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/native/fastest.hpp>

namespace fulgurite::libtorch::capture {

// A step clears its gradients and then adds to them. A replay writes the first summand directly to the gradient:
// without the clearing, without the addition, and if possible without a temporary. Matrix products make additions after
// that themselves: those to an existing gradient, in the later batches of an accumulation window, and those of a bias
// in place, as LibTorch's Linear does it for three dimensions. That saves one pass over memory.

/// The additions of a step that other calls of it can make.
class Additions {
 public:
  Additions(std::vector<Call> const& calls, std::vector<bool> const& alive,
            std::vector<std::optional<OutForm>> const& forms, Listing const& listing,
            std::vector<at::Tensor> const& leaving)
      : calls_(calls), alive_(alive), forms_(forms), listing_(listing) {
    for (std::size_t i = 0; i != calls.size(); ++i) {
      if (!alive[i]) continue;
      each_tensor_of(calls[i].in, [&](at::Tensor const& tensor) { ++reads_[storage_of(tensor)]; });
      each_tensor_of(calls[i].out, [&](at::Tensor const& tensor) { makers_.try_emplace(storage_of(tensor), i); });
    }
    for (auto const& tensor : leaving) ++reads_[storage_of(tensor)];
    for (std::size_t i = 0; i != calls.size(); ++i)
      if (alive[i] && calls[i].name() == "aten::zero_" && listing.is_world(storage_of(calls[i].in[0].toTensor())))
        after_clearing(i);
    for (std::size_t i = 0; i != calls.size(); ++i) {
      if (!alive[i] || instead_of(i) || !adds(calls[i])) continue;
      if (!to_gradient(i)) of_row(i);
    }
  }

  /// What replaces a call; nullptr: nothing does.
  Memory const* instead_of(std::size_t call) const { return found_in(instead_, call); }
  /// The call whose result this call adds to cleared memory, so that only 0 + x remains of the addition; nullptr: this
  /// call is no such addition.
  std::size_t const* added_by(std::size_t call) const { return found_in(added_by_, call); }
  /// Where a call writes its result; nullptr: to the result's own memory.
  at::Tensor const* place_of(std::size_t call) const { return found_in(places_, call); }

  /// Where a product may add its result itself; nullptr: nowhere. Only if Epilogue::then_onto is certified.
  at::Tensor const* sum_of(std::size_t product) const { return found_in(sums_, product); }
  /// The row that a product may add to its result itself; nullptr: none. Only if Epilogue::then_row is certified.
  at::Tensor const* row_of(std::size_t product) const { return found_in(rows_, product); }
  /// The product that makes this addition unnecessary if it does so.
  std::size_t const* product_of(std::size_t addition) const { return found_in(products_, addition); }

 private:
  /// The entry of this key; nullptr if there is none.
  template <class T>
  static T const* found_in(std::unordered_map<std::size_t, T> const& map, std::size_t key) {
    auto const found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }

  /// True if the call is x += y.
  static bool adds(Call const& call) {
    return c10::toString(call.op.operator_name()) == "aten::add_.Tensor" && call.in[2].toScalar().toDouble() == 1.0;
  }
  at::Tensor const& slice_of(std::size_t adding) const { return calls_[adding].in[0].toTensor(); }
  at::Tensor const& added_in(std::size_t adding) const { return calls_[adding].in[1].toTensor(); }

  /// True if numbers of one tensor lie in memory as those of a slice that has no gaps.
  static bool fits(at::Tensor const& added, at::Tensor const& slice) {
    return added.scalar_type() == slice.scalar_type() && added.sizes() == slice.sizes() &&
           added.strides() == slice.strides() && slice.is_non_overlapping_and_dense() && slice.numel() != 0;
  }
  /// True if a call may write to the slice what it has written to memory of its own: at another place in a line of the
  /// cache, kernels may sum in another order.
  static bool is_aligned(at::Tensor const& slice) {
    return reinterpret_cast<std::uintptr_t>(slice.const_data_ptr()) % cache_line == 0;
  }
  /// True if the step has made this tensor for one use alone.
  bool is_used_once(at::Tensor const& tensor) const {
    return tensor.storage_offset() == 0 && listing_.role(tensor).kind == Role::Kind::made &&
           reads_.at(storage_of(tensor)) == 1;
  }
  /// A tensor like the result that a call has `made`, in the memory of a slice.
  static at::Tensor placed(at::Tensor const& made, at::Tensor const& slice) {
    return at::empty({0}, slice.options()).set_(slice.storage(), slice.storage_offset(), made.sizes(), made.strides());
  }
  static at::Tensor part(at::Tensor const& whole, Span span) {
    auto const item = static_cast<std::int64_t>(whole.itemsize());
    return at::empty({0}, whole.options())
        .set_(whole.storage(), span.begin / item, {(span.end - span.begin) / item}, {1});
  }

  /// For each slice of model memory that a zero_() has cleared, finds the first tensor added to it. If that tensor is
  /// the only result of a call and has no other use, the call writes it to the slice. Otherwise it is copied to the
  /// slice, as for a convolution, which makes all of its gradients in one call.
  void after_clearing(std::size_t clearing) {
    auto const whole = slice_of(clearing);
    if (!whole.is_contiguous() || (whole.scalar_type() != at::kFloat && whole.scalar_type() != at::kDouble)) return;
    std::vector<Span> touched, written;
    for (std::size_t i = clearing + 1; i != calls_.size(); ++i) {
      if (!alive_[i]) continue;
      if (is_first_addition(i, whole, touched)) {
        auto const &slice = slice_of(i), &added = added_in(i);
        if (auto const maker = maker_of(added, slice); maker && *maker >= clearing) {
          places_.emplace(*maker, placed(calls_[*maker].out[0].toTensor(), slice));
          instead_.emplace(i, Memory{Memory::Kind::add_to_zero, {part(whole, span_of(slice))}});
          added_by_.emplace(i, *maker);
        } else {
          instead_.emplace(i, Memory{Memory::Kind::zero_plus, {slice, added}});
        }
        written.push_back(span_of(slice));
      }
      auto const touch = [&](at::Tensor const& tensor) {
        if (storage_of(tensor) == storage_of(whole)) touched.push_back(span_of(tensor));
      };
      each_tensor_of(calls_[i].in, touch);
      each_tensor_of(calls_[i].out, touch);
    }
    if (written.empty()) return;
    sort_seldom(written, [](Span const& a, Span const& b) { return a.begin < b.begin; });
    Memory rest{Memory::Kind::clear};
    auto [from, end] = span_of(whole);
    for (auto const& span : written) {
      if (from < span.begin) rest.tensors.push_back(part(whole, {from, span.begin}));
      from = span.end;
    }
    if (from < end) rest.tensors.push_back(part(whole, {from, end}));
    instead_.emplace(clearing, std::move(rest));
  }

  /// True if this call adds a tensor to a slice of the same layout that no call has read or written since the clearing.
  bool is_first_addition(std::size_t adding, at::Tensor const& whole, std::vector<Span> const& touched) const {
    if (!adds(calls_[adding])) return false;
    auto const &slice = slice_of(adding), &added = added_in(adding);
    auto const to = span_of(slice), all = span_of(whole);
    if (storage_of(slice) != storage_of(whole) || to.begin < all.begin || to.end > all.end || !fits(added, slice) ||
        storage_of(added) == storage_of(whole))
      return false;
    return std::none_of(touched.begin(), touched.end(), [&](Span const& other) { return other.overlaps(to); });
  }

  /// The call whose result such an addition adds, if that call can write to the slice itself.
  std::optional<std::size_t> maker_of(at::Tensor const& added, at::Tensor const& slice) const {
    if (!is_aligned(slice) || !is_used_once(added)) return std::nullopt;
    auto const found = makers_.find(storage_of(added));
    if (found == makers_.end() || !forms_[found->second]) return std::nullopt;
    auto const& out = calls_[found->second].out;
    if (out.size() != 1) return std::nullopt;
    auto const& made = out[0].toTensor();
    bool const fills =
        made.numel() == slice.numel() && made.storage_offset() == 0 && made.is_non_overlapping_and_dense();
    return fills ? std::optional(found->second) : std::nullopt;
  }

  /// The product before `adding` that has made this tensor and adds nothing itself.
  std::optional<std::size_t> product_before(std::size_t adding, at::Tensor const& tensor) const {
    auto const found = makers_.find(storage_of(tensor));
    if (found == makers_.end() || found->second >= adding) return std::nullopt;
    auto const where = product_arguments(calls_[found->second]);
    return where && !where->adds ? std::optional(found->second) : std::nullopt;
  }

  /// Finds a product whose only use is to be added to a tensor of the model, where no call touches that between the
  /// two, so that the sum may be made earlier. It has the same two summands, hence the same bits.
  bool to_gradient(std::size_t adding) {
    auto const &slice = slice_of(adding), &added = added_in(adding);
    auto const product = product_before(adding, added);
    if (!product || !is_used_once(added)) return false;
    auto const& made = calls_[*product].out[0].toTensor();
    bool const whole = made.is_contiguous() && made.numel() == slice.numel() && made.storage_offset() == 0;
    if (!whole || !fits(added, slice) || !is_aligned(slice) || !listing_.is_world(storage_of(slice)) ||
        is_touched(slice, *product, adding))
      return false;
    sums_.emplace(*product, placed(made, slice));
    return products_.emplace(adding, *product).second;
  }

  /// Finds a product to which a row is added in place, likewise.
  void of_row(std::size_t adding) {
    auto const &sum = slice_of(adding), &row = added_in(adding);
    auto const product = product_before(adding, sum);
    if (!product) return;
    auto const& made = calls_[*product].out[0].toTensor();
    bool const whole = made.dim() == 2 && made.is_contiguous() && sum.is_contiguous() && sum.numel() == made.numel() &&
                       sum.storage_offset() == made.storage_offset();
    bool const is_row = row.dim() == 1 && row.is_contiguous() && native::is_plain_float(row) &&
                        row.size(0) == made.size(-1) && sum.size(-1) == made.size(-1);
    if (!whole || !is_row || is_touched(sum, *product + 1, adding) || is_touched(row, *product + 1, adding) ||
        !rows_.emplace(*product, row).second)
      return;
    products_.emplace(adding, *product);
  }

  /// True if a call in [first, last) reads or writes the slice.
  bool is_touched(at::Tensor const& slice, std::size_t first, std::size_t last) const {
    auto const mine = span_of(slice);
    bool touched = false;
    auto const look = [&](at::Tensor const& tensor) {
      touched = touched || (storage_of(tensor) == storage_of(slice) && span_of(tensor).overlaps(mine));
    };
    for (auto i = first; i != last; ++i) {
      if (!alive_[i]) continue;
      each_tensor_of(calls_[i].in, look);
      each_tensor_of(calls_[i].out, look);
    }
    return touched;
  }

  std::vector<Call> const& calls_;
  std::vector<bool> const& alive_;
  std::vector<std::optional<OutForm>> const& forms_;
  Listing const& listing_;
  std::unordered_map<Storage, int> reads_;
  std::unordered_map<Storage, std::size_t> makers_;
  std::unordered_map<std::size_t, Memory> instead_;
  std::unordered_map<std::size_t, std::size_t> added_by_, products_;
  std::unordered_map<std::size_t, at::Tensor> places_, sums_, rows_;
};

// Finds out by trial whether a small function gives the same bits as the operator that it would replace. Each operator
// and shape is tried once per process.

/// True if the call's only result is its first argument.
FULGURITE_BULK_BODY bool writes_in_place(Call const& call) {
  if (!call.op.schema().is_mutable() || call.out.size() != 1 || !call.out[0].isTensor() || !call.in[0].isTensor())
    return false;
  auto const &to = call.in[0].toTensor(), &result = call.out[0].toTensor();
  return to.defined() && result.defined() && storage_of(to) == storage_of(result) && same_layout(to, result);
}

/// True if the operator makes tensors for its results.
FULGURITE_BULK_BODY bool allocates(Call const& call, OutForm const& form) {
  return !writes_in_place(call) && std::none_of(form.arguments.begin(), form.arguments.end(), [](auto const& source) {
    return source.kind == OutForm::Source::Kind::place;
  });
}

/// Runs an operator and its candidate replacements on the recorded values and on random ones, in private memory. One
/// that draws random numbers has a private generator for each of the two, which must end in the same state.
class SmallTrial {
 public:
  /// `form`: the operator itself, if it writes to its first argument or has no form that could be replaced.
  SmallTrial(Call const& call, OutForm const& form)
      : form_(form), in_place_(writes_in_place(call)), allocates_(allocates(call, form)) {
    auto const& arguments = call.op.schema().arguments();
    for (std::size_t i = 0; i != call.in.size(); ++i) {
      given_.push_back(with_tensors(call.in[i], copy));
      if (arguments[i].name() == "generator") generator_ = i;
    }
    for (auto* const side : {&theirs_, &ours_}) {
      for (IValue const& value : call.out) side->places.emplace_back(at::empty_like(value.toTensor()));
      if (generator_) side->generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});
    }
  }

  /// The index of the first candidate with the operator's bits; nullopt: none.
  std::optional<std::size_t> passing() {
    Stack all = arguments(ours_);
    if (allocates_) all.insert(all.end(), ours_.places.begin(), ours_.places.end());
    auto candidates = native::small_calls(c10::toString(form_.op.operator_name()), std::move(all));
    for (std::size_t i = 0; i != candidates.size(); ++i)
      if (passes(candidates[i])) return i;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t enough = 512, most_rounds = 64;  // results to compare; limit of draws

  /// What one of the two writes to, and draws from.
  struct Side {
    Stack places = {};
    at::Generator generator = {};
  };

  bool passes(native::SmallCall& candidate) {
    native::Numbers numbers;
    std::size_t seen = 0;
    candidate.look_up();
    for (std::size_t round = 0; round <= native::draws.size() || (seen < enough && round < most_rounds); ++round) {
      if (round != 0)
        draw(numbers, round <= native::draws.size() ? native::draws[round - 1] : native::Draw::normal, round % 3 == 0);
      for (auto* const side : {&theirs_, &ours_}) {
        prepare(*side);
        if (generator_ && round % 2 == 1) side->generator.get<at::CPUGeneratorImpl>()->random();
      }
      Stack all = arguments(theirs_);
      form_.op.callBoxed(all);
      for (std::size_t i = 0; allocates_ && i != all.size(); ++i) {
        auto const &to = theirs_.places[i].toTensor(), &made = all[i].toTensor();
        std::memcpy(to.mutable_data_ptr(), made.const_data_ptr(), to.nbytes());
      }
      candidate.run();
      if (!same()) return false;
      for (IValue const& place : ours_.places) seen += static_cast<std::size_t>(place.toTensor().numel());
    }
    return true;
  }

  /// Those of the operator, and those from which small_calls makes a candidate.
  Stack arguments(Side const& side) const {
    Stack all = form_.stack(given_, side.places);
    if (in_place_) all[0] = side.places[0];
    if (generator_) all[*generator_] = side.generator;
    return all;
  }

  /// `zero`: scalars are 0, since some operators divide by them.
  void draw(native::Numbers& numbers, native::Draw kind, bool zero) {
    each_tensor_of(given_, [&](at::Tensor const& tensor) {
      if (tensor.scalar_type() != at::kFloat) return;
      auto* const to = static_cast<float*>(tensor.mutable_data_ptr());
      numbers.fill(to, tensor.numel(), kind);
      if (zero && tensor.dim() == 0) *to = 0;
    });
  }

  void prepare(Side const& side) const {
    for (IValue const& value : side.places) {
      auto const& place = value.toTensor();
      if (in_place_) std::memcpy(place.mutable_data_ptr(), given_[0].toTensor().const_data_ptr(), place.nbytes());
      else std::memset(place.mutable_data_ptr(), 0xff, place.nbytes());
    }
    if (form_.rows) Memory{Memory::Kind::repeat, {given_[*form_.rows].toTensor(), side.places[0].toTensor()}}.run();
  }

  bool same() const {
    auto const equal = [](at::Tensor const& a, at::Tensor const& b) {
      return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
    };
    for (std::size_t i = 0; i != ours_.places.size(); ++i)
      if (!equal(ours_.places[i].toTensor(), theirs_.places[i].toTensor())) return false;
    return !generator_ || equal(ours_.generator.get_state(), theirs_.generator.get_state());
  }

  static at::Tensor copy(at::Tensor const& tensor) {
    if (!tensor.is_non_overlapping_and_dense()) return at::empty_like(tensor, at::MemoryFormat::Contiguous);
    auto other = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
    std::memcpy(other.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
    return other;
  }

  OutForm const& form_;
  bool in_place_, allocates_;
  std::optional<std::size_t> generator_ = std::nullopt;  ///< which argument
  Stack given_;
  Side theirs_, ours_;
};

/// The cache key for a trial's result: the operator, sizes and strides, and all arguments that are no tensors.
FULGURITE_BULK_BODY std::string small_key(OutForm const& form, Stack const& arguments) {
  std::string key = c10::toString(form.op.operator_name());
  auto const number = [&](double value) { (key += 'b') += std::to_string(std::bit_cast<std::uint64_t>(value)); };
  for (IValue const& value : arguments) {
    key += ' ';
    if (value.isInt()) key += std::to_string(value.toInt());
    if (value.isBool()) key += value.toBool() ? "true" : "false";
    if (value.isDouble()) number(value.toDouble());
    if (value.isIntList())
      for (auto const n : value.toIntVector()) (key += ',') += std::to_string(n);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    key += c10::toString(value.toTensor().scalar_type());
    for (auto const n : value.toTensor().sizes()) (key += ',') += std::to_string(n);
    for (auto const n : value.toTensor().strides()) (key += '/') += std::to_string(n);
  }
  return key;
}

FULGURITE_BULK_BODY std::optional<native::SmallCall> small_call(Call const& call, OutForm const* form,
                                                                at::Tensor const* place) {
  if (!form && !writes_in_place(call)) return std::nullopt;
  bool const plain = form && !form->rows && form->before.empty() && form->divisor == 1;
  OutForm itself{call.op};
  for (std::size_t i = 0; i != call.in.size(); ++i) itself.arguments.push_back({OutForm::Source::Kind::given, i});
  if (!form || !form->before.empty()) form = &itself;
  Stack const results = place ? Stack{*place} : call.out;
  auto arguments = form->stack(call.in, results);
  auto const name = c10::toString(form->op.operator_name());
  if (plain)
    if (auto by_rule = native::fastest_call(name, arguments)) {
      by_rule->look_up();
      return by_rule;
    }
  if (allocates(call, *form)) arguments.insert(arguments.end(), results.begin(), results.end());
  auto candidates = native::small_calls(name, arguments);
  if (candidates.empty()) return std::nullopt;
  static std::mutex mutex;
  static std::unordered_map<std::string, std::optional<std::size_t>> verdicts;
  std::lock_guard const lock(mutex);
  auto const [found, fresh] = verdicts.try_emplace(small_key(*form, arguments));
  if (fresh) {
    try {
      at::AutoDispatchBelowADInplaceOrView const below;
      found->second = SmallTrial(call, *form).passing();
    } catch (std::exception const&) {}  // an operator that refuses a draw is not replaced
  }
  // The trial copies arguments with gaps without them, and so may have had more candidates.
  if (!found->second || *found->second >= candidates.size()) return std::nullopt;
  auto chosen = std::move(candidates[*found->second]);
  chosen.look_up();
  return chosen;
}

FULGURITE_BULK_BODY Tape::Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch,
                               std::vector<at::Tensor> leaving, at::Tensor seed,
                               std::vector<at::Tensor> const& parameters)
    : TapeMemory(std::move(calls), std::move(leaving)), seed_(std::move(seed)) {
  facts_.recorded = calls_.size();
  auto const alive = live_calls(calls_, leaving_, listing, facts_);
  std::vector<std::optional<OutForm>> forms(calls_.size());
  for (std::size_t i = 0; i != calls_.size(); ++i)
    if (alive[i]) forms[i] = out_form(calls_[i]);  // tried while the step's values are still in memory
  Additions const additions(calls_, alive, forms, listing, leaving_);
  std::vector<native::Plan const*> plans(calls_.size());
  std::vector<at::Tensor const*> places(calls_.size());
  std::vector<bool> joined(calls_.size());  // products that make a later addition, too
  std::vector<std::optional<native::SmallCall>> small(calls_.size());
  for (std::size_t i = 0; i != calls_.size(); ++i) {
    if (!alive[i]) continue;
    if (!forms[i]) {
      small[i] = small_call(calls_[i], nullptr, nullptr);
      continue;
    }
    places[i] = additions.place_of(i);
    auto const* const onto = places[i] ? nullptr : additions.sum_of(i);
    auto const* const row = places[i] || onto ? nullptr : additions.row_of(i);
    if (onto && (plans[i] = plan_of(calls_[i], native::Epilogue::then_onto, onto))) places[i] = onto;
    else if (row && (plans[i] = plan_of(calls_[i], native::Epilogue::then_row, row))) joined[i] = true;
    else plans[i] = plan_of(calls_[i], places[i] ? native::Epilogue::zero_plus : native::Epilogue::none);
    joined[i] = joined[i] || (onto && places[i] == onto);
    if (!plans[i]) small[i] = small_call(calls_[i], &*forms[i], places[i]);
  }
  own_memory(listing, batch);
  std::vector<TapeStep> constants;
  for (std::size_t i = 0; i != calls_.size(); ++i) {
    for (auto& [storage, version] : calls_[i].written)
      if (listing.is_world(storage)) versions_.push_back(version);
    if (!alive[i]) continue;
    if (is_turn(calls_[i].name())) {
      steps_.push_back({TapeTurn(calls_[i], std::exchange(versions_, {})), {}});
      continue;
    }
    if (auto const* const instead = additions.instead_of(i)) {
      ++facts_.direct;
      auto const* const maker = additions.added_by(i);
      bool const added = maker && (plans[*maker] || (small[*maker] && small[*maker]->plus_zero));  // with the result
      if (!instead->tensors.empty() && !added) steps_.push_back({*instead, {}});
      continue;
    }
    if (auto const* const product = additions.product_of(i); product && joined[*product]) {
      ++(additions.row_of(*product) ? facts_.biases : facts_.direct);
      continue;
    }
    if (plans[i]) {
      steps_.push_back({Product(*plans[i], calls_[i], places[i], joined[i] ? additions.row_of(i) : nullptr), {}});
      count(calls_[i], native::process_kernels().load()->name, plans[i]);
      ++facts_.out_forms;
      ++facts_.products;
      ++facts_.replayed;
      continue;
    }
    if (small[i]) {
      if (forms[i] && forms[i]->rows)
        steps_.push_back(
            {Memory{Memory::Kind::repeat, {calls_[i].in[*forms[i]->rows].toTensor(), small[i]->out[0]}}, {}});
      steps_.push_back({std::move(*small[i]), {}});
      count(calls_[i], "function");
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
    auto const* const place = places[i];
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
      count(calls_[i], !forms[i] && may_be_ours(calls_[i].op) ? "function" : "LibTorch");
      ++facts_.replayed;
    }
  }
  add_looks(parameters);
  for (std::size_t i = 0; i != steps_.size(); ++i)
    if (std::holds_alternative<TapeLook>(steps_[i].what)) looks_.push_back(i);
  share_memory(constants);
  Graphs const graphs;
  c10::impl::ExcludeDispatchKeyGuard const below(above_kernels());
  for (auto const& step : constants) step.run(stack_);
  look_up();
}

FULGURITE_BULK_BODY Tape::~Tape() = default;

FULGURITE_BULK_BODY void Tape::look_up() {
  std::unordered_set<Storage> moving;
  for (auto const& step : steps_)
    if (auto const* call = std::get_if<TapeStep>(&step.what))
      for (auto const& result : call->adopted) moving.insert(storage_of(result.into));
  prepare_feeding();
  TakesBack const takes_back{{}, fed_};
  for (auto const& input : fed_)
    if (input.lent) moving.insert(input.storage);
  for (auto& step : steps_) {
    each_tensor_of_step(step.what, [&](at::Tensor const& tensor) {
      if (moving.contains(storage_of(tensor))) step.moves = true;
    });
    step.look_up();
  }
}

FULGURITE_BULK_BODY void Tape::replay(std::vector<at::Tensor> const& batch, Act act, bool shows) {
  auto const outer = c10::impl::tls_local_dispatch_key_set();
  bool const graph = c10::GradMode::is_enabled();
  Graphs const graphs;
  c10::impl::ExcludeDispatchKeyGuard const below(above_kernels());
  TakesBack const takes_back{{}, fed_};
  feed(batch);
  for (auto& step : steps_) {
    if (step.moves) step.look_up();
    auto& what = step.what;
    if (auto const* call = std::get_if<TapeStep>(&what)) call->run(stack_);
    else if (auto const* product = std::get_if<Product>(&what)) product->run();
    else if (auto const* small = std::get_if<native::SmallCall>(&what)) small->run();
    else if (auto const* memory = std::get_if<Memory>(&what)) memory->run();
    else if (auto* look = std::get_if<TapeLook>(&what)) look->run();
    else {
      auto& turn = std::get<TapeTurn>(what);
      if (shows)
        for (auto& version : turn.before) version.bump();
      c10::impl::ForceDispatchKeyGuard const all(outer);
      c10::AutoGradMode const as_outside(graph);
      act(turn.turn, turn.loss);
    }
    for (auto const storage : step.done) storage->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
  }
  if (!shows) return;
  for (auto& version : versions_) version.bump();
  for (auto const look : looks_) std::get<TapeLook>(steps_[look].what).report();
}

FULGURITE_BULK_BODY at::Tensor Copies::take(Tape const& tape, std::size_t number) {
  auto const& from = tape.leaving()[number];
  if (last_.size() <= number) last_.resize(number + 1);
  auto& copy = last_[number];
  if (!copy.defined() || copy.use_count() != 1 || copy.storage().use_count() != 1 || !is_as_it_was(copy, from))
    copy = memory_like(from);
  if (from.is_contiguous()) {
    std::memcpy(copy.data_ptr(), from.const_data_ptr(), from.nbytes());
  } else {
    at::AutoDispatchBelowADInplaceOrView const below;
    copy.copy_(from);
  }
  return copy;
}

FULGURITE_BULK_BODY bool Copies::is_as_it_was(at::Tensor const& copy, at::Tensor const& from) {
  return copy.scalar_type() == from.scalar_type() && copy.sizes() == from.sizes() &&
         (copy.strides() == from.strides() || at::has_internal_overlap(from) == at::MemOverlap::Yes) &&
         copy.unsafeGetTensorImpl()->autograd_meta() == nullptr;
}

FULGURITE_BULK_BODY Before::Before(World const& world, KeptTape const& kept) : world_(world), bytes_(world.bytes()) {
  if (!kept.draws) return;
  auto const save = [&](at::Generator generator) {
    for (auto const& [known, state] : generators_)
      if (known == generator) return;
    std::lock_guard const lock(generator.mutex());
    generators_.emplace_back(generator, generator.get_state());
  };
  save(cpu_generator());
  kept.tape->each_generator(save);
}

FULGURITE_BULK_BODY bool Before::same(Before const& other) const {
  auto const same_state = [](auto const& a, auto const& b) { return bytes_of({a.second}) == bytes_of({b.second}); };
  return bytes_ == other.bytes_ && std::equal(generators_.begin(), generators_.end(), other.generators_.begin(),
                                              other.generators_.end(), same_state);
}

FULGURITE_BULK_BODY void Before::restore() const {
  world_.restore(bytes_);
  for (auto [generator, state] : generators_) {
    std::lock_guard const lock(generator.mutex());
    generator.set_state(state);
  }
}

FULGURITE_BULK_BODY bool Turns::same() const { return same_ && at_ == found_.size(); }

FULGURITE_BULK_BODY void Turns::repeat(loop::Turn turn) {
  if (!updates(turn)) return;  // at a loss a replay may not have cleared the gradients yet
  if (at_ == found_.size()) return void(same_ = false);
  same_ = same_ && Before(world_, kept_).same(found_[at_]);
  left_[at_++].restore();
}

FULGURITE_BULK_BODY std::vector<char> bytes_of(std::vector<at::Tensor> const& tensors) {
  at::AutoDispatchBelowADInplaceOrView const below;
  std::vector<char> all;
  for (auto const& tensor : tensors) {
    auto const whole = tensor.contiguous();
    auto const* from = static_cast<char const*>(whole.const_data_ptr());
    if (whole.nbytes() != 0) all.insert(all.end(), from, from + whole.nbytes());
  }
  return all;
}

FULGURITE_BULK_BODY std::string difference(std::vector<std::string> const& a, std::vector<std::string> const& b) {
  std::size_t const n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i != n; ++i)
    if (a[i] != b[i])
      return a[i].starts_with(numbers_line) && b[i].starts_with(numbers_line)
                 ? std::string(other_numbers)
                 : "the step is not the same each time: " + a[i].substr(0, a[i].find(' ')) +
                       " is called with other numbers, shapes or tensors, or is another operator (a number of the host "
                       "that changes?)";
  return a.size() == b.size() ? ""
                              : "the step is not the same each time: it calls " + std::to_string(a.size()) +
                                    " operators or " + std::to_string(b.size());
}

FULGURITE_BODY std::string Tapes::missing(at::Device device) {
  if (device.is_cpu()) return "";
  return device.is_cuda() ? "this program was built without CUDA or without the headers of its toolkit"
                          : "the model is on a device of which steps cannot be recorded: neither the CPU nor CUDA's";
}

}  // namespace fulgurite::libtorch::capture
