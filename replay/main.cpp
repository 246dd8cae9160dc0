// gpuferry-replay: everything is in command.cpp; here the real streams are handed in.
#include <iostream>

#include "replay/command.hpp"

int main(int argc, char** argv) {
    return gf::replay::run(argc, argv, std::cout, std::cerr);
}
