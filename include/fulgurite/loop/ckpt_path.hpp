#pragma once
// Where a run goes on from, or whose weights an evaluation has.

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

/// Lightning's ckpt_path, the last argument of fit, validate, test and predict:
///   trainer.fit(net, data, CkptPath{"last"});
/// "last" is the newest of the files that the trainer's callbacks have left; where there is none, the run is a new one,
/// which is said. "best" is the best file of the first ModelCheckpoint of this trainer. Anything else is a file. A fit
/// goes on from it as if it had never stopped; an evaluation takes the weights, and the state of model and callbacks.
class CkptPath {
 public:
  explicit CkptPath(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class R>
class Snapshot;

namespace loop {

/// What snapshot(trainer) returns.
template <class T>
inline constexpr bool is_snapshot = false;
template <class R>
inline constexpr bool is_snapshot<Snapshot<R>> = true;

/// In the place of a CkptPath where none is given: a program that never goes on from a file holds no code for it.
struct Anew {};
template <class From>
concept StartingPoint =
    std::same_as<From, Anew> || is_snapshot<From> || std::convertible_to<From, std::optional<CkptPath>>;

template <class... Args>
inline constexpr bool names_file =
    ((is_snapshot<std::remove_cvref_t<Args>> || std::is_same_v<std::remove_cvref_t<Args>, CkptPath> ||
      std::is_same_v<std::remove_cvref_t<Args>, std::optional<CkptPath>>) ||
     ...);

/// A fit that is not told where to go on from looks for a file of this callback.
template <class C>
inline constexpr bool resumes_fit = false;
template <class C>
  requires requires { C::resumes_fit; }
inline constexpr bool resumes_fit<C> = C::resumes_fit;
template <class Pack>
inline constexpr bool any_resumes_fit = false;
template <class... Cs>
inline constexpr bool any_resumes_fit<Pack<Cs...>> = (resumes_fit<Cs> || ...);

/// The words of a call as one type.
template <class From>
std::optional<CkptPath> path_of(From const& from) {
  if constexpr (std::same_as<From, Anew> || is_snapshot<From>) return std::nullopt;
  else return from;
}

/// The files that "last" may mean, the newest first. A callback names its own by `last_checkpoints()`.
template <bool OfThoseThatResume = false, class Pack>
std::vector<std::filesystem::path> last_checkpoints(Pack& pack) {
  namespace fs = std::filesystem;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.last_checkpoints(); })
      if constexpr (!OfThoseThatResume || resumes_fit<std::remove_reference_t<decltype(callback)>>)
        for (fs::path const& file : callback.last_checkpoints()) {
          std::error_code missing;
          auto const written = fs::last_write_time(file, missing);
          if (!missing) found.emplace_back(written, file);
        }
  });
  std::ranges::sort(found, std::greater{});
  std::vector<fs::path> files;
  for (auto& [written, file] : found)
    if (std::ranges::find(files, file) == files.end()) files.push_back(std::move(file));
  return files;
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

/// The files to try, in this order: one, unless the newest was asked for; none where that is not there. `from`: what
/// the call says.
template <class R, class Pack>
std::vector<std::filesystem::path> checkpoints_to_try(State<R>& run, Pack& pack, CkptPath const& from) {
  if (from.path() == "best") return {best_checkpoint(pack)};
  if (from.path() != "last") return {from.path()};
  auto files = last_checkpoints(pack);
  if (files.empty())
    run.warn("fulgurite.resume.no_last",
             "CkptPath{\"last\"}: no callback of this trainer has left a file, so the run begins anew");
  return files;
}

/// f(file) for the first of the files that is whole; one that is damaged is passed over where another is left, which is
/// said. Whether there was any.
template <class R, class F>
bool with_whole_file(State<R>& run, std::vector<std::filesystem::path> const& files, F&& f) {
  using RunFile = typename R::Backend::RunFile;
  for (std::size_t i = 0; i != files.size(); ++i) {
    std::optional<RunFile> file;
    try {
      file.emplace(files[i]);
    } catch (Error const& error) {
      if (i + 1 == files.size()) throw;
      run.warn_each("fulgurite.resume.damaged", files[i].string() +
                                                    " cannot be read, so the file before it is taken, " +
                                                    files[i + 1].string() + ": " + error.what());
      continue;
    }
    f(std::move(*file));
    return true;
  }
  return false;
}

}  // namespace loop
}  // namespace fulgurite
