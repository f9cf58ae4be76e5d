# The CMake package: for find_package(fulgurite COMPONENTS ...) in this repository or installed; CMakeLists.txt includes
# it for add_subdirectory and FetchContent. The components, and the targets that each has:
#   core       fulgurite::fulgurite   all that is outside torch/ and distributed/, with Boost's headers, range-v3, zlib
#   cli        fulgurite::cli         that and fulgurite/cli.hpp, with CLI11 and toml++
#   torch      fulgurite::torch       core and LibTorch, with its CUDA libraries where they load
#   compiled   the three targets above. They define FULGURITE_COMPILED and link a library, built once in your project,
#              that has the bodies that depend on no template parameter (core/body.hpp). Headers alone are
#              fulgurite::header_only, fulgurite::cli_header_only and fulgurite::torch_header_only.
#   pch        fulgurite_pch(target ...)   precompiles fulgurite.hpp for the first of these targets; the others, which
#              must have the same flags, use that, too
# Who names no component gets what is there. Who names some, but neither torch nor pch, does not have LibTorch looked
# for. -DFULGURITE_LIBTORCH=FOLDER names the folder with include/ and lib/ of LibTorch. meson.build decides in the same
# way. Variables of functions stay in them: those of a file would be set in the scope of the project that finds it.
set(fulgurite_FOUND TRUE)
set(fulgurite_NOT_FOUND_MESSAGE "")

macro(fulgurite_lacks component why)
  set(fulgurite_${component}_FOUND FALSE)
  if(fulgurite_FIND_REQUIRED_${component})
    set(fulgurite_FOUND FALSE)
    string(APPEND fulgurite_NOT_FOUND_MESSAGE "component ${component}: ${why}\n")
  endif()
endmacro()

foreach(_fulgurite_component IN LISTS fulgurite_FIND_COMPONENTS)
  set(fulgurite_${_fulgurite_component}_FOUND TRUE)
  if(NOT _fulgurite_component MATCHES "^(core|cli|torch|compiled|pch)$")
    fulgurite_lacks(${_fulgurite_component} "there is none of that name: name core, cli, torch, compiled or pch")
  endif()
endforeach()

# Without a build type CMake compiles without optimization, and training would be several times slower than it need be.
function(fulgurite_build_type)
  get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT several AND NOT CMAKE_BUILD_TYPE)
    fulgurite_say("no build type was asked for: Release")
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
endfunction()

function(fulgurite_say text)
  if(NOT fulgurite_FIND_QUIETLY)
    message(STATUS "fulgurite: ${text}")
  endif()
endfunction()

# ---- fulgurite::header_only ------------------------------------------------------------------------------------------
function(fulgurite_header_only)
  find_path(FULGURITE_HANA boost/hana/tuple.hpp)
  find_path(FULGURITE_RANGES range/v3/view/chunk.hpp)
  if(NOT FULGURITE_HANA OR NOT FULGURITE_RANGES)
    return()
  endif()
  add_library(fulgurite::header_only INTERFACE IMPORTED GLOBAL)
  target_compile_features(fulgurite::header_only INTERFACE cxx_std_20)
  target_include_directories(fulgurite::header_only INTERFACE
    ${_fulgurite_headers} ${FULGURITE_HANA} ${FULGURITE_RANGES})
  target_link_libraries(fulgurite::header_only INTERFACE ZLIB::ZLIB Threads::Threads)
endfunction()

# ---- fulgurite::cli_header_only --------------------------------------------------------------------------------------
function(fulgurite_cli_header_only)
  find_path(FULGURITE_CLI11 CLI/CLI.hpp)
  find_path(FULGURITE_TOMLPLUSPLUS toml++/toml.h)
  if(FULGURITE_CLI11 AND FULGURITE_TOMLPLUSPLUS)
    add_library(fulgurite::cli_header_only INTERFACE IMPORTED GLOBAL)
    target_include_directories(fulgurite::cli_header_only INTERFACE ${FULGURITE_CLI11} ${FULGURITE_TOMLPLUSPLUS})
    target_link_libraries(fulgurite::cli_header_only INTERFACE fulgurite::header_only)
  endif()
endfunction()

# ---- fulgurite::torch_header_only ------------------------------------------------------------------------------------
# A project may set a variable of that name instead: a new entry in the cache would remove it where the project allows a
# CMake before 3.21 (CMP0126). A relative path that was given by -D becomes absolute here.
if("$CACHE{FULGURITE_LIBTORCH}" STREQUAL "${FULGURITE_LIBTORCH}")
  set(FULGURITE_LIBTORCH "" CACHE PATH "folder with include/ and lib/ of LibTorch; empty: look in .venv and in python3")
endif()
option(FULGURITE_LIBXSMM "use the matrix products of LIBXSMM where it is installed" ON)
set(_fulgurite_api include/torch/csrc/api/include)

