#pragma once
// The bodies of torch/optim/update_kernel.hpp.

#include <algorithm>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/optim/clip.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY void UpdateTrace::note(What what, std::size_t to, std::size_t from, double number, std::size_t a,
                                           std::size_t b) {
  if (size_ == most) {
    whole_ = false;
    return;
  }
  auto const byte = [](std::size_t value) { return static_cast<std::uint8_t>(value); };
  operations_[size_] = {what, byte(to), byte(from), byte(a), byte(b)};
  numbers_[size_++] = number;
}

FULGURITE_BULK_BODY std::span<UpdateTrace::Operation const> UpdateTrace::operations() const {
  return {operations_.data(), size_};
}
FULGURITE_BULK_BODY std::span<double const> UpdateTrace::numbers() const { return {numbers_.data(), size_}; }

FULGURITE_BULK_BODY TracedValue const& TracedValue::addcmul_(TracedValue const& a, TracedValue const& b,
                                                             double value) const {
  return change(add_product, value, a, b);
}
FULGURITE_BULK_BODY TracedValue TracedValue::addcmul(TracedValue const& a, TracedValue const& b, double value) const {
  return result(add_product, value, a, b);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::addcdiv_(TracedValue const& a, TracedValue const& b,
                                                             double value) const {
  return change(add_quotient, value, a, b);
}

/// The source of a kernel. Each thread computes the numbers at four places. `product_first`: in x + value * a * b the
/// product a * b is rounded first, otherwise value * a. Which it is in LibTorch's kernel is found by comparing.
/// `in_graph`: the numbers are those of the row of the table that is next, from column `at` on, and nothing happens
/// where the table is off or the update is left out. The last block to finish the last run moves the table to its next
/// row: by then all blocks have read the row.
FULGURITE_BODY std::string update_source(UpdateTrace const& trace, std::vector<bool> const& given, at::ScalarType type,
                                         bool product_first, bool in_graph) {
  using What = UpdateTrace::What;
  std::string const number = type == at::kFloat ? "float" : "double";
  auto const x = [](std::size_t value) { return "x" + std::to_string(value); };
  std::vector<bool> written(trace.values(), false);
  std::string lines;
  for (std::size_t i = 0; i != trace.operations().size(); ++i) {
    auto const& operation = trace.operations()[i];
    auto const place = "[" + std::to_string(i) + "]";
    auto const from = x(operation.from), a = x(operation.a), b = x(operation.b),
               n = in_graph ? "(" + number + ")n" + place : "n.at" + place;
    written[operation.to] = true;
    lines += "    " + x(operation.to) + " = ";
    switch (operation.what) {
    case What::copy: lines += a; break;
    case What::scale:
    case What::divide: lines += from + " * " + n; break;
    case What::add_number: lines += from + " + " + n; break;
    case What::sum: lines += "fma(" + a + ", " + n + ", " + from + ")"; break;
    case What::add_product:
      lines += product_first ? "fma(" + n + ", " + a + " * " + b + ", " + from + ")"
                             : "fma(" + n + " * " + a + ", " + b + ", " + from + ")";
      break;
    case What::add_quotient: lines += "fma(" + n + ", " + a + " / " + b + ", " + from + ")"; break;
    case What::root: lines += "sqrt(" + from + ")"; break;
    case What::maximum:
      lines += "(" + from + " != " + from + " || " + from + " > " + a + ") ? " + from + " : " + a;
      break;
    }
    lines += ";\n";
  }
  std::string source = "struct alignas(4 * sizeof(" + number + ")) Four { " + number + " at[4]; };\nstruct Numbers { " +
                       number + " at[" + std::to_string(UpdateTrace::most) +
                       "]; };\nextern \"C\" __global__ void update(long long count, " +
                       (in_graph ? "double* table, int at, int row, int last" : "Numbers n");
  std::string loads, locals, stores;
  for (std::size_t value = 0; value != trace.values(); ++value) {
    bool const input = value < trace.inputs();
    locals += "    " + number + " " + x(value) +
              (input && given[value] ? " = f" + std::to_string(value) + ".at[k];\n" : " = 0;\n");
    if (!input || !given[value]) continue;
    auto const name = std::to_string(value);
    source += ", Four* p" + name;
    loads += "  Four f" + name + " = p" + name + "[i];\n";
    if (!written[value]) continue;
    lines += "    f" + name + ".at[k] = " + x(value) + ";\n";
    stores += "  p" + name + "[i] = f" + name + ";\n";
  }
  auto const body = loads + "  #pragma unroll\n  for (int k = 0; k != 4; ++k) {\n" + locals + lines + "  }\n" + stores;
  std::string const place = "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n";
  if (!in_graph) return source + ") {\n" + place + "  if (i >= count) return;\n" + body + "}\n";
  return source + ") {\n" + place +
         R"(  if (table[0] == 0 || table[3] != 0) return;
  double const* n = table + 4 + (long long)table[1] * row + at;
  if (i < count) {
)" + body +
         R"(  }
  if (!last) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  unsigned* done = (unsigned*)(table + 2);
  if (atomicAdd(done, 1u) + 1 != gridDim.x) return;
  *done = 0;
  table[1] += 1;
}
)";
}

