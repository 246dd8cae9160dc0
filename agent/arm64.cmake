# The agent for arm64 (GH200 machines), cross-built beside the other by the same clang against a root with Debian's arm64 libraries,
# which scripts/arm64-root makes. Without the root, or under a sanitizer, only the agent for this machine is built.
set(GF_ARM64_ROOT ${PROJECT_SOURCE_DIR}/build/roots/arm64 CACHE PATH "root file system with arm64 libraries")
option(GF_AGENT_ARM64 "build the agent for arm64 as well" ON)
if(NOT GF_AGENT_ARM64 OR NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}" MATCHES "-fsanitize")
    return()
endif()
find_program(GF_ARM64_OBJCOPY NAMES llvm-objcopy-19 llvm-objcopy)
set(libraries ${GF_ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
foreach(needed ${libraries}/libre2.a ${libraries}/libzstd.a ${libraries}/libssl.a ${libraries}/libcrypto.a ${libraries}/libc.a
               ${GF_ARM64_ROOT}/usr/lib/gcc/aarch64-linux-gnu/12/libstdc++.a)
    if(NOT EXISTS ${needed})
        message(STATUS "no agent for arm64: ${needed} is not there (scripts/arm64-root makes it); arm64 machines will not be rented")
        return()
    endif()
endforeach()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT GF_ARM64_OBJCOPY)
    message(STATUS "no agent for arm64: it takes clang and llvm-objcopy")
    return()
endif()

set(cross --target=aarch64-linux-gnu --sysroot=${GF_ARM64_ROOT})
set(here ${CMAKE_CURRENT_BINARY_DIR}/arm64)
# Header-only libraries are the build machine's own; nothing else of its headers may be seen.
file(MAKE_DIRECTORY ${here}/include ${here}/probe)
find_path(GF_NLOHMANN_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(GF_BOOST_INCLUDE boost/version.hpp REQUIRED)
file(CREATE_LINK ${GF_NLOHMANN_INCLUDE}/nlohmann ${here}/include/nlohmann SYMBOLIC)
file(CREATE_LINK ${GF_BOOST_INCLUDE}/boost ${here}/include/boost SYMBOLIC)

gf_cuda_probe(${here}/probe /lib/ld-linux-aarch64.so.1 --target=aarch64-linux-gnu)
file(CONFIGURE OUTPUT ${here}/embedded.cpp CONTENT "#include \"agent/embedded.cpp\"\n")
set_source_files_properties(${here}/embedded.cpp PROPERTIES
    COMPILE_DEFINITIONS "GF_CA_BUNDLE=\"${GF_CA_BUNDLE_FILE}\";GF_CUDA_PROBE=\"${here}/probe/cuda_probe\""
    OBJECT_DEPENDS "${here}/probe/cuda_probe;${GF_CA_BUNDLE_FILE};${CMAKE_CURRENT_SOURCE_DIR}/embedded.cpp")

set(sources ${here}/embedded.cpp main.cpp)
foreach(room gf_model gf_checkpoints gf_agent_boost gf_agent)
    get_target_property(files ${room} SOURCES)
    get_target_property(folder ${room} SOURCE_DIR)
    list(FILTER files INCLUDE REGEX "^[a-z_0-9]+\\.cpp$")
    list(TRANSFORM files PREPEND ${folder}/)
    list(APPEND sources ${files})
endforeach()
list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/embedded.cpp)
add_executable(gpuferry-agent-arm64 ${sources})
target_include_directories(gpuferry-agent-arm64 PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(gpuferry-agent-arm64 SYSTEM PRIVATE ${here}/include)
target_link_libraries(gpuferry-agent-arm64 PRIVATE gf_flags)
target_compile_options(gpuferry-agent-arm64 PRIVATE ${cross} -Oz)
target_compile_definitions(gpuferry-agent-arm64 PRIVATE
    GF_AGENT_ARCH="arm64" GF_AGENT_VERSION="${PROJECT_VERSION}"
    BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
if(GF_PCH)
    target_precompile_headers(gpuferry-agent-arm64 PRIVATE ${GF_STANDARD_HEADERS} <nlohmann/json.hpp>)
endif()
target_link_options(gpuferry-agent-arm64 PRIVATE ${cross} -static -Wl,--gc-sections -Wl,--icf=all)
target_link_libraries(gpuferry-agent-arm64 PRIVATE
    ${libraries}/libre2.a ${libraries}/libzstd.a ${libraries}/libssl.a ${libraries}/libcrypto.a)
add_custom_command(TARGET gpuferry-agent-arm64 POST_BUILD
    COMMAND ${GF_ARM64_OBJCOPY} --only-keep-debug $<TARGET_FILE:gpuferry-agent-arm64> $<TARGET_FILE:gpuferry-agent-arm64>.debug
    COMMAND ${GF_ARM64_OBJCOPY} --strip-all $<TARGET_FILE:gpuferry-agent-arm64>
    VERBATIM)
