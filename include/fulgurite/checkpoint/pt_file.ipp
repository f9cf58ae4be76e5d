#pragma once
// The bodies of checkpoint/pt_file.hpp.

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/pickle.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::pt_files {

/// The distance from the first element to the last. Only for entries that have elements and pass `fits`.
FULGURITE_BULK_BODY std::uint64_t reach(PtFile::Entry const& entry) {
  std::uint64_t far = 0;
  for (std::size_t i = 0; i != entry.shape.size(); ++i)
    far += static_cast<std::uint64_t>(entry.shape[i] - 1) * static_cast<std::uint64_t>(entry.strides[i]);
  return far;
}

FULGURITE_BULK_BODY bool fits(PtFile::Entry const& entry, std::uint64_t count) {
  if (entry.offset >= count) return false;
  auto room = count - 1 - entry.offset;
  for (std::size_t i = 0; i != entry.shape.size(); ++i) {
    auto const steps = static_cast<std::uint64_t>(entry.shape[i] - 1);
    auto const stride = static_cast<std::uint64_t>(entry.strides[i]);
    if (steps != 0 && stride > room / steps) return false;
    room -= steps * stride;
  }
  return true;
}

FULGURITE_BULK_BODY bool is_row_major(PtFile::Entry const& entry) {
  std::int64_t stride = 1;
  for (std::size_t i = entry.shape.size(); i-- != 0; stride *= entry.shape[i])
    if (entry.shape[i] != 1 && entry.strides[i] != stride) return false;
  return true;
}

FULGURITE_BULK_BODY void gather(PtFile::Entry const& entry, std::size_t element, std::byte const* from,
                                std::span<std::byte> into) {
  std::vector<std::int64_t> index(entry.shape.size(), 0);
  std::int64_t at = 0;
  for (auto* to = into.data(); to != into.data() + into.size(); to += element) {
    std::memcpy(to, from + static_cast<std::uint64_t>(at) * element, element);
    for (std::size_t i = index.size(); i-- != 0;) {  // the last index runs fastest
      if (++index[i] != entry.shape[i]) {
        at += entry.strides[i];
        break;
      }
      at -= entry.strides[i] * (entry.shape[i] - 1);
      index[i] = 0;
    }
  }
}

/// Writes the pickle of an OrderedDict of tensors, in protocol 2, with the opcodes and names that torch.load accepts by
/// default.
class StateDictWriter {
 public:
  StateDictWriter() {
    text_ = "\x80\x02";  // PROTO
    ordered_dict();
    text_ += '(';  // MARK
  }

  /// Appends a tensor that fills the storage with that number.
  void add(std::string_view name, std::string_view storage, std::span<std::int64_t const> shape, std::size_t number) {
    std::uint64_t count = 1;
    for (auto const extent : shape) count *= static_cast<std::uint64_t>(extent);
    text(name);
    global("torch._utils._rebuild_tensor_v2");
    text_ += "((";
    text("storage");
    global(storage);
    text(std::to_string(number));
    text("cpu");
    integer(count);
    text_ += "tQ";  // TUPLE, BINPERSID
    integer(0);     // the tensor begins where its storage does
    text_ += '(';
    for (auto const extent : shape) integer(static_cast<std::uint64_t>(extent));
    text_ += "t(";
    for (std::size_t i = 0; i != shape.size(); ++i) {
      std::uint64_t stride = 1;
      for (auto const extent : shape.subspan(i + 1)) stride *= static_cast<std::uint64_t>(extent);
      integer(stride);
    }
    text_ += "t\x89";  // NEWFALSE: requires_grad
    ordered_dict();    // no hooks
    text_ += "tR";     // REDUCE
  }
  std::string finish() && { return std::move(text_ += "u."); }  // SETITEMS, STOP

 private:
  void global(std::string_view name) {
    auto const dot = name.rfind('.');
    ((((text_ += 'c') += name.substr(0, dot)) += '\n') += name.substr(dot + 1)) += '\n';
  }
  void ordered_dict() {
    global("collections.OrderedDict");
    text_ += ")R";  // EMPTY_TUPLE, REDUCE
  }
  void text(std::string_view value) {
    text_ += 'X';
    zip::append(text_, static_cast<std::uint32_t>(value.size()));
    text_ += value;
  }
  void integer(std::uint64_t value) {
    if (value < 0x80000000) {
      text_ += 'J';
      zip::append(text_, static_cast<std::int32_t>(value));
    } else {
      text_ += "\x8a\x08";  // LONG1
      zip::append(text_, value);
    }
  }

  std::string text_;
};

}  // namespace fulgurite::pt_files

