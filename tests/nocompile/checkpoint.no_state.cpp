// refused: [fulgurite.checkpoint.no_state] an archived object needs `void state(auto& archive)`, or `using Stateless = ByChoice;`
#include <fulgurite/core/archive.hpp>

struct Counter {
  int calls = 0;
#ifdef LEGAL
  void state(auto& archive) { archive("calls", calls); }
#endif
};

int main() {
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
  Counter counter;
  saver.child("counter", counter);
}
