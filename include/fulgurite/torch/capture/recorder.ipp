#pragma once
// The bodies of torch/capture/recorder.hpp.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <utility>

#include <fulgurite/core/types.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/rng.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY void Recorder::refuse(std::string reason) {
  if (!refusal.empty()) return;
  refusal = std::move(reason);
  calls.clear();
}

FULGURITE_BULK_BODY void Recorder::take(c10::OperatorHandle const& op, c10::DispatchKeySet below, Stack* stack) {
  auto const& schema = op.schema();
  std::size_t const arguments = schema.arguments().size(), returns = schema.returns().size();
  name_generator(op, *stack);  // a replay calls kernels below the level where that happens
  Stack const given(stack->end() - static_cast<std::ptrdiff_t>(arguments), stack->end());
  Stack in = keep(given);
  bool const graph = c10::GradMode::is_enabled();
  op.redispatchBoxed(below, stack);
  if (!refusal.empty()) return;
  Stack out = keep(Stack(stack->end() - static_cast<std::ptrdiff_t>(returns), stack->end()));
  if (!refusal.empty()) return;
  std::vector<Version> written;
  for (std::size_t i = 0; i != arguments; ++i) {
    auto const* alias = schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    if (moved(in[i], given[i])) return refuse(op.operator_name().name + " changes the shape of a tensor in place");
    each_tensor_in(given[i], [&](at::Tensor const& tensor) {
      if (!tensor.is_inference())
        written.push_back({storage_of(tensor), tensor.unsafeGetTensorImpl()->version_counter()});
    });
  }
  calls.push_back({op, std::move(in), std::move(out), graph, std::move(written)});
}

FULGURITE_BULK_BODY void Recorder::take_turn(loop::Turn turn, at::Tensor const& loss,
                                             std::vector<at::Tensor> const& model) {
  if (!refusal.empty()) return;
  auto in = keep({std::vector<at::Tensor>(loss.defined() ? 1U : 0U, loss), model, static_cast<std::int64_t>(turn)});
  if (!refusal.empty()) return;
  calls.push_back({c10::Dispatcher::singleton().findSchemaOrThrow("fulgurite::turn", ""),
                   std::move(in),
                   {},
                   c10::GradMode::is_enabled()});
}

FULGURITE_BULK_BODY std::atomic<long>& Recorder::strays() {
  static std::atomic<long> count = 0;
  return count;
}

FULGURITE_BULK_BODY Stack Recorder::keep(Stack const& values) {
  Stack kept;
  if (!refusal.empty()) return kept;
  each_tensor_of(values, [&](at::Tensor const& tensor) {
    bool const number = !device_.is_cpu() && tensor.is_cpu() &&
                        tensor.dim() == 0;  // a host number, which a device's kernels take by value
    if (!number && !is_plain(tensor, device_))
      refuse("the step uses a tensor that is not a dense real one of " + name_of(device_));
  });
  if (!refusal.empty()) return kept;
  kept.reserve(values.size());
  for (IValue const& value : values)
    kept.push_back(with_tensors(value, [](at::Tensor const& tensor) { return frozen(tensor); }));
  return kept;
}

FULGURITE_BULK_BODY bool Recorder::moved(IValue const& before, IValue const& after) {
  std::vector<at::Tensor> old;
  each_tensor_in(before, [&](at::Tensor const& tensor) { old.push_back(tensor); });
  bool differs = false;
  std::size_t i = 0;
  each_tensor_in(after, [&](at::Tensor const& tensor) {
    differs = differs || i == old.size() || storage_of(old[i]) != storage_of(tensor) || !same_layout(old[i], tensor);
    ++i;
  });
  return differs || i != old.size();
}

FULGURITE_BULK_BODY void intercept(c10::OperatorHandle const& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard const inner(recording_key);
  auto const below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, recording_key);
  if (auto* recorder = Recorder::current()) return recorder->take(op, below, stack);
  ++Recorder::strays();
  op.redispatchBoxed(below, stack);
}

FULGURITE_BULK_BODY bool available() {
  static torch::Library* const library = [] {
    torch::Library* made = nullptr;
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(recording_key)) return made;
    made = new torch::Library(torch::Library::IMPL, "_", recording_key, __FILE__,
                              __LINE__);  // lives as long as the process
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
    // Never called: its schema says what a turn of the trainer reads and writes.
    (new torch::Library(torch::Library::FRAGMENT, "fulgurite", std::nullopt, __FILE__, __LINE__))
        ->def("turn(Tensor[] loss, Tensor(a!)[] model, int turn) -> ()");
    return made;
  }();
  return library != nullptr;
}

