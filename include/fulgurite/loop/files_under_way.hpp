#pragma once
// Files of a run that another thread writes, and what is done when they are there.

#include <exception>
#include <filesystem>
#include <string>
#include <utility>

#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>
#include <fulgurite/loop/due.hpp>

namespace fulgurite::loop {

/// The Backend can copy a run, and write files from the copy on another thread.
template <class B>
concept WritesLater = requires { typename B::Background; };

/// Nothing is ever under way.
template <class B>
struct FilesUnderWay {};

template <WritesLater B>
struct FilesUnderWay<B> {
  typename B::Background writer{};
  HeldFiles::Holder holder = nullptr;
  CheckpointFiles::Then then = nullptr;  ///< not empty while files are under way
};

/// Some callback of the pack asks for files.
template <class Pack>
inline constexpr bool any_names_files = false;
template <template <class...> class Pack, class... Cs>
inline constexpr bool any_names_files<Pack<Cs...>> = ((NamesLast<Cs> || NamesHpc<Cs>) || ...);

/// Between steps: whether there is an answer of the thread that writes files.
template <class Pack, class R>
[[gnu::always_inline]] inline bool answer_waits([[maybe_unused]] R& run) {
  if constexpr (WritesLater<typename R::Key::Backend> && any_names_files<Pack>)
    return run.under_way.then && run.under_way.writer.done() && !run.facts.accumulating;
  else return false;
}

/// See finish_files: a function of the Backend alone.
template <WritesLater B>
void finish(FilesUnderWay<B>& now, HeldFiles& held, Due const& due) {
  now.writer.wait();
  auto const then = std::exchange(now.then, nullptr);
  auto const write = [&now](std::filesystem::path const& file, bool) { now.writer.write(file); };
  CheckpointFiles files(held, now.holder, CheckpointFiles::Awaited::to<&Due::awaits>(due), true, write);
  auto const rename = [&now](std::filesystem::path const& from, std::filesystem::path const& to) {
    now.writer.image().rename(from, to);
  };
  auto const remove = [&now](std::filesystem::path const& file) { return now.writer.remove(file); };
  files.can_rename(rename);
  files.can_remove(remove);
  struct LetsGo {  // of what `then` has taken away, also where it fails later on
    typename B::Background& writer;
    ~LetsGo() { writer.let_go(); }
  } const lets_go{now.writer};
  then(files);
}

/// What follows from files that another thread writes, when it has. An exception is that of the first file that could
/// not be written.
template <class R>
void finish_files(R& run) {
  if constexpr (WritesLater<typename R::Key::Backend>)
    if (run.under_way.then) finish(run.under_way, run.made.held_files, run.due);
}

/// The same for a fit that is left open: nobody is there to catch an exception, so it is a warning.
template <class R>
void abandon_files(R& run) noexcept {
  auto const tell = [&run](char const* why) {
    run.warn_each("fulgurite.checkpoint.failed_too",
                  std::string("the fit was left before its end, and this file could not be written: ") + why);
  };
  try {
    finish_files(run);
  } catch (std::exception const& error) { tell(error.what()); } catch (...) {
    tell("what was thrown is no std::exception");
  }
}

}  // namespace fulgurite::loop
