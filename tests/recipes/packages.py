"""Fulgurite as a package, without LibTorch: each of the four ways of docs/building.md, from its text, builds a program;
what is installed is complete and serves when the checkout is gone; what is not there is refused; prints TAP.

    packages.py [BUILD]     with both compilers where both are installed, what does not depend on one with that of the
                            build folder, else with g++; headers alone

Without a build folder it runs wherever Python, Meson, CMake, pkg-config, git and g++ are, and so in other systems."""

import pathlib
import re
import sys
import tempfile

import recipes

flags = recipes.flags
PROGRAM = """#include <cstdio>
#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/version.hpp>
int main() {
  std::puts(FULGURITE_VERSION);
  return fulgurite::zip::checksum(0, {}) == 0 ? 0 : 1;  // zlib's
}
"""
TEXTS = [('fulgurite-torch-header-only', 'fulgurite-header-only'),
         ('fulgurite::torch_header_only', 'fulgurite::header_only'),
         ('--libs fulgurite-torch', '--libs fulgurite'), ('COMPONENTS torch', 'COMPONENTS core'),
         ('meson setup build\n', 'meson setup build -Dfulgurite:libtorch=none\n'),
         ('meson setup build-fulgurite fulgurite', 'meson setup build-fulgurite fulgurite -Dlibtorch=none'),
         # What was installed is all that there is from there on.
         ('meson install -C build-fulgurite\n', 'meson install -C build-fulgurite\nrm -r fulgurite build-fulgurite\n')]


def without_libtorch(blocks) -> list[tuple[str, str]]:
    changed = recipes.header_only(blocks)
    for old, new in TEXTS:
        changed = [(language, text.replace(old, new)) for language, text in changed]
    return changed


def builds(shop: recipes.Workshop, name: str, blocks) -> list[str]:
    mine, complaints = shop.build(name, without_libtorch(blocks), PROGRAM, libtorch='none')
    if mine is not None:
        ran = shop.run([str(mine)], pathlib.Path('/'))
        if (ran.returncode, ran.stdout.strip()) != (0, recipes.version()):
            complaints.append(f'the program ended with {ran.returncode} and printed {ran.stdout!r}')
    return complaints


def complete(project: pathlib.Path):
    """What is missing in the prefix of a project that has installed Fulgurite, and what in it names the checkout."""
    prefix = project / 'home' / '.local'
    wanted = {file.relative_to(flags.INCLUDE) for file in (flags.INCLUDE / 'fulgurite').rglob('*') if file.is_file()}
    include = prefix / 'include'
    there = {file.relative_to(include) for file in include.rglob('*') if file.is_file()}
    yield from (f'{file} is not installed' for file in sorted(wanted - there))
    if not (prefix / 'share' / 'licenses' / 'fulgurite' / 'LICENSE').is_file():
        yield 'the licence is not installed'
    for file in (file for file in prefix.rglob('*') if file.is_file()):
        for folder in ('fulgurite', 'build-fulgurite'):
            if f'{project}/{folder}' in file.read_text(errors='replace'):
                yield f'{file.relative_to(prefix)} names {folder}, where it was installed from'


LISTS = """cmake_minimum_required(VERSION 3.18)
project(mine CXX)
"""
# CMake's own modules leave variables of theirs in the scope: they come first.
FIND_ALL = """find_package(ZLIB)
find_package(Threads)
get_cmake_property(before VARIABLES)
set(FULGURITE_LIBTORCH /nowhere)
find_package(fulgurite)
unset(FULGURITE_LIBTORCH)
find_package(fulgurite COMPONENTS core)
find_package(fulgurite COMPONENTS tensor)
find_package(fulgurite COMPONENTS core pch)
find_package(fulgurite REQUIRED COMPONENTS core compiled OPTIONAL_COMPONENTS torch QUIET)
if(fulgurite_torch_FOUND OR TARGET fulgurite::torch OR NOT TARGET fulgurite::fulgurite)
  message(SEND_ERROR "an optional component is not as it should be")
endif()
get_cmake_property(after VARIABLES)
list(REMOVE_ITEM after before ${before})
list(FILTER after EXCLUDE REGEX "^(_?(fulgurite|FULGURITE|CMAKE|cmake)_|before$)")
message(STATUS "left in the scope: ${after}.")
find_package(fulgurite 0.2)
"""
SAID = ['component tensor: there is none of that name: name core, cli, torch, compiled or pch',
        'component pch: no LibTorch found: give -DFULGURITE_LIBTORCH=FOLDER',
        'left in the scope: .', 'compatible with requested version "0.2"',
        'FULGURITE_LIBTORCH=/nowhere: there is no include/torch/csrc/api/include/torch/torch.h in that folder']


