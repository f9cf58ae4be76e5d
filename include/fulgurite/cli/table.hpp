#pragma once
// The options of a program, each with its name, its kind, its meaning and what it is bound to.

#include <algorithm>
#include <cctype>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/cli/list_text.hpp>
#include <fulgurite/cli/near.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

/// One option: `trainer.max_epochs`.
struct Entry {
  std::string name;
  std::string kind;   ///< of its value, for a list of options
  std::string about;  ///< one line for a person; may be empty
  std::string usual;  ///< the value that it begins with
  bool bare;          ///< a file writes it without quotes
  std::function<void(std::string_view)> read;
  std::function<std::string()> text;
  bool listed = true;        ///< written into files
  bool list = false;         ///< its value is a list
  std::string follows = {};  ///< the option whose value it has where it is not given itself
};

/// All options of a program in the order in which they are listed. What they are bound to has to live as long.
class Table {
 public:
  /// Error [fulgurite.cli.name] where a command line or a file could not say the name.
  template <Textual T>
  void add(std::string name, T& value, std::string about = {}, bool listed = true) {
    check_name(name);
    entries_.push_back({std::move(name), std::string(Value<T>::kind), std::move(about), Value<T>::text(value),
                        Value<T>::bare, [&value](std::string_view text) { Value<T>::read(text, value); },
                        [&value] { return Value<T>::text(value); }, listed, is_list<T>});
  }
  /// One of some names.
  void add_choice(std::string name, std::string& value, std::vector<std::string> names, std::string about) {
    check_name(name);
    std::string all;
    for (auto const& one : names) (all += all.empty() ? "" : ", ") += one;
    if (names.size() > 1) (about += about.empty() ? "" : ": ") += all;
    entries_.push_back({std::move(name), "NAME", std::move(about), value, false,
                        [&value, names = std::move(names), all](std::string_view text) {
                          for (auto const& one : names)
                            if (text == one) return void(value = one);
                          auto const meant = nearest(text, names);
                          throw Expected{"one of " + all + (meant.empty() ? "" : " (did you mean " + meant + "?)")};
                        },
                        [&value] { return value; }});
  }

  std::vector<Entry> const& entries() const { return entries_; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (auto const& entry : entries_) all.push_back(entry.name);
    return all;
  }
  Entry const* find(std::string_view name) const {
    for (auto const& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  /// `name` has the value of `source` where that is given and it is not: whoever made the table sets it.
  void link(std::string_view name, std::string source) {
    for (auto& entry : entries_)
      if (entry.name == name) entry.follows = std::move(source);
  }
  /// Whether it follows an option, or is followed.
  bool is_linked(std::string_view name) const {
    return std::ranges::any_of(entries_, [&](Entry const& entry) {
      return !entry.follows.empty() && (entry.name == name || entry.follows == name);
    });
  }

  /// Whether a person has set it.
  bool was_said(std::string_view name) const { return std::ranges::find(said_, name) != said_.end(); }

  /// `shown` is the option as the reader wrote it, such as --trainer.max_epochs. An Error where there is none of that
  /// name, or the text is no value of it, or was written in a form that values of it do not have.
  inline void set(std::string_view name, Written const& value, std::string const& shown) {
    auto const* const entry = find(name);
    if (!entry) unknown(name, shown);
    try {
      if (value.form == Form::list && !entry->list) throw Expected{"one value, not a list"};
      if (value.form != Form::list && value.form != Form::free && entry->list) throw Expected{"a list in brackets"};
      entry->read(value.text);
      if (!entry->list) require_form(value.form, entry->bare, value.text);
      said_.emplace_back(name);
    } catch (Expected const& expected) {
      std::string const why = shown + " = " + file_text(value) + ": must be " + expected.what;
      throw Error("fulgurite.cli.value", why);
    }
  }
  [[noreturn]] inline void unknown(std::string_view name, std::string const& shown) const {
    auto const meant = nearest(name, names());
    std::string why = shown + " is no option of this program";
    why += meant.empty() ? "; --help lists them" : ": did you mean --" + meant + "?";
    throw Error("fulgurite.cli.unknown", why);
  }

 private:
  /// Letters (also those that are not ASCII), digits, '_' and '-', in parts between points.
  static void check_name(std::string_view name) {
    bool const known = std::ranges::all_of(name, [](char c) {
      auto const code = static_cast<unsigned char>(c);
      return code >= 0x80 || std::isalnum(code) || c == '_' || c == '-' || c == '.';
    });
    if (known && !name.empty() && name.front() != '-' && !name.starts_with('.') && !name.ends_with('.') &&
        name.find("..") == std::string_view::npos)
      return;
    std::string why = "'";
    (why += name) += "' cannot be the name of an option: letters, digits, _ and - make a name, points its groups";
    throw Error("fulgurite.cli.name", why);
  }

  std::vector<Entry> entries_{};
  std::vector<std::string> said_{};
};

}  // namespace fulgurite::cli
