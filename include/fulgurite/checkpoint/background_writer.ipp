#pragma once
// The bodies of checkpoint/background_writer.hpp.

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <fulgurite/checkpoint/background_writer.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY RunImage::RunImage() = default;
FULGURITE_MOVES_BODY(RunImage);

FULGURITE_BODY void RunImage::take(EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
                                   std::span<Hyperparameter const> hyperparameters) {
  begin(hyperparameters);
  StateSaver saver(tree_, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  copy(each_weight);
}

FULGURITE_BODY void RunImage::write(std::filesystem::path const& path) const {
  auto metadata = run_metadata(path, tree_, hyperparameters_, {}, safetensors::longest_header, [](auto const&) {});
  auto const each = [&](TakeWeight f) {
    for (std::size_t i = 0; auto const& part : parts_)
      f(std::string_view(part.name), WeightView{part.dtype, part.shape, std::span(memory_[i++])});
  };
  write_safetensors(path, std::move(metadata), each, Checksums::written, AddFingerprint{tree_});
}

FULGURITE_BODY void RunImage::rename(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (!from.empty()) rename(tree_, from.native(), to.native());
}

FULGURITE_BODY void RunImage::begin(std::span<Hyperparameter const> hyperparameters) {
  parts_.clear();
  tree_ = {};
  hyperparameters_.assign(hyperparameters.begin(), hyperparameters.end());
}

FULGURITE_BODY void RunImage::copy(EachWeight each_weight) {
  each_weight([&](std::string_view name, WeightView const& view) {
    refuse_state_name("a file of the run", name);
    add(std::string(name), std::string(view.dtype), view.shape, view.bytes);
  });
  copy_tensors();
}

FULGURITE_BODY void RunImage::add(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                                  std::span<std::byte const> bytes) {
  if (parts_.size() == memory_.size()) memory_.emplace_back();
  memory_[parts_.size()].assign(bytes.begin(), bytes.end());
  parts_.push_back({std::move(name), std::move(dtype), std::move(shape)});
}

FULGURITE_BODY void RunImage::copy_tensors() {
  each_tensor(tree_, [&](ArchiveTensor& one) {
    one.tensor.read([&](SavedTensor::Bytes bytes) {
      add(std::string(state_tensor_prefix) + one.name, one.tensor.dtype(), one.tensor.shape(), bytes);
    });
    one.tensor = {};
  });
}

FULGURITE_BODY void RunImage::rename(ArchiveNode& node, std::string const& from, std::string const& to) {
  if (auto* const text = std::get_if<std::string>(&node.value); text != nullptr && *text == from) *text = to;
  each_child(node, [&](ArchiveNode& child) { rename(child, from, to); });
}

template <class Work>
void BackgroundWriter::elsewhere(Work const& work) {
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

FULGURITE_BODY void BackgroundWriter::plan(std::filesystem::path file, bool is_new) {
  files_.push_back({std::move(file), is_new, false, nullptr});
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

FULGURITE_BODY void BackgroundWriter::clear() { files_.clear(); }

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
