// refused: [fulgurite.data.shared_strategy] data::shared cannot call gather or abort of this strategy: make them public functions, gather(std::string bytes) and abort(std::string_view text)
#include <string>
#include <vector>

#include <toy.hpp>

#include <fulgurite/data/shared.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifndef LEGAL
  std::vector<std::string> gather() const { return {}; }
#endif
};

int main() {
  auto const numbers = data::shared(Own{}, [] { return std::vector<int>{1, 2}; });
  return static_cast<int>(numbers.size()) - 2;
}
