// refused: [fulgurite.data.copied] combined(), named() and of_this_rank() take loaders over, and one that was passed by its name cannot be copied: write std::move(loader), or std::ref(loader) to borrow it
#include <utility>
#include <vector>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>

using namespace fulgurite;

int main() {
  data::Loader clean{std::vector{1.0, 2.0}};
#ifdef LEGAL
  auto named = data::named<"clean">(std::move(clean));
#else
  auto named = data::named<"clean">(clean);
#endif
  for (auto& batch : named) static_cast<void>(batch);
}