FULGURITE_BULK_BODY void write_numbers(UpdateTrace const& trace, at::ScalarType type, at::Device device, double* to) {
  for (std::size_t i = 0; i != trace.numbers().size(); ++i) {
    auto const number = trace.numbers()[i];
    to[i] = number;
    if (!device.is_cuda() || trace.operations()[i].what != UpdateTrace::What::divide) continue;
    // On a GPU LibTorch multiplies by the inverse, which it computes in the tensor's type.
    to[i] = type == at::kFloat ? double(1.0F / static_cast<float>(number)) : 1.0 / number;
  }
}

/// Launches a kernel over `count` numbers, a multiple of four. `arguments`: those before the pointers to memory.
FULGURITE_BULK_BODY void launch_over(native::GpuKernel const& kernel, std::span<void* const> memory, std::int64_t count,
                                     std::initializer_list<void*> arguments) {
  constexpr int threads = 256;
  long long quarters = count / 4;
  std::array<void*, 8> pointers{};
  std::array<void*, 16> all{&quarters};
  auto next = std::ranges::copy(arguments, all.begin() + 1).out;
  for (std::size_t value = 0; value != memory.size(); ++value) {
    if (memory[value] == nullptr) continue;
    pointers[value] = memory[value];
    *next++ = &pointers[value];
  }
  kernel.launch((quarters + threads - 1) / threads, threads, all.data());
}

/// Launches the kernel with the numbers of the trace.
FULGURITE_BULK_BODY void launch_update(native::GpuKernel const& kernel, UpdateTrace const& trace,
                                       std::span<void* const> memory, std::int64_t count, at::ScalarType type) {
  std::array<double, UpdateTrace::most> doubles{};
  write_numbers(trace, type, at::kCUDA, doubles.data());
  std::array<float, UpdateTrace::most> floats{};
  std::ranges::transform(doubles, floats.begin(), [](double number) { return static_cast<float>(number); });
  launch_over(kernel, memory, count, {type == at::kFloat ? static_cast<void*>(floats.data()) : doubles.data()});
}

/// Launches the kernel that reads its numbers from the table, for run `index` of `runs`.
FULGURITE_BULK_BODY void launch_from_table(native::GpuKernel const& kernel, std::span<void* const> memory,
                                           std::int64_t count, at::Tensor const& table, std::size_t index,
                                           std::size_t runs) {
  auto* numbers = static_cast<double*>(table.mutable_data_ptr());
  int at = static_cast<int>(UpdateTrace::most * index), row = static_cast<int>(UpdateTrace::most * runs),
      last = index + 1 == runs;
  launch_over(kernel, memory, count, {&numbers, &at, &row, &last});
}

