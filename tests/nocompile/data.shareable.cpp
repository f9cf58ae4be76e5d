// refused: [fulgurite.data.shareable] data::shared keeps vectors of numbers or plain structs, tensors (torch/data/shared.hpp), and pairs, tuples and vectors of these: return such, or specialize data::SharedForm for this type
#include <string>
#include <vector>

#include <toy.hpp>

#include <fulgurite/data/shared.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  auto const words = data::shared(toy::Device{}, [] { return std::vector<std::vector<char>>{{'a'}, {'b'}}; });
#else
  auto const words = data::shared(toy::Device{}, [] { return std::vector<std::string>{"a", "b"}; });
#endif
  return static_cast<int>(words.size()) - 2;
}
