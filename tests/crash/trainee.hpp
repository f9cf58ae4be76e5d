#pragma once
// What the programs that crash.py kills share: how they say what happens, and what they do with files.
//   PROGRAM fit FOLDER [WORD]   trains, or goes on from the newest file in FOLDER, and says on stdout, a line each:
//                               from N      training begins, or goes on, at step N
//                               saved N     a file of step N was written, as far as the library says
//                               warning W   what it warned of
//                               logs DIR    its log folder
//                               hash H      of all that it came to;  rows H   of its table of logged rows
//                               error E     it ended by an Error of the library (status 3)
//                               With `wait` it first reads from stdin, so that many can start at once, and trains
//                               anew. With `look` it also looks, as below, before and after; between them it says
//                               trained yes
//   PROGRAM look FOLDER         reads each checkpoint of the folder: whole NAME, or damaged NAME WHY
//   PROGRAM cuts FILE COUNT     as many cut copies as the header has bytes, and COUNT cut in the data: read N, cuts M
//   PROGRAM flips FILE COUNT    copies with one bit flipped, COUNT of them all over the file: read N, flips M
// Status 0: done; 3: an Error of the library; 4: anything else was thrown.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace crash {

inline void say(std::string const& line) {
  // One write a line, so that a process that is killed has said all that it had to say.
  auto const text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::exit(5);
}

/// The steps that this process has made.
inline long steps_done = 0;

/// Says where training begins, and counts its steps.
struct Tells {
  using Stateless = fulgurite::ByChoice;
  void on_train_start(auto& ctx) {
    steps_done = ctx.global_step();
    say("from " + std::to_string(ctx.global_step()));
  }
  void on_before_zero_grad(auto& ctx) { steps_done = ctx.global_step(); }
  void on_train_batch_end(auto& ctx) { steps_done = ctx.global_step(); }
};

/// FNV-1a.
struct Hash {
  std::uint64_t value = 0xcbf29ce484222325;
  void bytes(std::string_view text) {
    for (char const c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  void operator()(auto number) { bytes({reinterpret_cast<char const*>(&number), sizeof number}); }
  std::string text() const { return std::to_string(value); }
};

inline std::string content_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// `damage(file)` says what is wrong with a file; nothing where it can be gone on from.
template <class Damage>
void look(std::filesystem::path const& folder, Damage&& damage) {
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".tmp") say("temporary " + entry.path().string());
    if (!entry.is_regular_file() || entry.path().extension() != ".safetensors") continue;
    auto const why = damage(entry.path());
    say((why.empty() ? "whole " : "damaged ") + entry.path().filename().string() + " " + why);
  }
}

/// Writes copies of a file that are no longer what they were, and counts those that are read all the same.
template <class Damage, class Each>
void count(std::filesystem::path const& file, char const* what, Damage&& damage, Each&& each) {
  auto const copy = file.string() + ".copy";
  long read = 0, made = 0;
  each(content_of(file), [&](std::string const& bytes) {
    std::ofstream(copy, std::ios::binary) << bytes;
    ++made;
    if (damage(copy).empty()) ++read;
  });
  std::filesystem::remove(copy);
  say("read " + std::to_string(read));
  say(what + (" " + std::to_string(made)));
}

template <class Damage>
void cuts(std::filesystem::path const& file, long in_data, Damage&& damage) {
  count(file, "cuts", damage, [&](std::string const& whole, auto&& take) {
    std::uint64_t header = 0;
    std::memcpy(&header, whole.data(), sizeof header);
    auto const data = 8 + static_cast<std::size_t>(header);
    for (std::size_t length = 0; length <= data; ++length) take(whole.substr(0, length));
    std::mt19937_64 random(1);
    for (long i = 0; i != in_data; ++i) take(whole.substr(0, data + random() % (whole.size() - data)));
  });
}

template <class Damage>
void flips(std::filesystem::path const& file, long times, Damage&& damage) {
  count(file, "flips", damage, [&](std::string const& whole, auto&& take) {
    std::mt19937_64 random(1);
    for (long i = 0; i != times; ++i) {
      auto changed = whole;
      auto const at = random() % (whole.size() * 8);
      changed[at / 8] = static_cast<char>(changed[at / 8] ^ (1 << (at % 8)));
      take(changed);
    }
  });
}

/// `fit(folder, from)` trains.
template <class Fit, class Damage>
int run(int count_of_words, char** given, Fit&& fit, Damage&& damage) {
  std::vector<std::string> words(given + 1, given + count_of_words);
  words.resize(3);
  try {
    bool const waits = words[2] == "wait", looks = words[2] == "look";
    if (waits) std::cin.get();
    if (words[0] == "fit") {
      if (looks && std::filesystem::exists(words[1])) look(words[1], damage);
      fit(words[1], waits ? std::nullopt : std::optional(fulgurite::CkptPath{"last"}));
      if (looks) say("trained yes");
      if (looks) look(words[1], damage);
    } else if (words[0] == "look") look(words[1], damage);
    else if (words[0] == "cuts") cuts(words[1], std::stol(words[2]), damage);
    else if (words[0] == "flips") flips(words[1], std::stol(words[2]), damage);
    else return 2;
  } catch (fulgurite::Error const& error) {
    say(std::string("error ") + error.what());
    return 3;
  } catch (std::exception const& other) {
    say(std::string("foreign ") + other.what());
    return 4;
  }
  return 0;
}

}  // namespace crash
