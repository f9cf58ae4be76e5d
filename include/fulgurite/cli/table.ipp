#pragma once
// The bodies of cli/table.hpp.

#include <cctype>

#include <fulgurite/cli/table.hpp>

namespace fulgurite::cli {

FULGURITE_BODY std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

FULGURITE_BODY std::string nearest(std::string_view name, std::vector<std::string> const& known) {
  std::string best;
  std::size_t least = std::string::npos;
  for (auto const& one : known)
    if (name.size() > 2 && one.starts_with(name)) return one;
  auto const tail = [](std::string_view whole) { return whole.substr(whole.rfind('.') + 1); };
  for (auto const& one : known)
    for (bool const whole : {true, false}) {
      if (!whole && name.find('.') != std::string_view::npos) continue;
      auto const against = whole ? std::string_view(one) : tail(one);
      auto const far = distance(name, against);
      if (far > std::max<std::size_t>(1, std::min(name.size(), against.size()) / 3) || far >= least) continue;
      least = far;
      best = one;
    }
  return best;
}

FULGURITE_BODY void Table::add_choice(std::string name, std::string& value, std::vector<std::string> names,
                                      std::string about) {
  check_name(name);
  auto const all = listed(names);
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

FULGURITE_BODY std::vector<std::string> Table::names() const {
  std::vector<std::string> all;
  for (auto const& entry : entries_) all.push_back(entry.name);
  return all;
}

FULGURITE_BODY Entry const* Table::find(std::string_view name) const {
  for (auto const& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

FULGURITE_BODY void Table::link(std::string_view name, std::string source) {
  for (auto& entry : entries_)
    if (entry.name == name) entry.follows = std::move(source);
}

FULGURITE_BODY bool Table::is_linked(std::string_view name) const {
  return std::ranges::any_of(entries_, [&](Entry const& entry) {
    return !entry.follows.empty() && (entry.name == name || entry.follows == name);
  });
}

FULGURITE_BODY bool Table::was_given(std::string_view name) const {
  return std::ranges::find(said_, name) != said_.end();
}

FULGURITE_BODY void Table::set(std::string_view name, Written const& value, std::string const& shown) {
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

FULGURITE_BODY void Table::unknown(std::string_view name, std::string const& shown) const {
  auto const meant = nearest(name, names());
  std::string why = shown + " is no option of this program";
  why += meant.empty() ? "; --help lists them" : ": did you mean --" + meant + "?";
  throw Error("fulgurite.cli.unknown", why);
}

FULGURITE_BODY void Table::check_name(std::string_view name) {
  bool const known = std::ranges::all_of(name, [](char c) {
    auto const code = static_cast<unsigned char>(c);
    return code >= 0x80 || std::isalnum(code) || c == '_' || c == '-' || c == '.';
  });
  if (known && !name.empty() && name.front() != '-' && !name.starts_with('.') && !name.ends_with('.') &&
      name.find("..") == std::string_view::npos)
    return;
  std::string why = "'";
  (why += name) +=
      "' cannot be the name of an option: a name must have letters, digits, _ and -, with points between groups";
  throw Error("fulgurite.cli.name", why);
}

}  // namespace fulgurite::cli