namespace fulgurite {

FULGURITE_BODY bool is_pt_name(std::filesystem::path const& path) {
  auto const extension = path.extension();
  return extension == ".pt" || extension == ".pth" || extension == ".ckpt" || extension == ".bin";
}

FULGURITE_BODY PtFile::PtFile(std::filesystem::path path) : zip_(std::move(path)) {
  auto const* const pickle = find_pickle();
  check_kind();
  if (pickle->size > pickle::Limits{}.bytes) refuse("its pickle is too long: save model.state_dict() alone");
  std::string bytes(static_cast<std::size_t>(pickle->size), '\0');
  zip_.read(*pickle, 0, std::as_writable_bytes(std::span(bytes)));
  auto const values = pickle::read(bytes, zip_.path().string() + ", " + pickle->name);
  for (auto const& [key, value] : state_dict(values).items)
    if (auto const* tensor = values.get<pickle::Tensor>(value)) add(values, key, *tensor);
  if (entries_.empty()) refuse("there is no tensor in its state dict: save model.state_dict()");
}

FULGURITE_MOVES_BODY(PtFile);

FULGURITE_BODY PtFile::Entry const* PtFile::find(std::string_view name) const {
  auto const found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

FULGURITE_BULK_BODY void PtFile::read(Entry const& entry, std::span<std::byte> into) const {
  auto const element = *safetensors::element_size(entry.dtype);
  auto const size = *safetensors::bytes_of(entry.dtype, entry.shape);
  if (into.size() != size)
    refuse("'" + entry.name + "' has " + std::to_string(size) + " bytes, not " + std::to_string(into.size()));
  if (into.empty()) return;
  if (pt_files::is_row_major(entry)) return zip_.read(*entry.storage, entry.offset * element, into);
  std::vector<std::byte> from(static_cast<std::size_t>((pt_files::reach(entry) + 1) * element));
  zip_.read(*entry.storage, entry.offset * element, from);
  pt_files::gather(entry, element, from.data(), into);
}

FULGURITE_BODY void PtFile::refuse(std::string const& why) const {
  throw Error("fulgurite.checkpoint.pt_file", zip_.path().string() + ": " + why);
}

FULGURITE_BULK_BODY ZipArchive::Entry const* PtFile::find_pickle() {
  ZipArchive::Entry const* found = nullptr;
  for (auto const& entry : zip_.entries()) {
    auto const slash = entry.name.find('/');
    if (slash == entry.name.npos || std::string_view(entry.name).substr(slash) != "/data.pkl") continue;
    if (found != nullptr) refuse("two pickles are in it: '" + found->name + "' and '" + entry.name + "'");
    found = &entry;
    root_ = entry.name.substr(0, slash + 1);
  }
  if (found == nullptr) refuse("this is a zip archive without a data.pkl: torch.save did not write it");
  return found;
}

FULGURITE_BODY void PtFile::check_kind() const {
  if (zip_.find(root_ + "constants.pkl") != nullptr)
    refuse("this is a program of TorchScript: save its weights, by torch.save(module.state_dict(), file)");
  auto const* const order = zip_.find(root_ + "byteorder");
  if (order == nullptr) return;  // written before PyTorch 2.1
  std::string text(std::min<std::size_t>(static_cast<std::size_t>(order->size), 16), '\0');
  zip_.read(*order, 0, std::as_writable_bytes(std::span(text)));
  if (text != "little") refuse("its numbers are not little endian: save it on another machine");
}

FULGURITE_BULK_BODY pickle::Dict const& PtFile::state_dict(pickle::Values const& values) const {
  auto const* const root = values.get<pickle::Dict>(values.root);
  if (root == nullptr) refuse("it holds no dict: save model.state_dict()");
  if (auto const* const inner = values.find(*root, "state_dict")) {
    auto const* const dict = values.get<pickle::Dict>(*inner);
    if (dict == nullptr) refuse("its 'state_dict' is no dict");
    return *dict;
  }
  return *root;
}

FULGURITE_BULK_BODY void PtFile::add(pickle::Values const& values, pickle::Ref key, pickle::Tensor const& tensor) {
  auto const* const name = values.get<std::string_view>(key);
  if (name == nullptr || !utf8::is_valid(*name)) refuse("the name of a tensor is no text");
  Entry entry{std::string(*name), {}, {}, nullptr, 0, {}};
  auto const wrong = [&](std::string const& why) { refuse("'" + entry.name + "' " + why); };
  auto const& storage = *values.get<pickle::Storage>(tensor.storage);
  entry.dtype = storage.dtype;
  auto const element = safetensors::element_size(entry.dtype);
  if (!element) wrong("is in a " + std::string(storage.kind) + ", an element type that is not known here");
  auto const numbers = [&](pickle::Ref tuple, char const* what) {
    std::vector<std::int64_t> all;
    for (auto const item : values.get<pickle::Tuple>(tuple)->items) {
      auto const* const number = values.get<std::int64_t>(item);
      if (number == nullptr || *number < 0) wrong(std::string("has ") + what + " that are no numbers from 0 on");
      all.push_back(*number);
      if (all.size() > 64) wrong("has more than 64 dimensions");  // PyTorch's own limit
    }
    return all;
  };
  entry.shape = numbers(tensor.shape, "extents");
  entry.strides = numbers(tensor.strides, "strides");
  if (entry.shape.size() != entry.strides.size()) wrong("has not one stride for each extent");
  if (tensor.offset < 0) wrong("begins before its storage");
  entry.offset = static_cast<std::uint64_t>(tensor.offset);
  entry.storage = zip_.find(root_ + "data/" + std::string(storage.key));
  if (entry.storage == nullptr) wrong("lies in 'data/" + std::string(storage.key) + "', which the file lacks");
  if (storage.count > std::numeric_limits<std::uint64_t>::max() / *element ||
      storage.count * *element != entry.storage->size)
    wrong("lies in '" + entry.storage->name + "', which has " + std::to_string(entry.storage->size) + " bytes, not " +
          std::to_string(storage.count) + " elements");
  auto const bytes = safetensors::bytes_of(entry.dtype, entry.shape);
  // An expanded tensor, which has more elements than its storage, could be made to fill any amount of memory.
  if (!bytes || *bytes > entry.storage->size) wrong("is larger than its storage: save it by .contiguous()");
  if (*bytes != 0 && !pt_files::fits(entry, storage.count)) wrong("leaves its storage");
  if (!index_.emplace(entry.name, entries_.size()).second) wrong("occurs twice");
  entries_.push_back(std::move(entry));
}

FULGURITE_BODY void write_pt(std::filesystem::path const& path, EachWeight each, std::uint64_t wide) {
  auto const refuse = [&](std::string_view name, char const* why) {
    throw Error("fulgurite.checkpoint.pt_weights",
                "cannot write " + path.string() + ": the tensor '" + std::string(name) + "' " + why);
  };
  pt_files::StateDictWriter pickle;
  std::set<std::string, std::less<>> names;
  std::vector<std::uint64_t> sizes;
  each([&](std::string_view name, WeightView const& view) {
    auto const bytes = safetensors::bytes_of(view.dtype, view.shape);
    auto const storage = pickle::storage_of(view.dtype);
    if (!bytes || storage.empty()) refuse(name, "has an element type or a shape that cannot be written");
    if (view.bytes.size() != *bytes) refuse(name, "comes with more or fewer bytes than its shape has");
    if (!utf8::is_valid(name)) refuse(name, "has a name that is not UTF-8");
    if (!names.emplace(name).second) refuse(name, "occurs twice");
    pickle.add(name, storage, view.shape, sizes.size());
    sizes.push_back(*bytes);
  });

  DurableFile file(path);
  ZipWriter zip(file, wide);
  std::string const root = "archive/";
  zip.add(root + "data.pkl", std::move(pickle).finish());
  zip.add(root + "byteorder", "little");
  std::size_t written = 0;
  each([&](std::string_view name, WeightView const& view) {
    if (written == sizes.size() || view.bytes.size() != sizes[written])
      refuse(name, "changed its size, or appeared, while the file was written");
    zip.add(root + "data/" + std::to_string(written++), view.bytes);
  });
  if (written != sizes.size()) refuse("", "set shrank while the file was written");
  zip.add(root + "version", "3\n");  // the version of PyTorch's use of zip archives
  zip.finish();
  file.commit();
}

}  // namespace fulgurite