/// Runs the kernel with the numbers of the second row of a table, then where the table is off, and where the update is
/// left out. True if the first of these has moved the table by one row; the others have to leave memory as it is.
FULGURITE_BODY bool updates_from_table(native::GpuKernel const& kernel, UpdateTrace const& trace,
                                       std::span<void* const> memory, std::int64_t count, at::ScalarType type,
                                       at::Device device) {
  constexpr auto head = static_cast<std::int64_t>(UpdateTable::head);
  constexpr auto most = static_cast<std::int64_t>(UpdateTrace::most);
  auto const numbers = at::zeros({head + 2 * most}, at::TensorOptions(at::kDouble));
  auto* const row = static_cast<double*>(numbers.mutable_data_ptr());
  row[0] = row[1] = 1;
  write_numbers(trace, type, device, row + head + most);
  auto const table = numbers.to(device);
  launch_from_table(kernel, memory, count, table, 0, 1);
  auto const after = table.cpu();
  for (double const all : {0, 1}) {
    table.fill_(all);
    launch_from_table(kernel, memory, count, table, 0, 1);
  }
  row[1] = 2;
  return at::equal(after, numbers);
}

/// True if the kernel has the bits of LibTorch's operators for numbers of many magnitudes and both signs.
/// `in_graph`: the kernel reads its numbers from a table.
FULGURITE_BODY bool as_operators_do(native::GpuKernel const& kernel, UpdateTrace const& trace,
                                    std::vector<bool> const& given, at::ScalarType type, at::Device device,
                                    std::function<void(std::span<at::Tensor const>)> const& operators, bool in_graph) {
  constexpr std::int64_t count = 8192;
  at::NoGradGuard const no_graph;
  for (bool const positive : {true, false}) {
    std::vector<at::Tensor> ours, theirs;
    std::vector<void*> memory;
    for (std::size_t value = 0; value != given.size(); ++value) {
      ours.emplace_back();
      theirs.emplace_back();
      memory.push_back(nullptr);
      if (!given[value]) continue;
      // Without a generator: exponents from -40 to 20 in an order of its own for each tensor, and mantissas beside.
      auto const place =
          at::arange(count, at::TensorOptions(device).dtype(at::kDouble)).mul(7919.0 + 2.0 * double(value) * 104729.0);
      auto numbers = at::exp2(place.remainder(60.0007).sub(40)).mul(place.remainder(0.9973).add(1));
      if (!positive || value < 2) numbers.mul_(place.remainder(3.1).sub(1.5).sign());
      ours[value] = numbers.to(type);
      theirs[value] = ours[value].clone();
      memory[value] = ours[value].mutable_data_ptr();
    }
    if (!in_graph) launch_update(kernel, trace, memory, count, type);
    else if (!updates_from_table(kernel, trace, memory, count, type, device)) return false;
    operators(theirs);
    for (std::size_t value = 0; value != given.size(); ++value)
      if (given[value] && !at::equal(ours[value].view(at::kByte), theirs[value].view(at::kByte))) return false;
  }
  return true;
}

/// LibTorch may treat 0 and 1 as special, and a rate of 0 would hide how the last operation rounds.
FULGURITE_BULK_BODY int special(double number) { return number == 0 ? 0 : number == 1 ? 1 : 2; }

/// The kernels of the process, by what they do.
class UpdateKernels {
 public:
  static UpdateKernels& of_process() {
    static auto& kernels = *new UpdateKernels;  // threads may use it until the very end
    return kernels;
  }
  /// `operators`: null if the kernel must be known.
  native::GpuKernel const* of(UpdateTrace const& trace, std::span<void* const> memory, at::ScalarType type,
                              at::Device device, std::function<void(std::span<at::Tensor const>)> const& operators,
                              bool in_graph) {
    std::lock_guard const lock(mutex_);
    for (auto const& entry : entries_)
      if (entry.type == type && entry.device == device && entry.in_graph == in_graph &&
          std::ranges::equal(entry.operations, trace.operations()) &&
          std::ranges::equal(entry.numbers, trace.numbers(), {}, {}, special) &&
          std::ranges::equal(entry.given, memory, {}, {}, [](void* at) { return at != nullptr; }))
        return entry.kernel;
    if (!operators || native::is_recording_graph(device)) return nullptr;
    Entry entry{type, device, in_graph, {trace.operations().begin(), trace.operations().end()}, {}, {}, nullptr};
    std::ranges::transform(trace.numbers(), std::back_inserter(entry.numbers), special);
    for (auto* const at : memory) entry.given.push_back(at != nullptr);
    for (bool const product_first : {true, false}) {
      auto const* const kernel =
          native::GpuKernel::of(update_source(trace, entry.given, type, product_first, in_graph), "update", device);
      if (kernel == nullptr || !as_operators_do(*kernel, trace, entry.given, type, device, operators, in_graph))
        continue;
      entry.kernel = kernel;
      break;
    }
    return entries_.emplace_back(std::move(entry)).kernel;
  }

