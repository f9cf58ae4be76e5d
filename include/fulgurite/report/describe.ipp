#pragma once
// The bodies of report/describe.hpp.

#include <algorithm>
#include <cstddef>

#include <fulgurite/report/describe.hpp>

namespace fulgurite {

FULGURITE_BODY std::string field_text(Limit const& limit) {
  if (limit.all()) return "all";
  return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches) + " batches"
                                            : report::exact(limit.part) + " of it";
}

FULGURITE_BODY std::string field_text(ValidationInterval const& every) {
  if (every.kind == ValidationInterval::Kind::time) return reflect::field_text(every.time);
  if (every.epoch_end()) return "the epoch's end";
  return every.kind == ValidationInterval::Kind::batches ? std::to_string(every.batches) + " batches"
                                                         : report::exact(every.part) + " of an epoch";
}

FULGURITE_BODY std::string field_text(Clip const& clip) {
  if (clip.kind == Clip::Kind::none) return "none";
  return (clip.kind == Clip::Kind::norm ? "norm " : "value ") + report::exact(clip.limit);
}

FULGURITE_BODY std::string field_text(RootFolder const& folder) { return folder.path().string(); }

FULGURITE_BODY std::string field_text(NonFinite what) {
  return what == NonFinite::stop ? "stop" : what == NonFinite::skip ? "skip" : "ignore";
}

FULGURITE_BODY std::string field_text(Silence const& silence) {
  std::string all;
  for (auto const one : silence.all()) (all += all.empty() ? "" : ", ") += one;
  return all.empty() ? "none" : all;
}

}  // namespace fulgurite

namespace fulgurite::report {

FULGURITE_BODY std::string first_column(std::string_view name) {
  std::string line = "  ";
  line += name;
  line.resize(std::max<std::size_t>(line.size() + 1, 24), ' ');
  return line;
}

}  // namespace fulgurite::report
