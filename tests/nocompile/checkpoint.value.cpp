// refused: [fulgurite.checkpoint.value] an archive takes numbers, strings, paths, durations, tensors, optionals and vectors: give other types `void state(auto& archive)`
#include <fulgurite/core/archive.hpp>

int main() {
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
#ifdef LEGAL
  int value = 1;
#else
  int one = 1;
  int* value = &one;
#endif
  saver("value", value);
}