 private:
  struct Entry {
    at::ScalarType type;
    at::Device device;
    bool in_graph;
    std::vector<UpdateTrace::Operation> operations;
    std::vector<int> numbers;  ///< 0 and 1 as they are, 2 for others
    std::vector<bool> given;
    native::GpuKernel const* kernel;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

/// True if a kernel can be written for this: all of it, for numbers that lie in whole groups of four.
FULGURITE_BULK_BODY bool fits_kernel(UpdateTrace const& trace, std::span<void* const> memory, std::int64_t count,
                                     at::ScalarType type) {
  auto const bytes = static_cast<std::uintptr_t>(type == at::kDouble ? 32 : 16);
  for (auto* const at : memory)
    if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) return false;
  return trace.whole() && count % 4 == 0 && (type == at::kFloat || type == at::kDouble);
}

FULGURITE_BULK_BODY bool updated_by_kernel(UpdateTrace const& trace, std::span<void* const> memory, std::int64_t count,
                                           at::ScalarType type, at::Device device,
                                           std::function<void(std::span<at::Tensor const>)> const& operators) {
  if (!fits_kernel(trace, memory, count, type)) return false;
  auto const* const kernel = UpdateKernels::of_process().of(trace, memory, type, device, operators, false);
  if (kernel != nullptr) launch_update(*kernel, trace, memory, count, type);
  return kernel != nullptr;
}

FULGURITE_BODY bool has_kernel_in_graph(TracedUpdate const& update,
                                        std::function<void(std::span<at::Tensor const>)> const& operators) {
  auto const& [trace, type, device, count, memory] = update;
  return fits_kernel(trace, update.inputs(), count, type) &&
         UpdateKernels::of_process().of(trace, update.inputs(), type, device, operators, true) != nullptr;
}

FULGURITE_BODY void launch_update_in_graph(TracedUpdate const& update, at::Tensor const& table, std::size_t index,
                                           std::size_t runs) {
  auto const* const kernel =
      UpdateKernels::of_process().of(update.trace, update.inputs(), update.type, update.device, nullptr, true);
  TORCH_CHECK(kernel != nullptr, "the kernel of an update was not compiled before its graph was recorded");
  launch_from_table(*kernel, update.inputs(), update.count, table, index, runs);
}

FULGURITE_BULK_BODY std::span<void* const> TracedUpdate::inputs() const { return {memory.data(), trace.inputs()}; }

FULGURITE_BULK_BODY bool TracedUpdate::does(TracedUpdate const& other) const {
  if (type != other.type || device != other.device || count != other.count || memory != other.memory ||
      !std::ranges::equal(trace.operations(), other.trace.operations()))
    return false;
  for (std::size_t i = 0; i != trace.operations().size(); ++i) {
    auto const what = trace.operations()[i].what;
    int const mine = special(trace.numbers()[i]), others = special(other.trace.numbers()[i]);
    bool const exact = what == UpdateTrace::What::scale || what == UpdateTrace::What::divide;
    if (mine != others && !(exact && mine == 2 && others == 1)) return false;
  }
  return true;
}

}  // namespace fulgurite::libtorch

