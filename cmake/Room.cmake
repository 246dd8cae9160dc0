# One static library per room (folder). A room's link line is its arrows: docs/architecture.md.
add_library(gf_flags INTERFACE)
target_include_directories(gf_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(gf_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
                                          -Wnon-virtual-dtor
                                          # Naming only what differs from the default is what they are for.
                                          -Wno-missing-designated-field-initializers)
# Everything is compiled as for threads, so that one precompiled header fits all.
target_compile_options(gf_flags INTERFACE -pthread)
target_link_libraries(gf_flags INTERFACE Threads::Threads)
if(GF_WERROR)
    target_compile_options(gf_flags INTERFACE -Werror)
endif()

# Precompiled headers hold what others wrote: the standard library, the JSON library, doctest, CLI11. Ours stay out of them, so that
# a change of ours rebuilds what includes it and no more, and the target headers_alone sees what each of our headers includes itself.
option(GF_PCH "precompiled headers" ON)
set(GF_STANDARD_HEADERS <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <deque> <expected> <filesystem>
                        <fstream> <functional> <map> <memory> <mutex> <optional> <ranges> <set> <span> <sstream> <string>
                        <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>)
# gf_pch(NAME OPTIONS HEADERS...): the target gf_pch_NAME, whose header others reuse. They must be optimised as it is.
function(gf_pch name options)
    file(WRITE ${CMAKE_BINARY_DIR}/pch/${name}.cpp.new "// Only carries a precompiled header.\n")
    file(COPY_FILE ${CMAKE_BINARY_DIR}/pch/${name}.cpp.new ${CMAKE_BINARY_DIR}/pch/${name}.cpp ONLY_IF_DIFFERENT)
    add_library(gf_pch_${name} OBJECT ${CMAKE_BINARY_DIR}/pch/${name}.cpp)
    target_link_libraries(gf_pch_${name} PRIVATE gf_flags nlohmann_json::nlohmann_json doctest::doctest CLI11::CLI11)
    target_compile_options(gf_pch_${name} PRIVATE ${options})
    target_precompile_headers(gf_pch_${name} PRIVATE ${GF_STANDARD_HEADERS} ${ARGN})
endfunction()
if(GF_PCH)
    gf_pch(room "" <nlohmann/json.hpp>)
    gf_pch(small $<$<CONFIG:Release>:-Oz> <nlohmann/json.hpp>)
    gf_pch(cli "" <nlohmann/json.hpp> <CLI/CLI.hpp>)
    gf_pch(test -O0 <nlohmann/json.hpp> <doctest/doctest.h>)
endif()
function(gf_use_pch target pch)
    if(GF_PCH)
        target_precompile_headers(${target} REUSE_FROM gf_pch_${pch})
    endif()
endfunction()

# gf_room(NAME SOURCES ... LINKS ... [PCH name]): the library gf_NAME.
function(gf_room name)
    cmake_parse_arguments(ROOM "" "PCH" "SOURCES;LINKS" ${ARGN})
    add_library(gf_${name} STATIC ${ROOM_SOURCES})
    target_link_libraries(gf_${name} PUBLIC gf_flags ${ROOM_LINKS})
    if(NOT ROOM_PCH)
        set(ROOM_PCH room)
    endif()
    gf_use_pch(gf_${name} ${ROOM_PCH})
endfunction()

# What is tested is optimised as it ships; the tests' own code runs once, so that compiling it fast is worth more.
function(gf_test_part target)
    target_compile_options(${target} PRIVATE -O0)
    gf_use_pch(${target} test)
endfunction()

# gf_test(NAME [FAST] SOURCES ... LINKS ...): a doctest binary test_NAME, run by scripts/test and ctest. FAST: it computes for long.
function(gf_test name)
    cmake_parse_arguments(T "FAST" "" "SOURCES;LINKS" ${ARGN})
    add_executable(test_${name} ${T_SOURCES} $<TARGET_OBJECTS:gf_doctest_main>)
    target_link_libraries(test_${name} PRIVATE gf_flags doctest::doctest ${T_LINKS})
    if(T_FAST)
        gf_use_pch(test_${name} room)
    else()
        gf_test_part(test_${name})
    endif()
    set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND test_${name})
endfunction()