# Where LibTorch is; empty where there is none.
function(fulgurite_find_libtorch result)
  set(libtorch ${FULGURITE_LIBTORCH})
  include(${_fulgurite_folder}/fulguriteLibTorch.cmake OPTIONAL) # installed: where Meson found it
  if(NOT libtorch AND EXISTS "${FULGURITE_LIBTORCH_INSTALLED}/${_fulgurite_api}/torch/torch.h")
    set(libtorch ${FULGURITE_LIBTORCH_INSTALLED})
  endif()
  set(ask "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')")
  foreach(python ${CMAKE_SOURCE_DIR}/.venv/bin/python ${_fulgurite_folder}/../.venv/bin/python python3)
    if(NOT libtorch)
      execute_process(COMMAND ${python} -c "${ask}"
        OUTPUT_VARIABLE libtorch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endforeach()
  set(${result} "${libtorch}" PARENT_SCOPE)
endfunction()

# Not LibTorch's own package: with a CUDA wheel that one asks for nvcc and a toolkit of the same version.
function(fulgurite_torch_header_only libtorch)
  set(lib ${libtorch}/lib)
  # RPATH, not RUNPATH, so that it also holds for what the libraries load later. What only a GPU needs may be missing.
  add_library(fulgurite::torch_header_only INTERFACE IMPORTED GLOBAL)
  target_link_libraries(fulgurite::torch_header_only INTERFACE fulgurite::header_only torch_cpu c10)
  target_include_directories(fulgurite::torch_header_only SYSTEM INTERFACE
    ${libtorch}/include ${libtorch}/${_fulgurite_api})
  # gloo lies inside libtorch_cpu without its headers; where there are none, what is declared in their place is found
  # last.
  target_compile_options(fulgurite::torch_header_only INTERFACE
    "SHELL:-idirafter \"${_fulgurite_headers}/fulgurite/distributed/gloo_declared\"")
  target_link_directories(fulgurite::torch_header_only INTERFACE ${lib})
  set(links LINKER:-rpath,${lib} LINKER:--disable-new-dtags LINKER:--allow-shlib-undefined)
  target_link_options(fulgurite::torch_header_only INTERFACE ${links})

  # LIBXSMM: matrix products that are faster than LibTorch's, with the same bits. Its own BLAS library is asked for and
  # never called.
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
    # These two come first, as a program loads them.
    set(CMAKE_REQUIRED_LIBRARIES
      -Wl,--push-state,--no-as-needed ${lib}/libtorch_cpu.so ${lib}/libc10.so -Wl,--pop-state ${cuda})
    set(CMAKE_REQUIRED_QUIET ${fulgurite_FIND_QUIETLY})
    check_cxx_source_runs("int main() {}" FULGURITE_CUDA_LOADS)
  endif()
  set(has_cuda no)
  if(FULGURITE_CUDA_LOADS)
    set(has_cuda yes)
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
  fulgurite_say("LibTorch in ${libtorch}, CUDA: ${has_cuda}")
endfunction()

# ---- the libraries, and fulgurite_pch --------------------------------------------------------------------------------
function(fulgurite_library target source name)
  if(NOT TARGET ${target})
    add_library(${target} STATIC EXCLUDE_FROM_ALL ${_fulgurite_sources}/${source})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${target} PUBLIC FULGURITE_COMPILED=1)
    target_link_libraries(${target} PUBLIC ${ARGN})
    add_library(${name} ALIAS ${target})
  endif()
endfunction()

function(fulgurite_pch first)
  target_precompile_headers(${first} PRIVATE <fulgurite/fulgurite.hpp>)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()

# ---- what was asked for ----------------------------------------------------------------------------------------------
fulgurite_build_type()
include(CMakeFindDependencyMacro)
find_dependency(ZLIB)
find_dependency(Threads)
set(_fulgurite_folder ${CMAKE_CURRENT_LIST_DIR})
if(EXISTS ${_fulgurite_folder}/../src/bare.cpp) # in the repository
  get_filename_component(_fulgurite_headers ${_fulgurite_folder}/../include ABSOLUTE)
  get_filename_component(_fulgurite_sources ${_fulgurite_folder}/../src ABSOLUTE)
else() # installed
  get_filename_component(_fulgurite_headers ${_fulgurite_folder}/../../../include ABSOLUTE)
  set(_fulgurite_sources ${_fulgurite_folder})
endif()
if(NOT TARGET fulgurite::header_only)
  fulgurite_header_only()
endif()
if(NOT TARGET fulgurite::header_only)
  set(fulgurite_FOUND FALSE)
  set(fulgurite_NOT_FOUND_MESSAGE
    "headers of Boost (Hana) or range-v3 are not here: install libboost-dev and librange-v3-dev")
  return()
endif()
fulgurite_library(fulgurite bare.cpp fulgurite::fulgurite fulgurite::header_only)

if(NOT TARGET fulgurite::cli_header_only)
  fulgurite_cli_header_only()
endif()
if(TARGET fulgurite::cli_header_only)
  fulgurite_library(fulgurite_cli cli.cpp fulgurite::cli fulgurite::cli_header_only fulgurite)
else()
  fulgurite_lacks(cli "CLI11 or toml++ is not here: install libcli11-dev and libtomlplusplus-dev")
endif()

if(NOT TARGET fulgurite::torch_header_only AND
   (NOT fulgurite_FIND_COMPONENTS OR fulgurite_FIND_COMPONENTS MATCHES "(^|;)(torch|pch)(;|$)"))
  fulgurite_find_libtorch(_fulgurite_libtorch)
  if(EXISTS "${_fulgurite_libtorch}/${_fulgurite_api}/torch/torch.h")
    fulgurite_torch_header_only(${_fulgurite_libtorch})
  elseif(_fulgurite_libtorch)
    set(fulgurite_FOUND FALSE)
    string(APPEND fulgurite_NOT_FOUND_MESSAGE
      "FULGURITE_LIBTORCH=${_fulgurite_libtorch}: there is no ${_fulgurite_api}/torch/torch.h in that folder\n")
  elseif(NOT fulgurite_FIND_COMPONENTS)
    fulgurite_say("no LibTorch found, so no target fulgurite::torch: give -DFULGURITE_LIBTORCH=FOLDER")
  endif()
endif()
if(TARGET fulgurite::torch_header_only)
  fulgurite_library(fulgurite_torch torch.cpp fulgurite::torch fulgurite::torch_header_only fulgurite)
else()
  foreach(_fulgurite_component torch pch)
    fulgurite_lacks(${_fulgurite_component} "no LibTorch found: give -DFULGURITE_LIBTORCH=FOLDER")
  endforeach()
endif()