namespace fulgurite::libtorch::graph {

inline constexpr auto table_head = static_cast<std::int64_t>(UpdateTable::head);

FULGURITE_BODY UpdateInGraph::UpdateInGraph(std::size_t most_runs, at::Device device)
    : table_(at::zeros({table_head + most_rows * static_cast<std::int64_t>(most_runs * UpdateTrace::most)},
                       at::TensorOptions(device).dtype(at::kDouble))),
      noted_(at::zeros({}, table_.options().dtype(at::kFloat))),
      most_runs_(most_runs) {
  TORCH_CHECK(!native::is_recording_graph(device), "the table of an update would lie in the memory of a graph");
}

FULGURITE_BODY bool UpdateInGraph::take(std::vector<TracedUpdate> runs) {
  if (runs.size() > most_runs_) return false;
  runs_ = std::move(runs);
  return true;
}

FULGURITE_BODY void UpdateInGraph::note(at::Tensor const& value) const {
  at::NoGradGuard const no_graph;
  noted_.add_(value.reshape({}), 0);
}

FULGURITE_BODY at::Tensor UpdateInGraph::on() const {
  return table_.select(0, static_cast<std::int64_t>(UpdateTable::on)).ne(0);
}

FULGURITE_BODY at::Tensor UpdateInGraph::found_in(ArenaParameters const& parameters) const {
  Gradients const gradients(parameters);
  auto found = at::zeros({1}, noted_.options());
  at::_amp_foreach_non_finite_check_and_unscale_(*gradients, found, at::ones_like(found));  // writes the same bits
  return found;
}

FULGURITE_BODY void UpdateInGraph::leave_out(at::Tensor const& found, bool looks, at::Tensor const* loss) {
  at::NoGradGuard const no_graph;
  may_leave_out_ = true;
  auto reason = found;  // 1: the gradients, 2: a loss, 3: both
  if (looks) {
    auto const none = loss ? loss->reshape({1}).sub(loss->reshape({1})) : at::zeros_like(found);
    reason = reason.add(none.ne(noted_), 2);  // nan is not equal to nan
  }
  table_.narrow(0, static_cast<std::int64_t>(UpdateTable::left_out), 1).copy_(reason);
}

FULGURITE_BODY at::Tensor UpdateInGraph::clip(ArenaParameters const& parameters, Clip const& clip,
                                              at::Tensor const& on) const {
  if (clip.kind == Clip::Kind::none) return {};
  Gradients const gradients(parameters);
  if (clip.kind == Clip::Kind::norm) {
    auto const norms = norms_of(parameters, *gradients);
    auto const norm = norms.size() == 1 ? norms.front() : at::linalg_vector_norm(at::stack(norms), 2);
    at::_foreach_mul_(*gradients, at::where(on, factor_of(norm, clip.limit), at::ones_like(norm)));
    return norm;
  }
  for (auto& gradient : *gradients) {
    auto const most = [&](double limit) { return at::full({}, limit, gradient.options()); };
    auto const limit = at::where(on, most(clip.limit), most(std::numeric_limits<double>::infinity()));
    gradient.clamp_(limit.neg(), limit);
  }
  return {};
}

FULGURITE_BODY void UpdateInGraph::launch() const {
  for (std::size_t i = 0; i != runs_.size(); ++i) launch_update_in_graph(runs_[i], table_, i, runs_.size());
  make_average();
}

FULGURITE_BODY void UpdateInGraph::take_average(loop::AverageOfStep<at::Tensor> const& average) {
  averages_.assign(average.kept.begin(), average.kept.end());
  averaged_.assign(average.live.begin(), average.live.end());
  share_ = average.share;
}

FULGURITE_BODY void UpdateInGraph::make_average() const {
  auto to = averages_;
  if (!to.empty()) lerp_into(std::span(to), std::span(averaged_), share_);
}

FULGURITE_BODY void UpdateInGraph::keep_averages() {
  averages_before_.clear();
  for (auto const& average : averages_) averages_before_.push_back(average.clone());
}

FULGURITE_BODY void UpdateInGraph::restore_averages() {
  auto const before = std::exchange(averages_before_, {});
  for (std::size_t i = 0; i != before.size(); ++i) averages_[i].copy_(before[i]);
}

FULGURITE_BULK_BODY bool UpdateInGraph::fits(std::vector<TracedUpdate> const& now,
                                             loop::AverageOfStep<at::Tensor> const& average) const {
  auto const same = [](auto& a, auto& b) { return a.is_same(b); };
  return proof_ != Proof::failed &&
         std::ranges::equal(runs_, now, [](auto const& a, auto const& b) { return a.does(b); }) &&
         (averages_.empty() || (share_ == average.share && std::ranges::equal(averages_, average.kept, same)));
}

FULGURITE_BULK_BODY std::vector<double> UpdateInGraph::numbers(std::vector<TracedUpdate> const& update) {
  std::vector<double> row(update.size() * UpdateTrace::most);
  for (std::size_t i = 0; i != update.size(); ++i)
    write_numbers(update[i].trace, update[i].type, update[i].device, &row[i * UpdateTrace::most]);
  return row;
}

FULGURITE_BULK_BODY void UpdateInGraph::turn_on(std::vector<TracedUpdate> const& now,
                                                FunctionRef<std::vector<TracedUpdate>(long)> later) {
  auto row = numbers(now);
  auto const size = row.size();
  bool const more = next_ != rows_.size();
  bool const right = more && std::memcmp(&rows_[next_], row.data(), size * sizeof(double)) == 0;
  if (!on_ || !right) {
    if (on_) foreseen_ = more ? 1 : std::min(2 * foreseen_, most_rows);
    rows_ = std::move(row);
    for (long n = 1; n < foreseen_; ++n) std::ranges::copy(numbers(later(n)), std::back_inserter(rows_));
    upload();
  }
  next_ += size;
  if (proof_ == Proof::none) keep_averages();
}

FULGURITE_BULK_BODY void UpdateInGraph::turn_on(std::vector<double> rows) {
  rows_ = std::move(rows);
  upload();
  next_ = rows_.size();
}

/// The copy reads pinned memory that LibTorch does not hand out again before the copy is done.
FULGURITE_BULK_BODY void UpdateInGraph::upload() {
  at::NoGradGuard const no_graph;
  auto const size = table_head + static_cast<std::int64_t>(rows_.size());
  auto const host = at::empty({size}, at::TensorOptions(at::kDouble).pinned_memory(!table_.is_cpu()));
  auto* const numbers = static_cast<double*>(host.mutable_data_ptr());
  std::fill_n(numbers, table_head, 0.0);
  numbers[static_cast<std::size_t>(UpdateTable::on)] = 1;
  std::ranges::copy(rows_, numbers + table_head);
  table_.narrow(0, 0, size).copy_(host, true);
  next_ = 0;
  on_ = true;
}

FULGURITE_BULK_BODY UpdateInGraph::Outcome UpdateInGraph::outcome() {
  bool const averages = !averages_.empty();
  if (proof_ == Proof::made && !may_leave_out_) return {.averaged = averages};
  auto const head = table_.narrow(0, 0, table_head).cpu();
  auto const number = [&](UpdateTable column) {
    return static_cast<double const*>(head.const_data_ptr())[static_cast<std::size_t>(column)];
  };
  auto const reason = static_cast<int>(number(UpdateTable::left_out));
  if (reason != 0) {
    next_ -= runs_.size() * UpdateTrace::most;  // the table is still at this row
    if ((reason & 2) != 0) noted_.zero_();
  } else if (proof_ == Proof::none) {
    bool const ran = number(UpdateTable::on) == 1 && number(UpdateTable::row) == 1 && number(UpdateTable::done) == 0;
    proof_ = ran ? Proof::made : Proof::failed;
    if (!ran) restore_averages();
    averages_before_.clear();
  }
  bool const ran = proof_ != Proof::failed;
  return {ran, (reason & 1) == 0, (reason & 2) == 0, averages && ran};
}

FULGURITE_BULK_BODY void UpdateInGraph::turn_off() {
  keep_averages();
  if (!std::exchange(on_, false)) return;
  at::NoGradGuard const no_graph;
  table_.narrow(0, static_cast<std::int64_t>(UpdateTable::on), 1).zero_();
}

FULGURITE_BULK_BODY TurnedOff::TurnedOff(UpdateInGraph* update) : update_(update) {
  if (update_) update_->turn_off();
}
FULGURITE_BULK_BODY TurnedOff::~TurnedOff() {
  try {
    if (update_) update_->restore_averages();
  } catch (std::exception const&) {  // a failed device reports its error again in the next operation
  }
}

FULGURITE_BODY NotesUndone::NotesUndone(UpdateInGraph const* update) {
  if (update) noted_ = update->noted(), before_ = noted_.clone();
}
FULGURITE_BODY NotesUndone::~NotesUndone() {
  try {
    if (noted_.defined()) noted_.copy_(before_);
  } catch (std::exception const&) {  // likewise
  }
}

}  // namespace fulgurite::libtorch::graph
