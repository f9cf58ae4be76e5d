// The fake accelerator of fake_device.hpp: memory, streams, generators and kernels, and their registration.

#include "fake_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace fake {
namespace {

using at::Tensor, c10::Device, c10::DeviceIndex, c10::DispatchKey, c10::DispatchKeySet, c10::Storage, c10::Stream,
    c10::StreamId;
using Guarded = std::lock_guard<std::recursive_mutex>;

// Memory of a device. A block's address is only a name for it, in a range that nobody may read; its numbers are in a
// storage of the CPU.

struct Block {
  Storage host;
};
Storage const& host_of(Storage const& storage) { return static_cast<Block*>(storage.data_ptr().get_context())->host; }

at::DataPtr block_over(Storage host, Device device) {
  constexpr std::size_t range = std::size_t{1} << 42, unit = 512;
  static auto* const base =
      static_cast<char*>(::mmap(nullptr, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  static std::atomic<std::size_t> next{0};
  auto const size = (host.nbytes() / unit + 1) * unit;
  return {base + next.fetch_add(size) % (range / 2), new Block{std::move(host)},
          [](void* block) { delete static_cast<Block*>(block); }, device};
}

struct DeviceMemory final : c10::DeviceAllocator {
  at::DataPtr allocate(std::size_t bytes) override {
    Storage host(Storage::use_byte_size_t(), static_cast<std::int64_t>(bytes), c10::GetCPUAllocator(), true);
    std::memset(host.mutable_data(), 0xff, bytes);
    return block_over(std::move(host), c10::impl::getDeviceGuardImpl(device_type)->getDevice());
  }
  void copy_data(void*, void const*, std::size_t) const override { TORCH_CHECK(false, "fake: no raw copies"); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(at::DataPtr const&, Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { return {}; }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override {}
} device_memory;

// Pinned memory, and the copies that have not happened yet. All streams of a device are one queue.

std::set<void const*> pinned;
std::vector<void*> unpinned;  ///< freed, but a copy may still read it until the host has waited

struct PinnedMemory final : at::HostAllocator {
  at::DataPtr allocate(std::size_t bytes) override {
    at::globalContext().lazyInitDevice(device_type);  // before that is_pinned() asks nobody
    void* const memory = std::malloc(bytes + 1);
    Guarded const guarded(lock);
    pinned.insert(memory);
    auto const release = [](void* freed) {
      Guarded const also_guarded(lock);
      pinned.erase(freed);
      unpinned.push_back(freed);
    };
    return {memory, memory, release, Device(c10::kCPU)};
  }
  void copy_data(void* to, void const* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool record_event(void*, void*, Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
} pinned_memory;

struct Queue {
  std::deque<std::function<void()>> copies;
  std::vector<std::pair<void const*, Tensor>> sources;  ///< pinned memory, and its content when the copy was asked for
  long done = 0;
  long end() const { return done + static_cast<long>(copies.size()); }
};
std::array<Queue, device_count> queues;
Queue& queue_of(DeviceIndex index) { return queues.at(static_cast<std::size_t>(index)); }

/// The copies before a place in the queue happen now.
void finish(DeviceIndex index, long place = std::numeric_limits<long>::max()) {
  Guarded const guarded(lock);
  for (auto& queue = queue_of(index); queue.done < place && !queue.copies.empty(); ++queue.done) {
    auto const copy = std::move(queue.copies.front());
    queue.copies.pop_front();
    copy();
  }
}

void wait(DeviceIndex index) {
  Guarded const guarded(lock);
  ++counts.waits;
  finish(index);
  for (auto const& [now, then] : std::exchange(queue_of(index).sources, {}))
    counts.overwritten += std::memcmp(now, then.const_data_ptr(), then.nbytes()) != 0;
  if (std::all_of(queues.begin(), queues.end(), [](Queue const& queue) { return queue.sources.empty(); }))
    for (auto* const memory : std::exchange(unpinned, {})) std::free(memory);
}

struct Event {
  DeviceIndex device;
  long place;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static inline thread_local DeviceIndex current = 0;
  static inline thread_local std::array<StreamId, device_count> stream_now{};
  static inline std::atomic<StreamId> streams_made{0};

  static DeviceIndex of(Device device) { return device.has_index() ? device.index() : current; }
  static StreamId& now(Device device) { return stream_now.at(static_cast<std::size_t>(of(device))); }
  static Stream stream(Device device, StreamId id) {
    return Stream(Stream::UNSAFE, Device(device_type, of(device)), id);
  }

  c10::DeviceType type() const override { return device_type; }
  DeviceIndex deviceCount() const noexcept override { return device_count; }
  Device getDevice() const override { return {device_type, current}; }
  void uncheckedSetDevice(Device to) const noexcept override { current = of(to); }
  void setDevice(Device to) const override {
    TORCH_CHECK(of(to) >= 0 && of(to) < device_count, "fake: invalid device ordinal ", int(to.index()));
    current = of(to);
  }
  Device exchangeDevice(Device to) const override {
    auto const before = getDevice();
    setDevice(to);
    return before;
  }
  Stream getStream(Device of_device) const override { return stream(of_device, now(of_device)); }
  Stream getDefaultStream(Device of_device) const override { return stream(of_device, 0); }
  Stream getStreamFromGlobalPool(Device of_device, bool) const override { return stream(of_device, ++streams_made); }
  Stream getNewStream(Device of_device, int) const override { return stream(of_device, ++streams_made); }
  Stream exchangeStream(Stream to) const override {
    Guarded const guarded(lock);
    counts.streams += now(to.device()) != to.id();
    return stream(to.device(), std::exchange(now(to.device()), to.id()));
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void record(void** event, Stream const& in, DeviceIndex, c10::EventFlag) const override {
    Guarded const guarded(lock);
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = {in.device_index(), queue_of(in.device_index()).end()};
  }
  void block(void*, Stream const&) const override {}  // one queue is in order
  bool queryEvent(void* event) const override {
    if (auto const* const at = static_cast<Event*>(event)) finish(at->device, at->place);
    return true;
  }
  bool queryStream(Stream const& of_stream) const override {
    finish(of_stream.device_index());
    return true;
  }
  void synchronizeStream(Stream const& of_stream) const override { wait(of_stream.device_index()); }
  void synchronizeEvent(void* event) const override {
    if (auto const* const at = static_cast<Event*>(event)) wait(at->device);
  }
  void synchronizeDevice(DeviceIndex index) const override { wait(index); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// Random numbers: each device has a sequence of its own, which the CPU's kernels draw.

struct Generator final : c10::GeneratorImpl {
  at::Generator cpu;
  explicit Generator(DeviceIndex index, at::Generator from = at::detail::createCPUGenerator())
      : GeneratorImpl(Device(device_type, index), DispatchKeySet(DispatchKey::PrivateUse1)), cpu(std::move(from)) {}
  void set_current_seed(std::uint64_t seed) override { cpu.set_current_seed(seed); }
  void set_offset(std::uint64_t) override { TORCH_CHECK(false, "fake: generators have no offset"); }
  std::uint64_t get_offset() const override { TORCH_CHECK(false, "fake: generators have no offset"); }
  std::uint64_t current_seed() const override { return cpu.current_seed(); }
  std::uint64_t seed() override { return cpu.seed(); }
  void set_state(c10::TensorImpl const& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }
  Generator* clone_impl() const override { return new Generator(device().index(), cpu.clone()); }
};

at::Generator const& default_generator(DeviceIndex index) {
  static std::array<at::Generator, device_count> const all{at::make_generator<Generator>(DeviceIndex{0}),
                                                           at::make_generator<Generator>(DeviceIndex{1})};
  return all.at(static_cast<std::size_t>(index < 0 ? Guard::current : index));
}
at::Generator cpu_generator(at::Generator const& of) {
  return static_cast<Generator*>(of.unsafeGetGeneratorImpl())->cpu;
}

/// While it lives, the CPU's generator draws a device's sequence.
class Drawing {
 public:
  explicit Drawing(at::Generator of) : of_(std::move(of)) { cpu_.set_state(of_.get_state()); }
  ~Drawing() {
    of_.set_state(cpu_.get_state());
    cpu_.set_state(before_);
  }
  Drawing(Drawing const&) = delete;
  Drawing& operator=(Drawing const&) = delete;

 private:
  at::Generator of_, cpu_ = at::detail::getDefaultCPUGenerator();
  Tensor before_ = cpu_.get_state();
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return device_count; }
  DeviceIndex getCurrentDevice() const override { return Guard::current; }
  void setCurrentDevice(DeviceIndex index) const override { Guard().setDevice({device_type, index}); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override { return std::exchange(Guard::current, index); }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
  bool isPinnedPtr(void const* memory) const override {
    Guarded const guarded(lock);
    return pinned.contains(memory);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  at::Generator const& getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? Guard::current : index);
  }
  void resizePrivateUse1Bytes(Storage const& storage, std::size_t bytes) const override {
    at::native::resize_bytes_cpu(host_of(storage).unsafeGetStorageImpl(), bytes);
    storage.set_nbytes(bytes);
  }
};

// Operators: the CPU's kernel, on tensors of the CPU over the same numbers.

constexpr DispatchKeySet keys_of_fake(DispatchKey::PrivateUse1);
bool is_fake(Tensor const& tensor) { return tensor.defined() && tensor.device().type() == device_type; }

Tensor laid_out(Tensor made, Tensor const& like) {
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return made;
}
Tensor over(Storage storage, DispatchKeySet keys, Tensor const& like) {
  return laid_out(at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype()), like);
}
/// In inference mode a view of a tensor that is none of that mode's is none either, as its keys say.
Tensor view_of(Tensor const& base, Tensor const& like) {
  return laid_out(at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, Storage(base.storage()),
                                                           base.key_set(), like.dtype()),
                  like);
}
Tensor as_cpu(Tensor const& tensor) {
  return is_fake(tensor) ? over(host_of(tensor.storage()), DispatchKeySet(DispatchKey::CPU), tensor) : tensor;
}

/// Autograd and autocast have done their work on the device's tensors.
struct Plain {
  c10::impl::ExcludeDispatchKeyGuard keys{c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
                                          DispatchKeySet(DispatchKey::ADInplaceOrView)};
};

/// Replaces each tensor of a value by what f returns for it.
template <class F>
void each_tensor(c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    value = f(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> all;
    for (Tensor const& tensor : value.toTensorVector()) all.push_back(f(tensor));
    value = std::move(all);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> all;
    for (std::optional<Tensor> const& tensor : value.toOptionalTensorVector())
      all.push_back(tensor ? std::optional(f(*tensor)) : tensor);
    value = std::move(all);
  }
}

/// What the arguments of a call say: the device that runs it, another one that is in them, whether the host waits.
struct Call {
  std::optional<Device> device = {}, other = {};
  bool waits = false;
};

Call read_arguments(c10::OperatorHandle const& op, std::vector<c10::IValue>::iterator first,
                    std::vector<c10::IValue>::iterator last) {
  auto const& name = op.schema().name();
  bool const indexes = name.starts_with("aten::index") || name.starts_with("aten::_index_put") ||
                       name.starts_with("aten::_unsafe_index");
  // A number in a tensor of the CPU may join these.
  bool const joins =
      indexes || op.hasTag(at::Tag::pointwise) || name.starts_with("aten::_foreach") || name.starts_with("aten::fill_");
  Call call{.waits = op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape)};
  bool found = false;
  for (auto at = first; at != last; ++at) {
    bool const is_index = indexes && at - first == 1;
    if (at->isDevice() && !found) call.device = at->toDevice();
    each_tensor(*at, [&](Tensor const& tensor) {
      if (is_fake(tensor)) {
        if (!std::exchange(found, true)) call.device = tensor.device();
        else if (tensor.device() != *call.device) call.other = tensor.device();
        call.waits = call.waits || (is_index && tensor.scalar_type() == at::kBool);
      } else if (tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number() && !is_index &&
                 !(tensor.dim() == 0 && joins)) {
        call.other = tensor.device();
      }
      return tensor;
    });
  }
  return call;
}

void launch(Device device) {
  Guarded const guarded(lock);
  finish(device.index());
  ++counts.kernels;
}
void read_by_host(Device device) {
  Guarded const guarded(lock);
  ++counts.reads;
  wait(device.index());
}

void kernel(c10::OperatorHandle const& op, torch::jit::Stack* stack) {
  auto const& arguments = op.schema().arguments();
  auto const first = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
  auto const call = read_arguments(op, first, stack->end());
  if (call.other && op.schema().name().starts_with("aten::_foreach"))  // as on CUDA: one tensor after the other
    return op.redispatchBoxed(DispatchKeySet(DispatchKey::CompositeExplicitAutograd), stack);
  TORCH_CHECK(!call.other, "Expected all tensors to be on the same device, but found ", *call.device, " and ",
              *call.other, "! (in ", op.schema().name(), ")");
  c10::OptionalDeviceGuard const guard(call.device && call.device->type() == device_type ? call.device : std::nullopt);
  auto const device = Guard().getDevice();
  auto const& returns = op.schema().returns();
  bool const is_view = !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  if (!is_view) launch(device);
  if (call.waits) read_by_host(device);

  std::vector<std::pair<Tensor, Tensor>> known;              // on the CPU, on the device
  bool draws = op.hasTag(at::Tag::nondeterministic_seeded);  // with the process's generator, unless it takes one
  for (std::size_t i = 0; i != arguments.size(); ++i) {
    auto& value = first[static_cast<std::ptrdiff_t>(i)];
    draws = draws && arguments[i].name() != "generator";
    if (value.isDevice()) value = Device(c10::kCPU);
    else if (value.isGenerator() && value.toGenerator().device().type() == device_type)
      value = cpu_generator(value.toGenerator());
    else if (value.isNone() && arguments[i].name() == "generator")
      value = cpu_generator(default_generator(device.index()));
    else
      each_tensor(value, [&](Tensor const& tensor) {
        return is_fake(tensor) ? known.emplace_back(as_cpu(tensor), tensor).first : tensor;
      });
  }
  {
    Plain const plain;
    std::optional<Drawing> drawing;
    if (draws) drawing.emplace(default_generator(device.index()));
    op.callBoxed(stack);
  }
  for (auto const& [cpu, tensor] : known) {  // out= may have given a tensor another shape
    if (cpu.storage().nbytes() != tensor.storage().nbytes()) tensor.storage().set_nbytes(cpu.storage().nbytes());
    if (cpu.sizes() != tensor.sizes() || cpu.strides() != tensor.strides())
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
  }
  auto const on_device = [&](Tensor const& made) {
    if (!made.defined()) return made;
    for (auto const& [cpu, tensor] : known)
      if (cpu.is_same(made)) return tensor;  // in place, or out=
    for (auto const& [cpu, tensor] : known)
      if (cpu.storage().is_alias_of(made.storage())) return view_of(tensor, made);
    Storage storage(Storage::use_byte_size_t(), made.storage().nbytes(), block_over(made.storage(), device),
                    &device_memory, true);
    return known.emplace_back(made, over(std::move(storage), keys_of_fake, made)).second;
  };
  for (auto at = stack->end() - static_cast<std::ptrdiff_t>(returns.size()); at != stack->end(); ++at)
    each_tensor(*at, on_device);
}

using Type = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, Type type, Layout, std::optional<Device> on,
                     std::optional<bool>) {
  at::globalContext().lazyInitDevice(device_type);
  c10::OptionalDeviceGuard const guard(on);
  return at::detail::empty_strided_generic(sizes, strides, &device_memory, keys_of_fake, c10::dtype_or_default(type));
}
Tensor empty(c10::IntArrayRef sizes, Type type, Layout, std::optional<Device> on, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  at::globalContext().lazyInitDevice(device_type);
  c10::OptionalDeviceGuard const guard(on);
  return at::detail::empty_generic(sizes, &device_memory, keys_of_fake, c10::dtype_or_default(type), format);
}

/// CUDA's rule: the host waits, unless it need not, its memory is pinned, and the bytes are copied as they are.
Tensor copy_from(Tensor const& from, Tensor const& to, bool non_blocking) {
  bool const up = is_fake(to);
  auto const& there = up ? to : from;
  auto const& here = up ? from : to;
  auto const copy = [](Tensor const& source, Tensor const& target) {
    return [source = as_cpu(source).detach(), target = as_cpu(target).detach()] {
      Plain const plain;
      Tensor(target).copy_(source);
    };
  };
  auto const index = there.device().index();
  if (is_fake(here)) {
    launch(there.device());
    copy(from, to)();
    return to;
  }
  Guarded const guarded(lock);
  ++(up ? counts.uploads : counts.downloads);
  (up ? counts.uploaded : counts.downloaded) += static_cast<long>(from.nbytes());
  bool const as_it_is =
      from.dtype() == to.dtype() && from.is_contiguous() && to.is_contiguous() && from.sizes() == to.sizes();
  if (!non_blocking || !as_it_is || !here.is_pinned()) {
    counts.pageable += non_blocking;
    wait(index);
    copy(from, to)();
    return to;
  }
  ++counts.overlapping;
  auto source = from;
  if (up) {  // without a handle of the memory, whose owner reads from the count of handles whether it may reuse it
    auto& sources = queue_of(index).sources;
    sources.emplace_back(from.const_data_ptr(), from.detach().clone());
    source = at::from_blob(const_cast<void*>(from.const_data_ptr()), from.sizes(), from.options());
  }
  queue_of(index).copies.push_back(copy(source, to));
  return to;
}

at::Scalar local_scalar_dense(Tensor const& tensor) {
  launch(tensor.device());
  read_by_host(tensor.device());
  return at::_local_scalar_dense(as_cpu(tensor));
}

Tensor& set_storage(Tensor& tensor, Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                    c10::SymIntArrayRef strides) {
  auto* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset.expect_int());
  if (strides.empty()) impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(sizes));
  else impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
  return tensor;
}

bool const registered = [] {
  static Hooks hooks;
  c10::register_privateuse1_backend("fake");
  c10::SetAllocator(device_type, &device_memory);
  at::setHostAllocator(device_type, &pinned_memory);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

/// What has a kernel of its own on the CPU has one here, so that composites split up as they do there; but the _foreach
/// operators, which would split up, are one kernel on CUDA, and a convolution would look for another backend's.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  static std::set<std::string> const own{"empty.memory_format",
                                         "empty_strided",
                                         "_copy_from",
                                         "_local_scalar_dense",
                                         "set_.source_Storage_storage_offset",
                                         "set_.source_Storage",
                                         "set_.source_Tensor",
                                         "set_",
                                         "resize_",
                                         "_copy_from_and_resize",
                                         "is_pinned",
                                         "_pin_memory"};
  for (auto const& name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto const op = c10::Dispatcher::singleton().findOp(name);
    if (!name.name.starts_with("aten::") || !op || !op->hasSchema()) continue;
    auto const plain = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    bool const whole = plain.starts_with("_foreach_") || plain == "convolution" || plain == "convolution_backward";
    if (whole || (op->hasKernelForDispatchKey(DispatchKey::CPU) && !own.contains(plain)))
      m.impl(plain.c_str(), torch::CppFunction::makeFromBoxedFunction<&kernel>());
  }
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  // Module::to and relocate() replace the data of a parameter by data of another device.
  m.impl("_has_compatible_shallow_copy_type", [](Tensor const&, Tensor const&) { return true; });
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&kernel>()); }

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at::autocast;
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
}

}  // namespace
}  // namespace fake
