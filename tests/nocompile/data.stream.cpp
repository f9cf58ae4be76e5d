// refused: [fulgurite.data.stream] a Stream takes a function that opens it for an epoch, and returns the function that returns the next batch, or nothing at the end: write Stream{[] { return next; }}, where next() returns a std::optional
#include <optional>

#include <fulgurite/data/pipeline.hpp>

using namespace fulgurite;

int main() {
  auto next = [i = 0]() mutable { return i < 4 ? std::optional(i++) : std::nullopt; };
#ifdef LEGAL
  data::Stream stream{[&] { return next; }};
#else
  data::Stream stream{next};
#endif
  static_cast<void>(stream);
}
