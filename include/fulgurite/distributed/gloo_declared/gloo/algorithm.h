#pragma once
// gloo lies inside libtorch_cpu, without its headers. These five declare what c10d's ProcessGroupGloo.hpp names of it,
// all behind pointers; they are looked for last, so that real headers of gloo win.
