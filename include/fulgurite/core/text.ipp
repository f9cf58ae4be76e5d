#pragma once
// The bodies of core/text.hpp.

#include <fulgurite/core/text.hpp>

namespace fulgurite {

FULGURITE_BODY void print_lines(std::FILE* stream, std::string_view lines) {
  if (auto const above = writes_above.load()) above(stream, lines);
  else std::fwrite(lines.data(), 1, lines.size(), stream);
}

FULGURITE_BODY std::string time_text(Seconds time) {
  auto const whole = static_cast<long long>(time.count());
  std::string text;
  for (long long const part : {whole / 86400, whole / 3600 % 24, whole / 60 % 60, whole % 60}) {
    if (!text.empty()) text += ':';
    if (part < 10) text += '0';
    text += std::to_string(part);
  }
  return text;
}

}  // namespace fulgurite
