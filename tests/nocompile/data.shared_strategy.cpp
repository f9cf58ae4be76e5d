// refused: [fulgurite.data.shared_strategy] data::shared cannot call gather or abort of this strategy: make them public functions, gather(std::string bytes) and abort(std::string_view text)
#include <string_view>
#include <vector>

#include <toy.hpp>

#include <fulgurite/data/shared.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void abort(std::string_view) const {}
#else
  void abort(int) const {}
#endif
};

int main() {
  auto const numbers = data::shared(Own{}, [] { return std::vector<int>{1, 2}; });
  return static_cast<int>(numbers.size()) - 2;
}
