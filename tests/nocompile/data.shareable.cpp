// refused: [fulgurite.data.shareable] data::shared keeps vectors of numbers or plain structs, tensors (torch/data/stack.hpp), and pairs, tuples and vectors of these: return such, or specialize data::SharedForm for this type
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toy.hpp>

#include <fulgurite/data/shared.hpp>

using namespace fulgurite;

// Views of somebody's memory are copied as plain structs are, and would show another process nothing.
static_assert(!data::HasSharedForm<std::vector<std::string_view>>);
static_assert(!data::HasSharedForm<std::vector<std::pair<int, std::string_view>>>);
static_assert(!data::HasSharedForm<std::string_view>);

int main() {
#ifdef LEGAL
  auto const words = data::shared(toy::Device{}, [] { return std::vector<std::vector<char>>{{'a'}, {'b'}}; });
#else
  auto const words = data::shared(toy::Device{}, [] { return std::vector<std::string>{"a", "b"}; });
#endif
  return static_cast<int>(words.size()) - 2;
}
