// The library fulgurite_compiled: every body that headers mark FULGURITE_COLD or FULGURITE_BULK, for programs that
// define FULGURITE_COMPILED. What the umbrella leaves out is named beside it; tests/layout/cold.py compares.
#define FULGURITE_COMPILED 1
#define FULGURITE_COMPILES_BODIES 1
#include <fulgurite/fulgurite.hpp>
