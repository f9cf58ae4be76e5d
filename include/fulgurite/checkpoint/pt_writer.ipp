#pragma once
// The bodies of checkpoint/pt_writer.hpp.

#include <functional>
#include <set>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/pickle.hpp>
#include <fulgurite/checkpoint/pt_writer.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::pickle {

FULGURITE_BODY StateDictWriter::StateDictWriter() {
  text_ = "\x80\x02";  // PROTO
  ordered_dict();
  text_ += '(';  // MARK
}

FULGURITE_BODY void StateDictWriter::add(std::string_view name, std::string_view storage,
                                         std::span<std::int64_t const> shape, std::size_t number) {
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

FULGURITE_BODY void StateDictWriter::global(std::string_view name) {
  auto const dot = name.rfind('.');
  ((((text_ += 'c') += name.substr(0, dot)) += '\n') += name.substr(dot + 1)) += '\n';
}

FULGURITE_BODY void StateDictWriter::text(std::string_view value) {
  text_ += 'X';
  zip::append(text_, static_cast<std::uint32_t>(value.size()));
  text_ += value;
}

FULGURITE_BODY void StateDictWriter::integer(std::uint64_t value) {
  if (value < 0x80000000) {
    text_ += 'J';
    zip::append(text_, static_cast<std::int32_t>(value));
  } else {
    text_ += "\x8a\x08";  // LONG1
    zip::append(text_, value);
  }
}

FULGURITE_BODY std::string_view storage_of(std::string_view dtype) {
  for (auto const& one : known_globals)
    if (one.meaning == Meaning::storage && one.dtype == dtype) return one.name;
  return {};
}

}  // namespace fulgurite::pickle

namespace fulgurite {

FULGURITE_BODY void write_pt(std::filesystem::path const& path, EachWeight each, std::uint64_t wide) {
  auto const refuse = [&](std::string_view name, char const* why) {
    throw Error("fulgurite.checkpoint.pt_weights",
                "cannot write " + path.string() + ": the tensor '" + std::string(name) + "' " + why);
  };
  pickle::StateDictWriter pickle;
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