FULGURITE_BULK_BODY Recording::Recording(Recorder& recorder)
    : recorder_(recorder), outer_(Recorder::current()), strays_(Recorder::strays()), on_(recording_key) {
  Recorder::current() = &recorder;
}

FULGURITE_BULK_BODY Recording::~Recording() {
  Recorder::current() = outer_;
  if (Recorder::strays() != strays_) recorder_.refuse("operators were called on another thread");
}

FULGURITE_BULK_BODY bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (auto const& known : names)
    if (name == known) return true;
  return false;
}

FULGURITE_BULK_BODY bool is_empty_factory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

FULGURITE_BULK_BODY bool is_constant_factory(std::string_view name) {
  return one_of(name, {"aten::zeros", "aten::ones", "aten::full", "aten::scalar_tensor", "aten::arange",
                       "aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::new_zeros", "aten::new_ones",
                       "aten::new_full", "aten::eye"});
}

/// True if the operator sets this argument without reading it.
FULGURITE_BULK_BODY bool overwrites(std::string_view name, std::size_t argument) {
  if (argument == 1) return name.starts_with("aten::rrelu_with_noise");  // in training; else it leaves the noise alone
  return argument == 0 && one_of(name, {"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
                                        "aten::bernoulli_", "aten::random_", "aten::exponential_", "aten::log_normal_",
                                        "aten::cauchy_", "aten::geometric_"});
}

/// True if the operator's result depends on shapes and types only, not on values.
FULGURITE_BULK_BODY bool reads_shapes_only(std::string_view name) {
  return one_of(name, {"aten::is_same_size", "aten::result_type", "aten::_fused_sdp_choice",
                       "aten::_has_compatible_shallow_copy_type"});
}

/// True if the sizes of the operator's results depend on values of its arguments, although it lacks LibTorch's tag for
/// that.
FULGURITE_BULK_BODY bool is_sized_by_values(std::string_view name) {
  return one_of(name, {"aten::_pack_padded_sequence", "aten::_unique", "aten::_padded_dense_to_jagged_forward"});
}

FULGURITE_BULK_BODY bool writes_undeclared(std::string_view name) {
  return name.find("batch_norm") != std::string_view::npos || name.find("instance_norm") != std::string_view::npos;
}

/// Appends a number without a string of its own: a step has some thousand numbers, and each check writes them.
void append_number(std::string& text, char before, auto number) {
  char digits[24] = {before};
  text.append(digits, std::to_chars(digits + 1, std::end(digits), number).ptr);
}

FULGURITE_BULK_BODY std::string Listing::leaves(at::Tensor const& tensor) {
  text_.clear();
  append(tensor, "what the step returns or logs");
  return text_;
}

FULGURITE_BULK_BODY bool Listing::is_world(Storage storage) const { return world_.number(storage).has_value(); }

FULGURITE_BODY Role Listing::role(at::Tensor const& tensor) const {
  auto const storage = storage_of(tensor);
  if (auto const made = made_.find(storage); made != made_.end()) return {Role::Kind::made, made->second};
  if (auto const number = world_.number(storage)) return {Role::Kind::world, *number};
  for (std::size_t i = 0; i != batch_.size(); ++i)
    if (within(tensor, batch_[i])) return {Role::Kind::batch, i};
  return {Role::Kind::constant, 0};
}

FULGURITE_BULK_BODY void Listing::refuse(std::string reason) {
  if (refusal.empty()) refusal = std::move(reason);
}

FULGURITE_BODY bool Listing::within(at::Tensor const& part, at::Tensor const& whole) {
  if (!whole.defined() || storage_of(part) != storage_of(whole)) return false;
  auto const a = span_of(part), b = span_of(whole);
  return a.begin >= b.begin && a.end <= b.end;
}

FULGURITE_BULK_BODY bool Listing::shares_batch(Storage storage) const {
  for (auto const& tensor : batch_)
    if (tensor.defined() && storage_of(tensor) == storage) return true;
  return false;
}

