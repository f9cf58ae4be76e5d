#pragma once
// gloo is part of libtorch_cpu, but LibTorch may lack its headers. These five declare the classes of gloo that c10d's
// ProcessGroupGloo.hpp mentions, all behind pointers. They are last in the include path, so that real headers of gloo
// win.
