#pragma once
// The bodies of core/error.hpp.

#include <cerrno>
#include <mutex>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY Error::Error(std::string_view identifier, std::string const& sentence)
    : std::runtime_error(std::string("[").append(identifier).append("] ").append(sentence)),
      length_(identifier.size()) {}

FULGURITE_BULK_BODY std::string_view Error::identifier() const noexcept {
  return std::string_view(what()).substr(1, length_);
}

FULGURITE_BODY Error all_of(std::vector<Error> const& errors) {
  constexpr std::string_view together = "fulgurite.checkpoint.state_entry";
  if (errors.size() == 1) return errors.front();
  std::string all;
  for (auto const& error : errors) {
    std::string_view said = error.what();
    if (error.identifier() == together) said.remove_prefix(together.size() + 3);
    if (!all.empty()) all += "; ";
    all += said;
  }
  return {together, all};
}

FULGURITE_BULK_BODY FileExists::FileExists(std::filesystem::path const& file)
    : Error("fulgurite.file.write",
            "cannot write " + file.string() + ": another process has made a file of that name; it stays as it is") {}

FULGURITE_BULK_BODY Interrupted::Interrupted(int signal)
    : Error("fulgurite.run.interrupted", "the run was asked to end by " + name_of(signal)), signal_(signal) {}

FULGURITE_BULK_BODY std::string Interrupted::name_of(int signal) {
  if (signal == SIGINT) return "SIGINT";
  if (signal == SIGTERM) return "SIGTERM";
  if (signal == SIGUSR1) return "SIGUSR1";
  return "signal " + std::to_string(signal);
}

namespace loop {

FULGURITE_BULK_BODY RankEnded::RankEnded(int rank, std::string const& text)
    : Error("fulgurite.distributed.rank_ended", "rank " + std::to_string(rank) + " ended: " + text), rank_(rank) {}

FULGURITE_BULK_BODY WrongReplay::WrongReplay(std::string const& why, bool same, std::string const& no_way)
    : Error("fulgurite.capture.wrong_replay",
            "steps of this fit were replayed wrongly since the last check, and it cannot go back, since " + no_way +
                ": " + why + ". Use the strategy without Captured"),
      reason(why),
      same_model(same) {}

FULGURITE_BODY void refuse_text(char const* identifier, std::string const& name, std::string const& value,
                                std::string const& cure) {
  throw Error(identifier, name + " = " + value + ": " + cure);
}

}  // namespace loop

/// Guards the chain of all CaughtSignals that exist.
FULGURITE_BODY std::mutex& chain_of_signals() {
  static std::mutex mutex;
  return mutex;
}

FULGURITE_BULK_BODY CaughtSignals::CaughtSignals(std::vector<int> const& signals, int request) {
  std::lock_guard const lock(chain_of_signals());
  if (newest_ == nullptr) noted_ = noted_request_ = 0;
  older_ = std::exchange(newest_, this);
  for (int const signal : signals) listen(signal, &note);
  if (request != 0) listen(request, [](int caught) { noted_request_ = caught; });
}

FULGURITE_BULK_BODY CaughtSignals::~CaughtSignals() {
  std::lock_guard const lock(chain_of_signals());
  restore();
}

FULGURITE_BULK_BODY int CaughtSignals::to_act_on() {
  int const request = requested();
  return request != 0 ? request : caught();
}

FULGURITE_BODY void CaughtSignals::listen(int signal, Handler handler) {
  Action now{}, before{};
  now.sa_handler = handler;
  now.sa_flags = SA_RESTART;
  sigemptyset(&now.sa_mask);
  auto const at = static_cast<std::size_t>(signal);
  if (signal <= 0 || at >= most || ::sigaction(signal, nullptr, &before) != 0 || !keep(signal, before, now)) {
    restore();
    throw Error("fulgurite.run.signal",
                "signal " + std::to_string(signal) + " cannot be caught: name others, such as SIGINT and SIGTERM");
  }
}

FULGURITE_BODY bool CaughtSignals::keep(int signal, Action const& before, Action const& now) {
  before_.emplace_back(signal, before);
  bool const ours = before.sa_handler == &note;  // the handler of another object: it must not call itself
  without_[static_cast<std::size_t>(signal)] = ours || before.sa_handler == SIG_IGN ? Action{} : before;
  if (::sigaction(signal, &now, nullptr) == 0) return true;
  before_.pop_back();
  return false;
}

FULGURITE_BULK_BODY void CaughtSignals::restore() {
  for (auto at = before_.rbegin(); at != before_.rend(); ++at) {
    Action* of_later = nullptr;  // the action that the next object has to restore
    for (auto* later = newest_; later != this; later = later->older_)
      for (auto& [signal, before] : later->before_)
        if (signal == at->first) of_later = &before;
    if (of_later != nullptr) *of_later = at->second;
    else ::sigaction(at->first, &at->second, nullptr);
  }
  before_.clear();
  auto** link = &newest_;
  while (*link != this) link = &(*link)->older_;
  *link = older_;
}

FULGURITE_BODY void CaughtSignals::note(int signal) {
  int const error = errno;
  int none = 0;
  if (!noted_.compare_exchange_strong(none, signal)) {
    ::sigaction(signal, &without_[static_cast<std::size_t>(signal)], nullptr);
    ::raise(signal);  // delivered as soon as this function returns
  }
  errno = error;
}

}  // namespace fulgurite