FULGURITE_BODY void Listing::append(at::Tensor const& tensor, std::string const& reader) {
  auto const [kind, number] = role(tensor);
  auto offset = tensor.storage_offset();
  if (kind == Role::Kind::batch) {
    for (std::size_t i = 0; i != batch_.size(); ++i)
      if (i != number && batch_[i].defined() && storage_of(batch_[i]) == storage_of(tensor) &&
          span_of(batch_[i]).overlaps(span_of(batch_[number])))
        refuse("tensors of the batch share memory");
    auto const& whole = batch_[number];
    auto const item = tensor.itemsize();
    if (item != whole.itemsize() && reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % item != 0)
      refuse(reader + " reads a tensor of the batch as another type, at an address that is no multiple of its size");
    offset = span_of(tensor).begin - span_of(whole).begin;
  } else if (kind == Role::Kind::constant) {
    bool const wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    bool const seed = seed_.defined() && storage_of(seed_) == storage_of(tensor);
    if (!wrapped && !seed)
      refuse(reader + " reads a tensor that is neither the batch nor a parameter, gradient or buffer of the model: "
                      "register it as a buffer");
    else append_number(text_ += " value", ' ', bits_of(tensor));
  }
  text_ += ' ';
  append_number(text_, "wbtc"[static_cast<std::size_t>(kind)], number);
  append_number(text_, '+', offset);
  (text_ += ' ') += c10::toString(tensor.scalar_type());
  for (auto n : tensor.sizes()) append_number(text_, ',', n);
  for (auto n : tensor.strides()) append_number(text_, ';', n);
  if (tensor.requires_grad()) text_ += " requires_grad";
}

FULGURITE_BODY void Listing::append(IValue const& value, std::string const& reader) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) append(value.toTensor(), reader);
    else text_ += " undefined";
  } else if (value.isList()) {
    text_ += " [";
    for (IValue const& element : value.toListRef()) append(element, reader);
    text_ += " ]";
  } else if (value.isNone()) text_ += " none";
  else if (value.isBool()) text_ += value.toBool() ? " true" : " false";
  else if (value.isDouble()) {
    double const number = value.toDouble();
    std::uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    append_number(text_ += ' ', 'd', bits);
  } else if (value.isInt()) append_number(text_, ' ', value.toInt());
  else if (value.isString()) text_ += " '" + value.toStringRef() + "'";
  else if (value.isDevice()) text_ += " " + value.toDevice().str();
  else if (value.isGenerator())
    text_ +=
        " generator " + std::to_string(reinterpret_cast<std::uintptr_t>(value.toGenerator().unsafeGetGeneratorImpl()));
  else refuse(reader + " has an argument of a kind that a tape does not know: " + value.tagKind());
}

FULGURITE_BODY std::uint64_t Listing::bits_of(at::Tensor const& tensor) {
  std::uint64_t bits = 0;
  if (tensor.numel() != 0)
    std::memcpy(&bits, tensor.const_data_ptr(), std::min<std::size_t>(sizeof bits, tensor.itemsize()));
  return bits;
}

FULGURITE_BULK_BODY Listing::Listing(std::vector<Call> const& calls, std::vector<at::Tensor> batch, World const& world,
                                     at::Tensor const& seed)
    : world_(world), batch_(std::move(batch)), seed_(seed) {
  for (auto const& tensor : batch_)
    if (tensor.defined() && world_.number(storage_of(tensor))) refuse("the batch shares memory with the model");
  for (auto const& call : calls) {
    if (!refusal.empty()) return;
    lines.push_back(line(call));
  }
}

