// refused: [fulgurite.checkpoint.tensor] archive.tensor takes a tensor of a library that specialises fulgurite::TensorState: give other values to archive(name, value)
#include <fulgurite/core/archive.hpp>

int main() {
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
#ifdef LEGAL
  fulgurite::SavedTensor value;
#else
  int value = 1;
#endif
  saver.tensor("value", value);
}
