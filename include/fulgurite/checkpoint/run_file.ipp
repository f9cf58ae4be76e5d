#pragma once
// The bodies of checkpoint/run_file.hpp.

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <system_error>

#include <fulgurite/checkpoint/run_file.hpp>

namespace fulgurite::assembly {

using Names = std::vector<std::string>;
using Shapes = std::map<std::string, std::pair<std::string, std::vector<std::int64_t>>, std::less<>>;

/// Floating types count as equal here, as they do when weights are loaded: the precision decides between them.
FULGURITE_BODY std::string kind(std::string_view dtype) {
  return dtype.starts_with('F') || dtype.starts_with('B') ? dtype == "BOOL" ? "BOOL" : "F" : std::string(dtype);
}

FULGURITE_BODY std::string counted(std::size_t count, char const* one, char const* several) {
  return std::to_string(count) + (count == 1 ? one : several);
}

FULGURITE_BODY void add(std::string& list, std::string const& one, char const* between) {
  if (one.empty()) return;
  if (!list.empty()) list += between;
  list += one;
}

/// Describes the difference; empty if the weights have the same names and shapes.
FULGURITE_BODY std::string difference(Shapes const& now, Shapes const& then) {
  std::size_t differ = 0, fresh = 0, gone = 0;
  for (auto const& [name, shape] : now) {
    auto const found = then.find(name);
    if (found == then.end()) ++fresh;
    else differ += found->second != shape;
  }
  for (auto const& [name, shape] : then) gone += !now.contains(name);
  std::string said;
  if (differ != 0) add(said, counted(differ, " weight differs", " weights differ"), ", ");
  if (fresh != 0) add(said, counted(fresh, " weight is new", " weights are new"), ", ");
  if (gone != 0) add(said, counted(gone, " weight is gone", " weights are gone"), ", ");
  return said;
}

/// The names of one kind of parts; empty if there is no such kind.
FULGURITE_BODY Names names_in(ArchiveNode const* parts, std::string_view kind) {
  Names names;
  auto const* const found = parts == nullptr ? nullptr : parts->find(kind);
  auto const* const list = found == nullptr ? nullptr : std::get_if<ArchiveNode::List>(&found->value);
  if (list != nullptr)
    for (auto const& one : *list)
      if (auto const* const name = std::get_if<std::string>(&one.value)) names.push_back(*name);
  sort_seldom(names);
  return names;
}

/// Describes the difference; empty if the names are the same.
FULGURITE_BODY std::string difference(Names const& now, Names const& then) {
  Names fresh, gone;
  std::set_difference(now.begin(), now.end(), then.begin(), then.end(), std::back_inserter(fresh));
  std::set_difference(then.begin(), then.end(), now.begin(), now.end(), std::back_inserter(gone));
  if (fresh.size() == 1 && gone.size() == 1) return fresh.front() + " in place of " + gone.front();
  std::string said;
  for (auto const& name : fresh) add(said, name + " is new", ", ");
  for (auto const& name : gone) add(said, name + " is gone", ", ");
  return said;
}

}  // namespace fulgurite::assembly

