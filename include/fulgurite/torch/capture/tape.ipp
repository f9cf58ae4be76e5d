#pragma once
// The bodies of torch/capture/tape.hpp.

#include <cstring>
#include <variant>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/core/types.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/native/fastest.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY DirectGradients::DirectGradients(std::vector<Call> const& calls, std::vector<bool> const& alive,
                                                     std::vector<std::optional<OutForm>> const& forms,
                                                     Listing const& listing, std::vector<at::Tensor> const& leaving)
    : calls_(calls), alive_(alive), forms_(forms) {
  for (std::size_t i = 0; i != calls.size(); ++i) {
    if (!alive[i]) continue;
    each_tensor_of(calls[i].in, [&](at::Tensor const& tensor) { ++reads_[storage_of(tensor)]; });
    each_tensor_of(calls[i].out, [&](at::Tensor const& tensor) { makers_.try_emplace(storage_of(tensor), i); });
  }
  for (auto const& tensor : leaving) ++reads_[storage_of(tensor)];
  for (std::size_t i = 0; i != calls.size(); ++i)
    if (alive[i] && calls[i].name() == "aten::zero_" && listing.is_world(storage_of(calls[i].in[0].toTensor())))
      after_clearing(i, listing);
}

FULGURITE_BULK_BODY void DirectGradients::after_clearing(std::size_t clearing, Listing const& listing) {
  auto const whole = calls_[clearing].in[0].toTensor();
  auto const all = span_of(whole);
  if (!whole.is_contiguous() || (whole.scalar_type() != at::kFloat && whole.scalar_type() != at::kDouble)) return;
  std::vector<Span> touched, written;
  for (std::size_t i = clearing + 1; i != calls_.size(); ++i) {
    if (!alive_[i]) continue;
    if (auto const maker = maker_of(i, clearing, whole, listing, touched)) {
      auto const slice = calls_[i].in[0].toTensor();
      auto const made = calls_[*maker].out[0].toTensor();
      places_.emplace(
          *maker,
          at::empty({0}, whole.options()).set_(whole.storage(), slice.storage_offset(), made.sizes(), made.strides()));
      instead_.emplace(i, Memory{Memory::Kind::add_to_zero, {part(whole, span_of(slice))}});
      added_by_.emplace(i, *maker);
      written.push_back(span_of(slice));
    } else if (is_first_addition(i, whole, touched)) {
      auto const slice = calls_[i].in[0].toTensor();
      instead_.emplace(i, Memory{Memory::Kind::zero_plus, {slice, calls_[i].in[1].toTensor()}});
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
  auto from = all.begin;
  for (auto const& span : written) {
    if (from < span.begin) rest.tensors.push_back(part(whole, {from, span.begin}));
    from = span.end;
  }
  if (from < all.end) rest.tensors.push_back(part(whole, {from, all.end}));
  instead_.emplace(clearing, std::move(rest));
}

FULGURITE_BULK_BODY bool DirectGradients::is_first_addition(std::size_t adding, at::Tensor const& whole,
                                                            std::vector<Span> const& touched) const {
  auto const& call = calls_[adding];
  if (c10::toString(call.op.operator_name()) != "aten::add_.Tensor" || call.in[2].toScalar().toDouble() != 1.0)
    return false;
  auto const slice = call.in[0].toTensor(), added = call.in[1].toTensor();
  auto const to = span_of(slice), all = span_of(whole);
  if (storage_of(slice) != storage_of(whole) || to.begin < all.begin || to.end > all.end || slice.numel() == 0)
    return false;
  bool const same = added.scalar_type() == slice.scalar_type() && added.sizes() == slice.sizes() &&
                    added.strides() == slice.strides();
  if (!same || !slice.is_non_overlapping_and_dense() || storage_of(added) == storage_of(whole)) return false;
  return std::none_of(touched.begin(), touched.end(),
                      [&](Span const& other) { return other.begin < to.end && to.begin < other.end; });
}

FULGURITE_BULK_BODY std::optional<std::size_t> DirectGradients::maker_of(std::size_t adding, std::size_t clearing,
                                                                         at::Tensor const& whole,
                                                                         Listing const& listing,
                                                                         std::vector<Span> const& touched) const {
  if (!is_first_addition(adding, whole, touched)) return std::nullopt;
  auto const slice = calls_[adding].in[0].toTensor(), added = calls_[adding].in[1].toTensor();
  if (reinterpret_cast<std::uintptr_t>(slice.const_data_ptr()) % 64 != 0)
    return std::nullopt;  // kernels may sum in another order there
  if (added.storage_offset() != 0 || listing.role(added).kind != Role::Kind::made) return std::nullopt;
  auto const reads = reads_.find(storage_of(added));
  auto const maker = makers_.find(storage_of(added));
  if (reads == reads_.end() || reads->second != 1 || maker == makers_.end() || maker->second < clearing ||
      !forms_[maker->second])
    return std::nullopt;
  auto const& out = calls_[maker->second].out;
  if (out.size() != 1) return std::nullopt;
  auto const made = out[0].toTensor();
  bool const fills = made.numel() == slice.numel() && made.storage_offset() == 0 && made.is_non_overlapping_and_dense();
  return fills ? std::optional(maker->second) : std::nullopt;
}

FULGURITE_BULK_BODY at::Tensor DirectGradients::part(at::Tensor const& whole, Span span) {
  auto const item = static_cast<std::int64_t>(whole.itemsize());
  return at::empty({0}, whole.options())
      .set_(whole.storage(), span.begin / item, {(span.end - span.begin) / item}, {1});
}

FULGURITE_BULK_BODY LaterAdditions::LaterAdditions(std::vector<Call> const& calls, std::vector<bool> const& alive,
                                                   DirectGradients const& first, Listing const& listing,
                                                   std::vector<at::Tensor> const& leaving)
    : calls_(calls), alive_(alive) {
  for (std::size_t i = 0; i != calls.size(); ++i) {
    if (!alive[i]) continue;
    each_tensor_of(calls[i].in, [&](at::Tensor const& tensor) { ++reads_[storage_of(tensor)]; });
    if (auto const where = product_arguments(calls[i]); where && !where->adds)
      products_.emplace(storage_of(calls[i].out[0].toTensor()), i);
  }
  for (auto const& tensor : leaving) ++reads_[storage_of(tensor)];
  for (std::size_t i = 0; i != calls.size(); ++i) {
    if (!alive[i] || first.instead_of(i) || c10::toString(calls[i].op.operator_name()) != "aten::add_.Tensor" ||
        calls[i].in[2].toScalar().toDouble() != 1.0)
      continue;
    look_at(i, listing);
    look_at_row(i);
  }
}

FULGURITE_BULK_BODY void LaterAdditions::look_at(std::size_t adding, Listing const& listing) {
  auto const& call = calls_[adding];
  auto const slice = call.in[0].toTensor(), added = call.in[1].toTensor();
  auto const found = products_.find(storage_of(added));
  if (found == products_.end() || found->second > adding || reads_[storage_of(added)] != 1) return;
  auto const product = found->second;
  auto const made = calls_[product].out[0].toTensor();
  bool const whole = made.is_contiguous() && made.numel() == slice.numel() && made.storage_offset() == 0 &&
                     added.storage_offset() == 0;
  bool const same = added.scalar_type() == slice.scalar_type() && added.sizes() == slice.sizes() &&
                    added.strides() == slice.strides() && slice.is_non_overlapping_and_dense();
  bool const aligned = reinterpret_cast<std::uintptr_t>(slice.const_data_ptr()) % 64 == 0;  // as in the trial
  if (!whole || !same || !aligned || slice.numel() == 0 || !listing.is_world(storage_of(slice)) ||
      listing.role(added).kind != Role::Kind::made || is_touched(slice, product, adding))
    return;
  places_.emplace(
      product,
      at::empty({0}, slice.options()).set_(slice.storage(), slice.storage_offset(), made.sizes(), made.strides()));
  added_.emplace(adding, product);
}

FULGURITE_BULK_BODY void LaterAdditions::look_at_row(std::size_t adding) {
  auto const sum = calls_[adding].in[0].toTensor(), row = calls_[adding].in[1].toTensor();
  auto const found = products_.find(storage_of(sum));
  if (found == products_.end() || found->second >= adding) return;
  auto const product = found->second;
  auto const made = calls_[product].out[0].toTensor();
  bool const whole = made.dim() == 2 && made.is_contiguous() && sum.is_contiguous() && sum.numel() == made.numel() &&
                     sum.storage_offset() == made.storage_offset();
  bool const fits = row.dim() == 1 && row.is_contiguous() && native::is_plain_float(row) &&
                    row.size(0) == made.size(-1) && sum.size(-1) == made.size(-1) && !added_.contains(adding);
  if (!whole || !fits || is_touched(sum, product + 1, adding) || is_touched(row, product + 1, adding) ||
      !rows_.emplace(product, row).second)
    return;
  added_.emplace(adding, product);
}

FULGURITE_BULK_BODY bool LaterAdditions::is_touched(at::Tensor const& slice, std::size_t first,
                                                    std::size_t last) const {
  auto const mine = span_of(slice);
  bool touched = false;
  auto const look = [&](at::Tensor const& tensor) {
    if (storage_of(tensor) != storage_of(slice)) return;
    auto const other = span_of(tensor);
    touched = touched || (other.begin < mine.end && mine.begin < other.end);
  };
  for (auto i = first; i != last; ++i) {
    if (!alive_[i]) continue;
    each_tensor_of(calls_[i].in, look);
    each_tensor_of(calls_[i].out, look);
  }
  return touched;
}

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

FULGURITE_BULK_BODY SmallTrial::SmallTrial(Call const& call, OutForm const& form)
    : form_(form),
      name_(c10::toString(form.op.operator_name())),
      in_place_(writes_in_place(call)),
      allocates_(allocates(call, form)) {
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

FULGURITE_BULK_BODY std::optional<std::size_t> SmallTrial::passing() {
  Stack all = arguments(ours_);
  if (allocates_) all.insert(all.end(), ours_.places.begin(), ours_.places.end());
  auto candidates = native::small_calls(name_, std::move(all));
  for (std::size_t i = 0; i != candidates.size(); ++i)
    if (passes(candidates[i])) return i;
  return std::nullopt;
}

FULGURITE_BULK_BODY bool SmallTrial::passes(native::SmallCall& candidate) {
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

FULGURITE_BULK_BODY Stack SmallTrial::arguments(Side const& side) const {
  Stack all = form_.stack(given_, side.places);
  if (in_place_) all[0] = side.places[0];
  if (generator_) all[*generator_] = side.generator;
  return all;
}

FULGURITE_BULK_BODY void SmallTrial::draw(native::Numbers& numbers, native::Draw kind, bool zero) {
  each_tensor_of(given_, [&](at::Tensor const& tensor) {
    if (tensor.scalar_type() != at::kFloat) return;
    auto* const to = static_cast<float*>(tensor.mutable_data_ptr());
    numbers.fill(to, tensor.numel(), kind);
    if (zero && tensor.dim() == 0) *to = 0;
  });
}

FULGURITE_BULK_BODY void SmallTrial::prepare(Side const& side) const {
  for (IValue const& value : side.places) {
    auto const& place = value.toTensor();
    if (in_place_) std::memcpy(place.mutable_data_ptr(), given_[0].toTensor().const_data_ptr(), place.nbytes());
    else std::memset(place.mutable_data_ptr(), 0xff, place.nbytes());
  }
  if (form_.rows) Memory{Memory::Kind::repeat, {given_[*form_.rows].toTensor(), side.places[0].toTensor()}}.run();
}

FULGURITE_BULK_BODY bool SmallTrial::same() const {
  auto const equal = [](at::Tensor const& a, at::Tensor const& b) {
    return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  };
  for (std::size_t i = 0; i != ours_.places.size(); ++i)
    if (!equal(ours_.places[i].toTensor(), theirs_.places[i].toTensor())) return false;
  return !generator_ || equal(ours_.generator.get_state(), theirs_.generator.get_state());
}

FULGURITE_BULK_BODY at::Tensor SmallTrial::copy(at::Tensor const& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) return at::empty_like(tensor, at::MemoryFormat::Contiguous);
  auto other = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  std::memcpy(other.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
  return other;
}

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
  DirectGradients const gradients(calls_, alive, forms, listing, leaving_);
  LaterAdditions const later(calls_, alive, gradients, listing, leaving_);
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
    places[i] = gradients.place_of(i);
    auto const* const onto = places[i] ? nullptr : later.place_of(i);
    auto const* const row = places[i] || onto ? nullptr : later.row_of(i);
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
    if (auto const* const instead = gradients.instead_of(i)) {
      ++facts_.direct;
      auto const* const maker = gradients.added_by(i);
      bool const added = maker && (plans[*maker] || (small[*maker] && small[*maker]->plus_zero));  // with the result
      if (!instead->tensors.empty() && !added) steps_.push_back({*instead, {}});
      continue;
    }
    if (auto const* const product = later.product_of(i); product && joined[*product]) {
      ++(later.row_of(*product) ? facts_.biases : facts_.direct);
      continue;
    }
    if (plans[i]) {
      steps_.push_back({Product(*plans[i], calls_[i], places[i], joined[i] ? later.row_of(i) : nullptr), {}});
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
      count(calls_[i], !forms[i] && may_be_ours(calls_[i].op) ? "function" : "LibTorch");
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

FULGURITE_BULK_BODY Count& Count::operator=(Count const& other) {
  number_.store(other, std::memory_order_relaxed);
  return *this;
}

FULGURITE_BULK_BODY Count& Count::operator+=(long more) {
  number_.fetch_add(more, std::memory_order_relaxed);
  return *this;
}

FULGURITE_BULK_BODY void stays_as_written(CaptureReport& report, std::string const& reason) {
  std::lock_guard const lock(lists_of_reports());
  if (std::find(report.reasons.begin(), report.reasons.end(), reason) != report.reasons.end()) return;
  report.reasons.push_back(reason);
  ++report.noted;
}

FULGURITE_BULK_BODY void add_tape(CaptureReport& report, TapeFacts const& facts) {
  std::lock_guard const lock(lists_of_reports());
  report.tapes.push_back(facts);
}

FULGURITE_BODY void update_stays_apart(CaptureReport& report, std::string const& reason) {
  std::lock_guard const lock(lists_of_reports());
  report.update_apart = reason;
}

FULGURITE_BODY void steps_stay_single(CaptureReport& report, std::string const& reason) {
  if (report.single == reason) return;
  std::lock_guard const lock(lists_of_reports());
  report.single = reason;
}

/// The calls of a tape by kernel: a line for each kind that computes most, and one for all others.
FULGURITE_BODY void add_calls(std::vector<std::string>& lines, std::vector<TapeFacts::Calls> calls) {
  constexpr std::size_t most = 10;
  auto const numbers_of = [](std::int64_t flops) {
    return flops == 0 ? "" : ", " + report::formatted("%.3g", static_cast<double>(flops) / 1e9) + " GFLOP";
  };
  sort_seldom(calls,
              [](auto const& a, auto const& b) { return a.flops != b.flops ? a.flops > b.flops : a.count > b.count; });
  std::size_t more = 0;
  std::int64_t flops = 0;
  for (std::size_t i = 0; i != calls.size(); ++i) {
    if (i < most)
      lines.push_back("  " + std::to_string(calls[i].count) + " x " + calls[i].what + ": " + calls[i].kernel +
                      numbers_of(calls[i].flops));
    else more += calls[i].count, flops += calls[i].flops;
  }
  if (more != 0) lines.push_back("  " + std::to_string(more) + " other calls" + numbers_of(flops));
}

FULGURITE_BODY std::vector<std::string> account(CaptureReport const& report) {
  std::lock_guard const lock(lists_of_reports());
  auto const text = [](auto n) { return std::to_string(n); };
  std::vector<std::string> lines{"steps replayed: " + text(report.replayed) + ", recorded: " + text(report.recorded) +
                                 ", checked against a replay: " + text(report.checked) + ", run again for a check: " +
                                 text(report.confirmed) + ", as written: " + text(report.eager)};
  for (auto const& tape : report.tapes) {
    lines.push_back("tape of " + text(tape.recorded) + " operators: " + text(tape.replayed) + " replayed (" +
                    text(tape.out_forms) + " write into memory they are given, " + text(tape.products) +
                    " are products by kernels of ours, " + text(tape.small) + " functions on few numbers), dropped: " +
                    text(tape.views) + " views, " + text(tape.constants) + " constants, " + text(tape.dead) +
                    " without effect, " + text(tape.direct) + " clearings and additions of gradients, " +
                    text(tape.biases) + " additions of a bias; keeps " + text(tape.bytes) + " bytes");
    add_calls(lines, tape.calls);
  }
  if (report.updated != 0) lines.push_back("replays that updated, too: " + text(report.updated));
  if (!report.update_apart.empty()) lines.push_back("the update follows the replay: " + report.update_apart);
  if (report.joined != 0) lines.push_back("steps that ran in a graph of several: " + text(report.joined));
  if (!report.single.empty()) lines.push_back("each step is a replay of its own: " + report.single);
  for (auto const& reason : report.reasons) lines.push_back("stays as written: " + reason);
  return lines;
}

FULGURITE_BULK_BODY at::Tensor Copies::take(Tape const& tape, std::size_t number) {
  auto const& from = tape.leaving()[number];
  if (last_.size() <= number) last_.resize(number + 1);
  auto& copy = last_[number];
  if (!copy.defined() || copy.use_count() != 1 || copy.storage().use_count() != 1 || !is_as_it_was(copy, from)) {
    at::AutoDispatchBelowADInplaceOrView const below;
    copy = from.clone();
  } else if (from.is_contiguous()) {
    std::memcpy(copy.data_ptr(), from.const_data_ptr(), from.nbytes());
  } else {
    at::AutoDispatchBelowADInplaceOrView const below;
    copy.copy_(from);
  }
  return copy;
}

FULGURITE_BULK_BODY bool Copies::is_as_it_was(at::Tensor const& copy, at::Tensor const& from) {
  return copy.scalar_type() == from.scalar_type() && copy.sizes() == from.sizes() &&
         (!from.is_contiguous() || copy.is_contiguous()) && copy.unsafeGetTensorImpl()->autograd_meta() == nullptr;
}

FULGURITE_BULK_BODY Generators::Generators(Tape const& tape, bool draws) {
  if (!draws) return;
  add(cpu_generator());
  tape.each_generator([&](at::Generator const& generator) { add(generator); });
  states_ = now();
}

FULGURITE_BULK_BODY std::vector<at::Tensor> Generators::now() const {
  std::vector<at::Tensor> states;
  for (auto generator : all_) {
    std::lock_guard const lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

FULGURITE_BULK_BODY void Generators::restore() const {
  for (std::size_t i = 0; i != all_.size(); ++i) {
    auto generator = all_[i];
    std::lock_guard const lock(generator.mutex());
    generator.set_state(states_[i]);
  }
}

FULGURITE_BULK_BODY void Generators::add(at::Generator const& generator) {
  if (std::find(all_.begin(), all_.end(), generator) == all_.end()) all_.push_back(generator);
}

FULGURITE_BULK_BODY Before::Before(World const& world, Tape const& tape, bool draws)
    : world_(world), generators_(tape, draws), bytes_(world.bytes()) {}

FULGURITE_BULK_BODY bool Before::same(Before const& other) const {
  return bytes_ == other.bytes_ && bytes_of(generators_.states()) == bytes_of(other.generators_.states());
}

FULGURITE_BULK_BODY void Before::restore() const {
  world_.restore(bytes_);
  generators_.restore();
}

FULGURITE_BULK_BODY bool Turns::same() const { return same_ && at_ == found_.size(); }

FULGURITE_BULK_BODY Before Turns::now() const { return {world_, *kept_.tape, kept_.draws}; }

FULGURITE_BULK_BODY void Turns::repeat(loop::Turn turn) {
  if (turn == loop::Turn::looks_at_loss) return;  // there a replay may not have cleared the gradients yet
  if (at_ == found_.size()) return void(same_ = false);
  same_ = same_ && now().same(found_[at_]);
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

FULGURITE_BULK_BODY Before Tapes::before(World const& world, Kept const& kept) {
  return {world, *kept.tape, kept.draws};
}

}  // namespace fulgurite::libtorch::capture