FULGURITE_BODY std::string Listing::line(Call const& call) {
  auto const& schema = call.op.schema();
  auto const& name = call.name();
  using at::Tag;
  if (!name.starts_with("aten::") && !is_turn(name)) refuse(name + " is not one of LibTorch's own operators");
  if (call.op.hasTag(Tag::data_dependent_output)) refuse(name + " reads a value on the host");
  if ((call.op.hasTag(Tag::dynamic_output_shape) && !indexes_by_number(call)) || is_sized_by_values(name))
    refuse(name + " has a result whose shape depends on values");
  if (call.op.hasTag(Tag::inplace_view)) refuse(name + " changes the shape of a tensor in place");

  text_ = name;
  if (auto const& overload = call.op.operator_name().overload_name; !overload.empty()) (text_ += '.') += overload;
  if (call.graph) text_ += " graph";
  std::vector<Storage> given, here;
  auto const has = [](std::vector<Storage> const& all, Storage one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  bool writes = false;
  for (std::size_t i = 0; i != call.in.size(); ++i) {
    writes = writes || is_written(call, i);
    each_tensor_in(call.in[i], [&](at::Tensor const& tensor) { given.push_back(storage_of(tensor)); });
  }
  bool tensors = false, others = false, fresh = false;
  for (IValue const& value : call.out) {
    bool const any = value.isTensor() || value.isTensorList();
    tensors = tensors || any;
    others = others || !any;
    each_tensor_in(value, [&](at::Tensor const& tensor) {
      auto const storage = storage_of(tensor);
      if (has(given, storage)) return;
      fresh = true;
      if (has(here, storage)) return;
      here.push_back(storage);
      if (made_.contains(storage) || world_.number(storage) || shares_batch(storage))
        refuse(name + " returns a tensor that it was not given");
    });
  }
  bool const values = fresh ? !is_constant_factory(name) && !is_empty_factory(name) : writes;
  for (std::size_t i = 0; i != call.in.size(); ++i) {
    bool const written = is_written(call, i);
    bool const sets = written && (overwrites(name, i) || schema.arguments()[i].is_out());
    each_tensor_in(call.in[i], [&](at::Tensor const& tensor) {
      auto const storage = storage_of(tensor);
      if (values && !sets && raw_.contains(storage)) refuse(name + " reads a tensor that the host has filled");
      auto const kind = role(tensor).kind;
      if (written && (kind == Role::Kind::batch || kind == Role::Kind::constant))
        refuse(name + " writes into the batch or a constant");
      if (written || writes_undeclared(name)) rewritten.insert(storage);
      if (written) set_.push_back(storage);
    });
    append(call.in[i], name);
  }
  for (auto const storage : set_) raw_.erase(storage);
  set_.clear();
  for (auto const storage : here) {
    made_.emplace(storage, made_.size());
    if (is_empty_factory(name)) raw_.insert(storage);
  }
  text_ += " ->";
  if (others && !(reads_shapes_only(name) && !tensors && !writes)) refuse(name + " gives a value to the host");
  if (call.out.empty() && !writes) refuse(name + " returns nothing");
  for (IValue const& value : call.out) append(value, name);
  view.push_back(!writes && !fresh);
  return text_;
}

FULGURITE_BODY bool Listing::indexes_by_number(Call const& call) {
  bool masks = call.name() != "aten::index";
  each_tensor_of(call.in, [&](at::Tensor const& tensor) {
    masks = masks || (!tensor.is_same(call.in[0].toTensor()) &&
                      (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte));
  });
  return !masks;
}

FULGURITE_BULK_BODY bool Listing::is_written(Call const& call, std::size_t argument) {
  auto const* alias = call.op.schema().arguments()[argument].alias_info();
  return alias && alias->isWrite();
}

FULGURITE_BULK_BODY std::vector<bool> live_calls(std::vector<Call> const& calls, std::vector<at::Tensor> const& leaving,
                                                 Listing const& listing, TapeFacts& facts) {
  std::unordered_set<Storage> needed;
  for (auto const& tensor : leaving) needed.insert(storage_of(tensor));
  auto const touches = [&](Stack const& values) {
    bool any = false;
    each_tensor_of(values, [&](at::Tensor const& tensor) {
      any = any || needed.contains(storage_of(tensor)) || listing.role(tensor).kind != Role::Kind::made;
    });
    return any;
  };
  std::vector<bool> alive(calls.size());
  for (std::size_t i = calls.size(); i-- > 0;) {
    auto const& call = calls[i];
    auto const& name = call.name();
    if (listing.view[i]) {
      ++facts.views;
      continue;
    }
    bool const factory = is_empty_factory(name) || is_constant_factory(name);
    bool const pure = (call.op.hasTag(at::Tag::pointwise) || factory ||
                       one_of(name, {"aten::fill_", "aten::zero_", "aten::copy_"})) &&
                      !call.op.hasTag(at::Tag::nondeterministic_seeded);
    bool const unseen = !touches(call.out) && !(call.op.schema().is_mutable() && touches(call.in));
    if (is_empty_factory(name) || (pure && unseen)) {
      ++facts.dead;
      continue;
    }
    alive[i] = true;
    each_tensor_of(call.in, [&](at::Tensor const& tensor) { needed.insert(storage_of(tensor)); });
  }
  return alive;
}

// The report.

FULGURITE_BULK_BODY Count& Count::operator=(Count const& other) {
  number_.store(other, std::memory_order_relaxed);
  return *this;
}

FULGURITE_BULK_BODY Count& Count::operator+=(long more) {
  number_.fetch_add(more, std::memory_order_relaxed);
  return *this;
}

FULGURITE_BULK_BODY void stays_as_written(CaptureReport& report, std::string const& reason, bool given) {
  std::lock_guard const lock(lists_of_reports());
  auto& all = report.reasons;
  if (std::find(all.begin(), all.end(), reason) == all.end()) {
    all.push_back(reason);
    ++report.noted;
  }
  // Those that were given come first.
  auto const next = all.begin() + report.warned, found = std::find(next, all.end(), reason);
  if (!given || found == all.end()) return;
  std::rotate(next, found, found + 1);
  ++report.warned;
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
  std::lock_guard const lock(lists_of_reports());
  if (report.single != reason) report.single = reason;
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

}  // namespace fulgurite::libtorch::capture