def refuses(shop: recipes.Workshop):
    """What CMake prints of components that are not there; LibTorch is nowhere, and is looked for only if named."""
    shop.script(shop.folder / 'bin' / 'python3', f'echo asked >>{shop.folder}/asked')
    checkout = shop.folder / 'checkout'
    recipes.copy_repository(checkout)
    for name, lists, sentences in (
        ('find', LISTS + FIND_ALL, SAID),
        ('add', f'{LISTS}set(FULGURITE_COMPONENTS tensor)\nadd_subdirectory({checkout} fulgurite)\n', SAID[:1]),
    ):
        project = shop.folder / name
        project.mkdir()
        (project / 'CMakeLists.txt').write_text(lists)
        done = shop.run(['cmake', '-B', 'build', f'-Dfulgurite_DIR={checkout}/cmake'], project)
        printed = ' '.join((done.stdout + done.stderr).split())
        yield from (f'"{sentence}" is not in:\n{done.stdout}{done.stderr}' for sentence in sentences
                    if sentence not in printed)
        if (done.returncode == 0) != (name == 'find'):
            yield f'{name}: cmake ended with {done.returncode}'
    asked = (shop.folder / 'asked').read_text().split()
    if len(asked) != 2:
        yield f'LibTorch was looked for {len(asked)} times, and two calls name a component that needs it'
    done = shop.run(['cmake', '-S', str(checkout), '-B', str(shop.folder / 'alone')], shop.folder)
    if done.returncode == 0 or 'tools/dev setup' not in ' '.join(done.stderr.split()):
        yield f'CMake in the checkout itself ended with {done.returncode}:\n{done.stderr}'


def with_a_space(shop: recipes.Workshop, lists: str):
    """What is wrong in a project whose folder, with this repository and LibTorch in it, has a space in its name. Of
    this LibTorch the headers and the libraries are empty."""
    project = shop.folder / 'a space'
    torch = project / 'torch'
    header = torch / 'include' / 'torch' / 'csrc' / 'api' / 'include' / 'torch' / 'torch.h'
    header.parent.mkdir(parents=True)
    header.touch()
    for name in ('libtorch_cpu.so', 'libc10.so'):
        shop.empty_library(torch / 'lib' / name)
    recipes.copy_repository(project / 'fulgurite')
    (project / 'mine.cpp').write_text(PROGRAM)
    (project / 'CMakeLists.txt').write_text(lists.replace('fulgurite::torch', 'fulgurite::torch_header_only'))
    for words in (['-B', 'build', f'-DFULGURITE_LIBTORCH={torch}'], ['--build', 'build']):
        done = shop.run(['cmake', *words], project)
        if done.returncode != 0:
            yield f'cmake {words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}'
        if words[0] == '-B' and f'LibTorch in {torch}, CUDA: no\n' not in done.stdout:
            yield f'it does not say which LibTorch it has found:\n{done.stdout}'


def versions():
    header = (flags.INCLUDE / 'fulgurite' / 'core' / 'version.hpp').read_text()
    version = recipes.version()
    numbers = '.'.join(re.findall(r'^#define FULGURITE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$', header, re.M))
    if numbers != version:
        yield f'fulgurite/core/version.hpp says {version} and {numbers}'
    for place, pattern in (('meson.build', r"version: '([^']*)', license"),
                           ('cmake/fulguriteConfigVersion.cmake', r'PACKAGE_VERSION ([\d.]+)\)'),
                           ('CHANGELOG.md', r'^## ([\d.]+)'), (recipes.PAGE, r'tagged, `v([\d.]+)`')):
        found = re.search(pattern, (flags.ROOT / place).read_text(), re.M)
        if found is None or found[1] != version:
            yield f'fulgurite/core/version.hpp says {version}, {place} {found[1] if found else "nothing"}'


def main() -> None:
    found = recipes.recipes()
    lists = dict(found['CMake'])['cmake']
    folder_lists = re.sub(r'^(include\(FetchContent\)|FetchContent_Declare.*)\n', '', lists, flags=re.M).replace(
        'FetchContent_MakeAvailable(fulgurite)', 'add_subdirectory(fulgurite)')
    with tempfile.TemporaryDirectory(prefix='fulgurite-packages-') as temporary:
        own, *others = [recipes.Workshop(pathlib.Path(temporary).resolve() / compiler, compiler, '-O0')
                        for compiler in recipes.compilers(sys.argv[1] if len(sys.argv) > 1 else None)]
        installed = 'pkg-config'
        ways = {'Meson, a wrap file': ('Meson', found['Meson'], 'git'),
                'CMake, FetchContent': ('CMake', found['CMake'], 'cmake', 'git'),
                'CMake, add_subdirectory': ('folder', [('cmake', folder_lists), *found['CMake'][1:]], 'cmake'),
                'installed, pkg-config': (installed, found['pkg-config'], 'pkg-config'),
                'installed, CMake': (installed, found['CMake, installed'][1:], 'cmake', 'pkg-config')}
        results = []
        for way, (name, blocks, *tools) in ways.items():
            skip = recipes.lacks(*tools)
            for shop in (own, *others):
                title = f'{way}, {shop.folder.name}: a program without LibTorch builds without a warning and runs'
                results.append((title + skip, [] if skip else builds(shop, name, blocks)))
        skip = recipes.lacks('pkg-config')
        results.append(('what is installed is complete, and names no folder that it came from' + skip,
                        [] if skip else list(complete(own.folder / f'{installed}none'))))
        skip = recipes.lacks('cmake')
        results.append(('CMake refuses what is not there, with what to do, and no variable is left' + skip,
                        [] if skip else list(refuses(own))))
        results.append(('CMake, add_subdirectory: a folder may have a space in its name' + skip,
                        [] if skip else list(with_a_space(own, folder_lists))))
        results.append(('all places have one version', list(versions())))
        flags.tap(results)


main()
