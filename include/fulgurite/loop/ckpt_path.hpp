#pragma once
// Where a run goes on from, or whose weights an evaluation has.

#include <concepts>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

namespace fulgurite {

/// Lightning's ckpt_path, the last argument of fit, validate, test and predict:
///   trainer.fit(net, data, CkptPath{"last"});
/// "last" is the newest of the files that the trainer's callbacks have left; where there is none, the run is a new one,
/// which is said. "best" is the best file of the first ModelCheckpoint of this trainer. "hpc" is the file of the
/// highest number that was left for a scheduler which starts the run again. Anything else is a file. A fit goes on from
/// it as if it had never stopped; an evaluation takes the weights, of a file of weights alone as well, and the state of
/// the model and the data module.
class CkptPath {
 public:
  explicit CkptPath(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class R>
class Snapshot;

namespace refusal {

/// `trainer.fit(net, data, {.ckpt_path = "last"})`, as Lightning has it. `{}` makes none.
struct CkptPathOption {
  struct Text {
    template <std::convertible_to<std::filesystem::path> T>
    constexpr Text(T const&) {}
  };
  Text ckpt_path;
};

}  // namespace refusal

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
template <template <class...> class Pack, class... Cs>
inline constexpr bool any_resumes_fit<Pack<Cs...>> = (resumes_fit<Cs> || ...);

/// The words of a call as one type.
template <class From>
std::optional<CkptPath> path_of(From const& from) {
  if constexpr (std::same_as<From, Anew> || is_snapshot<From>) return std::nullopt;
  else return from;
}

}  // namespace loop
}  // namespace fulgurite