namespace fulgurite {

FULGURITE_BODY std::string fingerprint(ArchiveNode const& state, std::vector<safetensors::Entry> const& tensors) {
  std::vector<std::string> lines;
  for (auto const& tensor : tensors) {
    if (is_state_tensor(tensor.name)) continue;
    auto& line = lines.emplace_back(json::quoted(tensor.name));
    line += tensor.dtype;
    for (auto const extent : tensor.shape) (line += ' ') += std::to_string(extent);
  }
  sort_seldom(lines);
  if (auto const* const parts = state.find(assembly_key)) lines.push_back(to_text(*parts));
  std::uint64_t value = 14695981039346656037U;  // FNV-1a: no one has a reason to forge it
  for (auto const& line : lines)
    for (char const c : line + '\n') value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

FULGURITE_BODY std::string hyperparameter_text(std::span<Hyperparameter const> all) {
  ArchiveNode tree{ArchiveNode::Object{}};
  for (auto const& [name, value] : all) {
    auto* const entry = name.starts_with('$') ? nullptr : std::get<ArchiveNode::Object>(tree.value).add(name);
    if (entry == nullptr)
      throw Error("fulgurite.checkpoint.hyperparameter",
                  "'" + name +
                      "' cannot be the name of a hyper-parameter in a file: it begins with '$', or is there "
                      "twice");
    std::visit(
        [&]<class T>(T const& now) {
          if constexpr (std::is_same_v<T, HyperparameterValues>) {
            ArchiveNode::List list;
            for (auto const& one : now) std::visit([&](auto const& v) { list.emplace_back().value = v; }, one);
            entry->value = std::move(list);
          } else entry->value = now;
        },
        value);
  }
  return to_text(tree);
}

/// Throws an Error that names the part of the state because of which the text is longer than a file's header may be.
[[noreturn]] FULGURITE_BODY void refuse_long_state(std::filesystem::path const& path, ArchiveNode const& tree,
                                                   std::uint64_t longest) {
  std::pair<std::size_t, std::string> part;
  for (auto const& [name, node] : std::get<ArchiveNode::Object>(tree.value))
    part = std::max(part, {to_text(node, [](ArchiveTensor const&) { return std::string(); }).size(), name});
  throw Error("fulgurite.checkpoint.state_size",
              "cannot write " + path.string() + ": the state of '" + part.second + "' is a text of " +
                  std::to_string(part.first) + " bytes, and the header of a file holds " + std::to_string(longest) +
                  ": keep large values as tensors, by archive.tensor(name, tensor)");
}

/// The metadata of such a file, from the state of the run. Calls `tensor(ArchiveTensor const&)` for each tensor in the
/// state. `longest`: the maximum size of a header in bytes.
FULGURITE_BODY Metadata run_metadata(std::filesystem::path const& path, ArchiveNode const& tree,
                                     std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                                     std::uint64_t longest, FunctionRef<void(ArchiveTensor const&)> tensor) {
  auto const by_name = [&](ArchiveTensor const& one) {
    tensor(one);
    return R"({"$tensor":)" + json::quoted(one.name) + "}";
  };
  auto text = to_text(tree, by_name);
  auto const escapes = std::count_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\\'; });
  if (text.size() + static_cast<std::size_t>(escapes) > longest) refuse_long_state(path, tree, longest);
  metadata[run_state_key] = std::move(text);
  metadata[run_format_key] = run_format;
  if (!hyperparameters.empty()) metadata[hyperparameters_key] = hyperparameter_text(hyperparameters);
  metadata.emplace("format", "pt");  // Python's libraries check it before they load
  return metadata;
}

/// Writes the file with the fingerprint of the program, which `state` and the weights determine.
FULGURITE_BODY void write_with_fingerprint(std::filesystem::path const& path, Metadata metadata, EachWeight each,
                                           ArchiveNode const& state) {
  auto const add = [&](Metadata& to, std::vector<safetensors::Entry> const& tensors) {
    to[fingerprint_key] = fingerprint(state, tensors);
  };
  write_safetensors(path, std::move(metadata), each, Checksums::written, add);
}

/// Throws if a weight has a name that is reserved for tensors of the state.
FULGURITE_BODY void refuse_state_name(std::filesystem::path const& path, std::string_view weight) {
  if (is_state_tensor(weight))
    throw Error("fulgurite.checkpoint.weights",
                "cannot write " + path.string() + ": the weight '" + std::string(weight) +
                    "' has a name that only tensors of the run's state have: rename it");
}

/// Calls f with each tensor and its bytes, in order.
FULGURITE_BODY void read_together(std::span<ArchiveTensor const* const> tensors,
                                  FunctionRef<void(ArchiveTensor const&, SavedTensor::Bytes)> f) {
  auto const size = [&](std::size_t i) { return tensors[i]->tensor.size(); };
  each_range_copied_together(tensors.size(), size, [&](std::size_t begin, std::size_t end) {
    std::vector<SavedTensor> copies;
    for (auto i = begin; i != end; ++i) copies.push_back(tensors[i]->tensor);
    std::vector<SavedTensor*> handles;
    handles.reserve(copies.size());
    for (auto& one : copies) handles.push_back(&one);
    copy_handles(handles, CopyTo::host);
    for (auto i = begin; i != end; ++i)
      copies[i - begin].read([&](SavedTensor::Bytes bytes) { f(*tensors[i], bytes); });
  });
}

/// Writes such a file from a state that is saved already: see save_run_file.
FULGURITE_BODY void write_run_file(std::filesystem::path const& path, ArchiveNode const& tree, EachWeight each_weight,
                                   std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                                   std::uint64_t longest) {
  std::vector<ArchiveTensor const*> tensors;
  auto all = run_metadata(path, tree, hyperparameters, std::move(metadata), longest,
                          [&](ArchiveTensor const& tensor) { tensors.push_back(&tensor); });
  auto const each = [&](TakeWeight f) {
    each_weight([&](std::string_view name, WeightView const& view) {
      refuse_state_name(path, name);
      f(name, view);
    });
    read_together(tensors, [&](ArchiveTensor const& one, SavedTensor::Bytes bytes) {
      f(std::string(state_tensor_prefix) + one.name, WeightView{one.tensor.dtype(), one.tensor.shape(), bytes});
    });
  };
  write_with_fingerprint(path, std::move(all), each, tree);
}

FULGURITE_BODY void save_run_file(std::filesystem::path const& path, EachWeight each_weight,
                                  FunctionRef<void(StateSaver&)> fold, std::span<Hyperparameter const> hyperparameters,
                                  Metadata metadata, std::uint64_t longest) {
  ArchiveNode tree;
  StateSaver saver(tree, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  write_run_file(path, tree, each_weight, hyperparameters, std::move(metadata), longest);
}

FULGURITE_BODY void save_run_file(std::filesystem::path const& path, EachWeight each_weight,
                                  FunctionRef<void(StateSaver&)> fold,
                                  std::span<Hyperparameter const> hyperparameters) {
  save_run_file(path, each_weight, fold, hyperparameters, {});
}

/// Checks that the file holds the state of a run, in this library's format, and that every byte of it is as it was
/// written. Throws [fulgurite.checkpoint.no_run_state] if the file holds only weights, [fulgurite.checkpoint.format] if
/// another version wrote it, and [fulgurite.checkpoint.checksum] if it is damaged.
FULGURITE_BODY void check_run_file(SafetensorsFile const& file) {
  auto const& all = file.metadata();
  if (!all.contains(run_state_key))
    throw Error("fulgurite.checkpoint.no_run_state",
                file.path().string() + " holds weights alone, not the state of a run: nothing can be resumed from it");
  auto const format = all.find(run_format_key);
  if (format == all.end() || format->second != run_format)
    throw Error("fulgurite.checkpoint.format",
                file.path().string() + " has " +
                    (format == all.end() ? "no format" : "format '" + format->second + "'") +
                    ", and this version of the library reads format '" + run_format +
                    "': read it with the version that wrote it; its weights alone can be loaded by load_weights");
  if (!file.has_checksums())
    throw Error("fulgurite.checkpoint.checksum",
                file.path().string() + " has no checksums, so it was changed since it was written: take another one");
  file.verify();
}

FULGURITE_BODY ArchiveNode run_state(SafetensorsFile const& file) {
  check_run_file(file);
  auto const refuse = [&](std::string const& name, char const* how) {
    throw Error("fulgurite.checkpoint.state_tensor",
                file.path().string() + how + "'" + name +
                    "': the file was not written by this library, or was changed since");
  };
  std::set<std::string> taken;
  auto tree = from_text(file.metadata().at(run_state_key), file.path().string() + ", state of the run",
                        [&](std::string const& name) {
                          auto const full = std::string(state_tensor_prefix) + name;
                          auto const* entry = file.find(full);
                          if (entry == nullptr) refuse(full, " lacks a tensor of the run's state, ");
                          if (!taken.insert(full).second) refuse(full, " uses twice a tensor of the run's state, ");
                          std::vector<std::byte> bytes(entry->end - entry->begin);
                          file.read(*entry, bytes);
                          return SavedTensor(entry->dtype, entry->shape, std::move(bytes));
                        });
  for (auto const& entry : file.entries())
    if (is_state_tensor(entry.name) && !taken.contains(entry.name))
      refuse(entry.name, " holds a tensor that the run's state does not know, ");
  return tree;
}

FULGURITE_BODY ArchiveNode run_state_if_any(SafetensorsFile const& file) {
  return file.metadata().find(run_state_key) == file.metadata().end() ? ArchiveNode{} : run_state(file);
}

FULGURITE_BODY ArchiveNode state_beside_weights(SafetensorsFile const& file, bool with_tensors) {
  auto const& all = file.metadata();
  auto const text = all.find(run_state_key), format = all.find(run_format_key);
  if (text == all.end() || format == all.end() || format->second != run_format) return {};
  if (with_tensors) return run_state(file);
  auto const no_bytes = [](std::string const&) { return SavedTensor(); };
  return from_text(text->second, file.path().string() + ", state of the run", no_bytes);
}

FULGURITE_BODY std::vector<std::string> entries_of(ArchiveNode const& state, char const* part) {
  auto const* const kept = state.find(part);
  return kept == nullptr ? std::vector<std::string>() : StateLoader(*kept).names();
}

FULGURITE_BODY ArchiveNode state_with_data(SafetensorsFile const& file) {
  auto tree = run_state(file);
  if (tree.find(data_module_key) == nullptr)
    throw Error("fulgurite.checkpoint.no_data_state",
                file.path().string() +
                    " keeps nothing of a data module: its run was given loaders, or a module without state(archive); "
                    "pass the module itself to fit");
  return tree;
}

FULGURITE_BODY std::string assembly_difference(SafetensorsFile const& file, ArchiveNode const& state,
                                               FunctionRef<void(TakeShape)> each_shape,
                                               FunctionRef<void(StateSaver&)> fold) {
  auto const value = file.metadata().find(fingerprint_key);
  auto const* const then = state.find(assembly_key);
  if (value == file.metadata().end() || then == nullptr) return {};
  ArchiveNode program;
  StateSaver saver(program);
  fold(saver);
  auto const* const now = program.find(assembly_key);
  assembly::Shapes shapes_now, shapes_then;
  each_shape([&](std::string_view name, std::string_view dtype, std::vector<std::int64_t> shape) {
    shapes_now.emplace(name, std::pair(assembly::kind(dtype), std::move(shape)));
  });
  for (auto const& entry : file.entries())
    if (!is_state_tensor(entry.name))
      shapes_then.emplace(entry.name, std::pair(assembly::kind(entry.dtype), entry.shape));
  std::string parts;
  auto const of = [&](std::string const& part, std::string const& how) {
    if (!how.empty()) assembly::add(parts, part + ": " + how, "; ");
  };
  of("model", assembly::difference(shapes_now, shapes_then));
  for (auto const* kind : {"strategy", "precision", "optimization", "optimizers", "schedules", "callbacks", "loaders"})
    of(kind, assembly::difference(assembly::names_in(now, kind), assembly::names_in(then, kind)));
  if (parts.empty()) return {};
  return "the file was written by a program that is put together differently (fingerprint " + value->second +
         "): " + parts;
}

FULGURITE_BULK_BODY RunImage::RunImage() = default;
FULGURITE_MOVES_BODY(RunImage);

FULGURITE_BODY void RunImage::take(EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
                                   std::span<Hyperparameter const> hyperparameters) {
  parts_.clear();
  tree_ = {};
  hyperparameters_.assign(hyperparameters.begin(), hyperparameters.end());
  StateSaver saver(tree_, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  auto const add = [&](std::string name, std::string dtype, std::vector<std::int64_t> shape,
                       std::span<std::byte const> bytes) {
    if (parts_.size() == memory_.size()) memory_.emplace_back();
    memory_[parts_.size()].assign(bytes.begin(), bytes.end());
    parts_.push_back({std::move(name), std::move(dtype), std::move(shape)});
  };
  each_weight([&](std::string_view name, WeightView const& view) {
    refuse_state_name("a file of the run", name);
    add(std::string(name), std::string(view.dtype), view.shape, view.bytes);
  });
  // The tree keeps only the names of its tensors.
  std::vector<ArchiveTensor*> tensors;
  each_tensor(tree_, [&](ArchiveTensor& one) { tensors.push_back(&one); });
  std::vector<ArchiveTensor const*> const in_order(tensors.begin(), tensors.end());
  read_together(in_order, [&, next = tensors.begin()](ArchiveTensor const& one, SavedTensor::Bytes bytes) mutable {
    add(std::string(state_tensor_prefix) + one.name, one.tensor.dtype(), one.tensor.shape(), bytes);
    (*next++)->tensor = {};  // at once, or all of them would be in memory twice
  });
}

FULGURITE_BODY void RunImage::write(std::filesystem::path const& path) const {
  auto metadata = run_metadata(path, tree_, hyperparameters_, {}, safetensors::longest_header, [](auto const&) {});
  auto const each = [&](TakeWeight f) {
    for (std::size_t i = 0; auto const& part : parts_)
      f(std::string_view(part.name), WeightView{part.dtype, part.shape, std::span(memory_[i++])});
  };
  write_with_fingerprint(path, std::move(metadata), each, tree_);
}

FULGURITE_BODY void rename_in(ArchiveNode& node, std::string const& from, std::string const& to) {
  if (auto* const text = std::get_if<std::string>(&node.value); text != nullptr && *text == from) *text = to;
  each_child(node, [&](ArchiveNode& child) { rename_in(child, from, to); });
}

FULGURITE_BODY void RunImage::rename(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (!from.empty()) rename_in(tree_, from.native(), to.native());
}

void BackgroundWriter::elsewhere(auto const& work) {
  // Signals are for the threads that the program knows.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread(work);
  } catch (...) { work(); }  // no more threads are available: the write runs here, and only takes longer
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FULGURITE_BULK_BODY BackgroundWriter::BackgroundWriter() = default;
FULGURITE_BULK_BODY BackgroundWriter::~BackgroundWriter() { wait(); }

FULGURITE_BODY void BackgroundWriter::clear() { files_.clear(); }

FULGURITE_BODY void BackgroundWriter::plan(std::filesystem::path const& file, bool is_new) {
  files_.push_back({file, is_new, false, nullptr});
}

FULGURITE_BODY void BackgroundWriter::start() {
  wait();
  done_.store(false, std::memory_order_relaxed);
  elsewhere([this] { work(); });
}

FULGURITE_BODY void BackgroundWriter::wait() {
  if (thread_.joinable()) thread_.join();
}

FULGURITE_BODY void BackgroundWriter::write(std::filesystem::path const& path) {
  for (auto& file : files_)
    if (file.path == path && std::exchange(file.tried, false)) {
      if (file.failure) std::rethrow_exception(std::exchange(file.failure, nullptr));
      return;
    }
  image_.write(path);
}

FULGURITE_BODY bool BackgroundWriter::remove(std::filesystem::path const& path) {
  FileDescriptor keeps(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::error_code ignored;
  bool const removed = std::filesystem::remove(path, ignored);
  if (removed && keeps) removed_.push_back(std::move(keeps));
  return removed;
}

FULGURITE_BODY void BackgroundWriter::let_go() {
  if (removed_.empty()) return;
  wait();
  elsewhere([this]() noexcept { removed_.clear(); });
}

FULGURITE_BODY void BackgroundWriter::work() noexcept {
  for (std::exception_ptr failure; auto& file : files_) {
    file.tried = true;
    file.failure = failure;
    if (failure) continue;
    try {
      NewNamesOnly const only(file.is_new);
      image_.write(file.path);
    } catch (FileExists const&) {
      file.failure = std::current_exception();
      break;
    } catch (...) { failure = file.failure = std::current_exception(); }
  }
  done_.store(true, std::memory_order_release);
}

}  // namespace fulgurite
