#pragma once
// The files that the word in a CkptPath may mean.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Files to try, in this order.
struct Candidates {
  std::vector<std::filesystem::path> files = {};
  bool searched = false;  ///< they were looked for in folders, where files of others may lie, too
};

/// The optimizer steps of the run whose state a file holds; -1 where it holds none, or cannot be read.
template <class R>
std::int64_t steps_in(std::filesystem::path const& path) {
  try {
    typename R::Backend::RunFile const file(path);
    auto const* const progress = file.state().find("progress");
    auto const* const steps = progress == nullptr ? nullptr : progress->find("global_step");
    if (steps != nullptr)
      if (auto const* const number = std::get_if<std::int64_t>(&steps->value)) return *number;
  } catch (Error const&) {}
  return -1;
}

/// The newest first, each file once, whatever its names are. Where the clock of the file system cannot tell two apart,
/// the one of more steps is the newer one: a name says nothing, since "epoch=9" would come after "epoch=10".
FULGURITE_COLD std::vector<std::filesystem::path>
newest_first(std::vector<std::filesystem::path> const& files,
             FunctionRef<std::int64_t(std::filesystem::path const&)> steps_of) {
  namespace fs = std::filesystem;
  struct Found {
    fs::file_time_type written;
    fs::path file;
    std::int64_t steps = -1;
  };
  std::vector<Found> found;
  for (auto const& file : files) {
    std::error_code missing;
    auto const written = fs::last_write_time(file, missing);
    if (!missing) found.push_back({written, file});
  }
  sort_seldom(found,
              [](Found const& a, Found const& b) { return std::tie(a.written, a.file) > std::tie(b.written, b.file); });
  auto const same = [](Found const& a, Found const& b) {
    std::error_code unknown;
    return a.file == b.file || (a.written == b.written && fs::equivalent(a.file, b.file, unknown));
  };
  std::vector<fs::path> ordered;
  for (auto from = found.begin(); from != found.end();) {
    auto const to = std::find_if(from, found.end(), [&](Found const& one) { return one.written != from->written; });
    std::vector<Found> equal;
    for (; from != to; ++from)
      if (std::ranges::none_of(equal, [&](Found const& one) { return same(one, *from); })) equal.push_back(*from);
    if (equal.size() > 1)
      for (auto& one : equal) one.steps = steps_of(one.file);
    sort_seldom(equal,
                [](Found const& a, Found const& b) { return std::tie(a.steps, a.file) > std::tie(b.steps, b.file); });
    for (auto& one : equal) ordered.push_back(std::move(one.file));
  }
  return ordered;
}

/// The files that "last" may mean, the newest first. A callback names its own by `last_checkpoints()`.
template <class R, bool OfThoseThatResume = false, class Pack>
std::vector<std::filesystem::path> last_checkpoints(Pack& pack, CheckpointSearch const& search) {
  std::vector<std::filesystem::path> files;
  pack.each([&](auto& callback) {
    using C = std::remove_reference_t<decltype(callback)>;
    if constexpr (NamesLast<C> && (!OfThoseThatResume || resumes_fit<C>))
      for (auto& file : last_of(callback, search)) files.push_back(std::move(file));
  });
  return newest_first(files, [](std::filesystem::path const& file) { return steps_in<R>(file); });
}

/// The number in the name of a file that a scheduler's signal has left, as 12 of hpc_ckpt_12.safetensors; -1 where
/// there is none.
FULGURITE_COLD long number_of(std::filesystem::path const& file) {
  auto const stem = file.stem().string();
  long number = -1;
  auto const* const last = stem.data() + stem.size();
  auto const* const first = stem.data() + stem.find_last_not_of("0123456789") + 1;
  return first != last && std::from_chars(first, last, number).ec == std::errc{} ? number : -1;
}

/// Sorts files of a scheduler's signals by their numbers.
FULGURITE_COLD void highest_first(std::vector<std::filesystem::path>& files) {
  sort_seldom(files, [](auto const& a, auto const& b) {
    auto const of_a = number_of(a), of_b = number_of(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
}

/// The files that "hpc" means, the highest number first, whatever their times. A callback names its own by
/// `hpc_checkpoints()`. `OfRequeued`: of callbacks whose `resumes_hpc()` says that a scheduler has started this
/// process.
template <bool OfRequeued = false, class Pack>
std::vector<std::filesystem::path> hpc_checkpoints(Pack& pack, CheckpointSearch const& search) {
  std::vector<std::filesystem::path> files;
  pack.each([&](auto& callback) {
    using C = std::remove_reference_t<decltype(callback)>;
    if constexpr (NamesHpc<C>) {
      if constexpr (OfRequeued) {
        if constexpr (hook::resumes_hpc::accepts<C>)
          if (!callback.resumes_hpc()) return;
        if constexpr (!hook::resumes_hpc::accepts<C>) return;
      }
      for (auto& file : hpc_of(callback, search)) {
        std::error_code none;
        if (std::filesystem::exists(file, none)) files.push_back(std::move(file));
      }
    }
  });
  highest_first(files);
  return files;
}

/// The best file of the first callback that has one.
template <class Pack>
std::filesystem::path best_checkpoint(Pack& pack) {
  std::filesystem::path best;
  bool asked = false;
  pack.each([&](auto& callback) {
    if constexpr (NamesBest<std::remove_reference_t<decltype(callback)>>) {
      asked = true;
      if (best.empty()) best = callback.best_model_path();
    }
  });
  if (best.empty())
    throw Error("fulgurite.resume.no_best",
                asked
                    ? "CkptPath{\"best\"}: no best file was written yet; name a file, or call fit first"
                    : "CkptPath{\"best\"} asks a ModelCheckpoint, and this trainer has none: name a file, or add one");
  return best;
}

/// The files that a call means by `from`.
template <class R, class Pack>
Candidates candidates(State<R>& run, Pack& pack, CkptPath const& from) {
  if (from.path() == "best") return {{best_checkpoint(pack)}};
  bool const hpc = from.path() == "hpc";
  if (from.path() != "last" && !hpc) return {{from.path()}};
  auto const search = checkpoint_search<typename R::Model>(pack, run.asked.options);
  return {hpc ? hpc_checkpoints(pack, search) : last_checkpoints<R>(pack, search), true};
}

}  // namespace fulgurite::loop
