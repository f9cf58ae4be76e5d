#pragma once
// What processes of a run leave in their store for each other: who has ended and why, who has left, who is there.

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

/// A rank that has ended before the others, and why.
struct Ended {
  int rank;
  std::string text;
};

/// What a rank is known to do, by what it said last.
struct Seen {
  std::string waits_for = {};  ///< empty: it has not said that it waits
  bool left = false;           ///< its program has ended with success
  bool is_there = false;       ///< it has answered the last roll call
};

/// Each call is one answer of the store, or a few. As long as nobody has news, whoever looks asks for one key.
class Notices {
 public:
  Notices(Place const& place, c10d::Store& store) : place_(&place), store_(&store) {}

  /// The first who ended is the one that counts.
  void end(Ended const& ended) {
    store_->compareSet("ended", {}, bytes_of(std::to_string(ended.rank) + "\n" + ended.text));
    set("news");
  }
  std::optional<Ended> ended() {
    if (!has("news") || !has("ended")) return std::nullopt;
    auto const text = text_of(store_->get("ended"));
    auto const line = text.find('\n');
    try {
      set("heard/" + mine());           // whose process keeps the store may go
    } catch (std::exception const&) {}  // it has gone: what it said is here
    return Ended{std::stoi(text), text.substr(line + 1)};
  }

  /// The program of this rank ends with success.
  void leave() {
    set("left/" + mine());
    set("left");
  }
  /// The first rank that has left.
  std::optional<int> left() {
    if (!has("left")) return std::nullopt;
    for (int rank = 0; rank != place_->world; ++rank)
      if (has("left/" + std::to_string(rank))) return rank;
    return std::nullopt;
  }

  /// A connection broke: who is there shall say so.
  void call_roll() {
    set("roll");
    set("news");
  }
  /// Whether this rank has said so.
  bool answer_roll() {
    if (!has("news") || !has("roll")) return false;
    set("there/" + mine());
    return true;
  }

  void waits(std::string const& what) { store_->set("waits/" + mine(), bytes_of(what)); }

  std::vector<Seen> all() {
    std::vector<Seen> seen;
    for (int rank = 0; rank != place_->world; ++rank) {
      auto const of_rank = std::to_string(rank), key = "waits/" + of_rank;
      seen.push_back(
          {has(key) ? text_of(store_->get(key)) : std::string(), has("left/" + of_rank), has("there/" + of_rank)});
    }
    return seen;
  }

 private:
  std::string mine() const { return std::to_string(place_->rank); }
  bool has(std::string const& key) { return store_->check({key}); }
  void set(std::string const& key) { store_->set(key, bytes_of("yes")); }

  Place const* place_;
  c10d::Store* store_;
};

}  // namespace fulgurite::distributed
