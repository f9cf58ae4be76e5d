# The CMake package: for add_subdirectory(fulgurite), and for find_package(fulgurite) in this repository or installed.
#   fulgurite::fulgurite   all that is outside torch/ and distributed/, with Boost's headers, range-v3, zlib
#   fulgurite::cli         that and fulgurite/cli.hpp, with CLI11 and toml++; absent where these are not
#   fulgurite::torch       the first and LibTorch, with its CUDA libraries where they load; absent where there is no LibTorch
# These define FULGURITE_COMPILED and link a library, built once in your project, that has the bodies that depend on no
# template parameter (core/body.hpp). Headers alone are fulgurite::header_only, fulgurite::cli_header_only and
# fulgurite::torch_header_only.
#   fulgurite_pch(target ...)   precompiles fulgurite.hpp for the first of these targets; the others, which must have
#                               the same flags, use that, too
# -DFULGURITE_LIBTORCH=FOLDER names the folder with include/ and lib/ of LibTorch. meson.build decides in the same way.
if(TARGET fulgurite::fulgurite)
  return()
endif()

# Without a build type CMake compiles without optimization, and training would be several times slower than it need be.
get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT several AND NOT CMAKE_BUILD_TYPE)
  message(STATUS "fulgurite: no build type was asked for: Release")
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# ---- fulgurite::header_only ------------------------------------------------------------------------------------------
include(CMakeFindDependencyMacro)
find_dependency(ZLIB)
find_dependency(Threads)
find_path(FULGURITE_HANA boost/hana/tuple.hpp REQUIRED)
find_path(FULGURITE_RANGES range/v3/view/chunk.hpp REQUIRED)
set(headers ${CMAKE_CURRENT_LIST_DIR}/../include) # in the repository
if(NOT EXISTS ${headers}/fulgurite/fulgurite.hpp)
  set(headers ${CMAKE_CURRENT_LIST_DIR}/../../../include) # installed
endif()
get_filename_component(headers ${headers} ABSOLUTE)

add_library(fulgurite::header_only INTERFACE IMPORTED GLOBAL)
target_compile_features(fulgurite::header_only INTERFACE cxx_std_20)
target_include_directories(fulgurite::header_only INTERFACE ${headers} ${FULGURITE_HANA} ${FULGURITE_RANGES})
target_link_libraries(fulgurite::header_only INTERFACE ZLIB::ZLIB Threads::Threads)

# ---- fulgurite::cli_header_only --------------------------------------------------------------------------------------
find_path(FULGURITE_CLI11 CLI/CLI.hpp)
find_path(FULGURITE_TOMLPLUSPLUS toml++/toml.h)
if(FULGURITE_CLI11 AND FULGURITE_TOMLPLUSPLUS)
  add_library(fulgurite::cli_header_only INTERFACE IMPORTED GLOBAL)
  target_include_directories(fulgurite::cli_header_only INTERFACE ${FULGURITE_CLI11} ${FULGURITE_TOMLPLUSPLUS})
  target_link_libraries(fulgurite::cli_header_only INTERFACE fulgurite::header_only)
endif()

# ---- libraries without LibTorch --------------------------------------------------------------------------------------
set(sources ${CMAKE_CURRENT_LIST_DIR}/../src) # in the repository
if(NOT EXISTS ${sources}/bare.cpp)
  set(sources ${CMAKE_CURRENT_LIST_DIR}) # installed
endif()
function(fulgurite_library target source)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${source})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(${target} PUBLIC FULGURITE_COMPILED=1)
  target_link_libraries(${target} PUBLIC ${ARGN})
endfunction()
fulgurite_library(fulgurite ${sources}/bare.cpp fulgurite::header_only)
add_library(fulgurite::fulgurite ALIAS fulgurite)
if(TARGET fulgurite::cli_header_only)
  fulgurite_library(fulgurite_cli ${sources}/cli.cpp fulgurite::cli_header_only fulgurite)
  add_library(fulgurite::cli ALIAS fulgurite_cli)
endif()

# ---- where LibTorch is -----------------------------------------------------------------------------------------------
set(FULGURITE_LIBTORCH "" CACHE PATH "folder with include/ and lib/ of LibTorch; empty: look in .venv and in python3")
set(api include/torch/csrc/api/include)
include(${CMAKE_CURRENT_LIST_DIR}/fulguriteLibTorch.cmake OPTIONAL) # installed: where Meson found it
set(libtorch ${FULGURITE_LIBTORCH})
if(libtorch AND NOT EXISTS ${libtorch}/${api}/torch/torch.h)
  message(FATAL_ERROR "FULGURITE_LIBTORCH=${libtorch}: there is no ${api}/torch/torch.h in that folder")
endif()
if(NOT libtorch)
  set(libtorch ${FULGURITE_LIBTORCH_INSTALLED})
