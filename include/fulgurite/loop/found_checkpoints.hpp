#pragma once
// The files that the word in a CkptPath may mean.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/error.hpp>
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
template <class R>
std::vector<std::filesystem::path> newest_first(std::vector<std::filesystem::path> const& files) {
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
  std::ranges::sort(found, std::greater{}, [](Found const& one) { return std::tie(one.written, one.file); });
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
      for (auto& one : equal) one.steps = steps_in<R>(one.file);
    std::ranges::sort(equal, std::greater{}, [](Found const& one) { return std::tie(one.steps, one.file); });
    for (auto& one : equal) ordered.push_back(std::move(one.file));
  }
  return ordered;
}

/// The files that "last" may mean, the newest first. A callback names its own by `last_checkpoints()`.
template <class R, bool OfThoseThatResume = false, class Pack>
std::vector<std::filesystem::path> last_checkpoints(Pack& pack) {
  std::vector<std::filesystem::path> files;
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.last_checkpoints(); })
      if constexpr (!OfThoseThatResume || resumes_fit<std::remove_reference_t<decltype(callback)>>)
        for (auto const& file : callback.last_checkpoints()) files.push_back(file);
  });
  return newest_first<R>(files);
}

/// The best file of the first callback that has one.
template <class Pack>
std::filesystem::path best_checkpoint(Pack& pack) {
  std::filesystem::path best;
  bool asked = false;
  pack.each([&](auto& callback) {
    if constexpr (requires { std::filesystem::path(callback.best_model_path()); }) {
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
Candidates candidates(Pack& pack, CkptPath const& from) {
  if (from.path() == "best") return {{best_checkpoint(pack)}};
  if (from.path() == "last") return {last_checkpoints<R>(pack), true};
  return {{from.path()}};
}

template <class R>
void warn_of_none(State<R>& run) {
  run.warn("fulgurite.resume.no_last",
           "CkptPath{\"last\"}: no callback of this trainer has left a file, so the run begins anew");
}

}  // namespace fulgurite::loop
