# cmake -DOUT=… -DNAMES="a;b" -DFILES="x;y" -P embed.cmake
# Writes a C++ file with one function per name that returns the bytes of its file. Byte arrays, because string literals of
# this size are past what -Wpedantic allows.
set(text "#include \"config/shipped.hpp\"\n\nnamespace gf {\nnamespace {\n\n")
set(functions "")
foreach(name file IN ZIP_LISTS NAMES FILES)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
    string(APPEND text "constexpr char k_${name}[] = {${bytes}'\\0'};\n")
    string(APPEND functions "std::string_view ${name}() { return {k_${name}, sizeof k_${name} - 1}; }\n")
endforeach()
string(APPEND text "\n}  // namespace\n\n${functions}\n}  // namespace gf\n")
file(WRITE ${OUT} "${text}")