endif()
set(ask "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')")
foreach(python ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/../.venv/bin/python python3)
  if(NOT libtorch)
    execute_process(COMMAND ${python} -c "${ask}" OUTPUT_VARIABLE libtorch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()
if(NOT libtorch)
  message(STATUS "fulgurite: no LibTorch found, so no target fulgurite::torch: give -DFULGURITE_LIBTORCH=FOLDER")
  return()
endif()
set(lib ${libtorch}/lib)

# ---- fulgurite::torch_header_only ------------------------------------------------------------------------------------
# Not LibTorch's own package: with a CUDA wheel that one asks for nvcc and a toolkit of the same version.
# RPATH, not RUNPATH, so that it also holds for what the libraries load later. What only a GPU needs may be missing.
add_library(fulgurite::torch_header_only INTERFACE IMPORTED GLOBAL)
target_link_libraries(fulgurite::torch_header_only INTERFACE fulgurite::header_only torch_cpu c10)
target_include_directories(fulgurite::torch_header_only SYSTEM INTERFACE ${libtorch}/include ${libtorch}/${api})
# gloo lies inside libtorch_cpu without its headers; where there are none, what is declared in their place is found last.
target_compile_options(fulgurite::torch_header_only INTERFACE
  "SHELL:-idirafter ${headers}/fulgurite/distributed/gloo_declared")
target_link_directories(fulgurite::torch_header_only INTERFACE ${lib})
set(links LINKER:-rpath,${lib} LINKER:--disable-new-dtags LINKER:--allow-shlib-undefined)
target_link_options(fulgurite::torch_header_only INTERFACE ${links})

# LIBXSMM: matrix products that are faster than LibTorch's, with the same bits. Its own BLAS library is asked for and
# never called.
option(FULGURITE_LIBXSMM "use the matrix products of LIBXSMM where it is installed" ON)
if(FULGURITE_LIBXSMM)
  find_path(FULGURITE_LIBXSMM_HEADERS libxsmm.h)
  find_library(FULGURITE_LIBXSMM_LIBRARY xsmm)
  find_library(FULGURITE_LIBXSMM_NOBLAS xsmmnoblas)
  if(FULGURITE_LIBXSMM_HEADERS AND FULGURITE_LIBXSMM_LIBRARY AND FULGURITE_LIBXSMM_NOBLAS)
    target_compile_definitions(fulgurite::torch_header_only INTERFACE FULGURITE_HAS_LIBXSMM=1)
    target_include_directories(fulgurite::torch_header_only SYSTEM INTERFACE ${FULGURITE_LIBXSMM_HEADERS})
    target_link_libraries(fulgurite::torch_header_only INTERFACE
      ${FULGURITE_LIBXSMM_LIBRARY} ${FULGURITE_LIBXSMM_NOBLAS} ${CMAKE_DL_LIBS})
  endif()
endif()

# CUDA: the libraries are there and they load (a CPU installation lacks what they need). Nothing refers
# to them, so the linker must be told to keep them.
set(cuda -Wl,--push-state,--no-as-needed ${lib}/libtorch_cuda.so ${lib}/libc10_cuda.so -Wl,--pop-state)
unset(FULGURITE_CUDA_LOADS CACHE) # LibTorch may be another one than the last time
if(EXISTS ${lib}/libtorch_cuda.so)
  include(CheckCXXSourceRuns)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${links})
  set(CMAKE_REQUIRED_LIBRARIES ${cuda})
  check_cxx_source_runs("int main() {}" FULGURITE_CUDA_LOADS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
message(STATUS "fulgurite: LibTorch in ${libtorch}, CUDA: ${FULGURITE_CUDA_LOADS}")
if(FULGURITE_CUDA_LOADS)
  target_link_libraries(fulgurite::torch_header_only INTERFACE ${cuda})
  target_compile_definitions(fulgurite::torch_header_only INTERFACE FULGURITE_HAS_CUDA=1)
  set(beside ${libtorch}/../nvidia) # the wheels that LibTorch's wheel loads from
  find_path(FULGURITE_CUDA_RUNTIME cuda_runtime_api.h PATHS /usr/local/cuda/include ${beside}/cu13/include)
  find_path(FULGURITE_NCCL nccl.h PATHS ${beside}/nccl/include)
  if(FULGURITE_CUDA_RUNTIME)
    target_compile_definitions(fulgurite::torch_header_only INTERFACE FULGURITE_HAS_CUDA_RUNTIME=1)
    target_include_directories(fulgurite::torch_header_only SYSTEM INTERFACE ${FULGURITE_CUDA_RUNTIME})
    if(FULGURITE_NCCL)
      target_compile_definitions(fulgurite::torch_header_only INTERFACE FULGURITE_HAS_NCCL=1 USE_C10D_NCCL=1)
      target_include_directories(fulgurite::torch_header_only SYSTEM INTERFACE ${FULGURITE_NCCL})
    endif()
  endif()
endif()

# ---- fulgurite::torch and fulgurite_pch ------------------------------------------------------------------------------
fulgurite_library(fulgurite_torch ${sources}/torch.cpp fulgurite::torch_header_only fulgurite)
add_library(fulgurite::torch ALIAS fulgurite_torch)

function(fulgurite_pch first)
  target_precompile_headers(${first} PRIVATE <fulgurite/fulgurite.hpp>)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()
