# One static library per room (folder). A room's link line is its arrows: docs/architecture.md.
add_library(gf_flags INTERFACE)
target_include_directories(gf_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(gf_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
                                          -Wnon-virtual-dtor
                                          # Naming only what differs from the default is what they are for.
                                          -Wno-missing-designated-field-initializers)
if(GF_WERROR)
    target_compile_options(gf_flags INTERFACE -Werror)
endif()

# gf_room(NAME SOURCES ... LINKS ...): the library gf_NAME.
function(gf_room name)
    cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
    add_library(gf_${name} STATIC ${ROOM_SOURCES})
    target_link_libraries(gf_${name} PUBLIC gf_flags ${ROOM_LINKS})
endfunction()

# gf_test(NAME SOURCES ... LINKS ...): a doctest binary test_NAME, run by scripts/test and ctest.
function(gf_test name)
    cmake_parse_arguments(T "" "" "SOURCES;LINKS" ${ARGN})
    add_executable(test_${name} ${T_SOURCES} $<TARGET_OBJECTS:gf_doctest_main>)
    target_link_libraries(test_${name} PRIVATE gf_flags doctest::doctest ${T_LINKS})
    set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND test_${name})
endfunction()
