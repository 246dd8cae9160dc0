// The root of a simulated machine, built inside a mount namespace of its own. Runs in the keeper's child,
// before exec: single-threaded, throws std::system_error on the first step that fails.
//
// Layers, top down: what the container writes (a tmpfs of the asked size, so that statvfs and ENOSPC are
// real); the fake libcuda; the fake nvidia-smi; the image: a given folder, or the host's own /usr under a
// small made-up root. All mounts live in the namespace and vanish with its last process: nothing is left
// behind however it ends.
#pragma once
#include <string>
#include <vector>

#include "simulator/machines.hpp"

namespace gf::sim {

struct RootPlan {
    std::string disk;        // mounted tmpfs of the keeper
    std::string image_root;  // empty = the host's /usr
    std::string smi_layer;
    std::string cuda_layer;  // empty = a machine without libcuda
    std::string facts;       // file to show as /run/gpuferry-sim/gpus; empty = no GPUs
    std::vector<std::pair<std::string, std::string>> volumes;  // host folder, path in the machine
    struct File {
        std::string from;  // on the host
        std::string path;  // in the machine
        unsigned mode{0644};
    };
    std::vector<File> files;  // copied at every start
    std::string hostname;
    bool user_namespace{false};
};

/// Makes the root and moves into it: afterwards "/" is the machine's and the host's file system is out of
/// reach.
void enter_root(const RootPlan& plan);

/// Copies `files` below `root`, root's own with their modes; folders are made.
void place_files(const std::vector<RootPlan::File>& files, const std::string& root);

/// A tmpfs of `bytes` on `where`, which is made if missing.
void mount_disk(const std::string& where, std::uint64_t bytes);

/// Gives up what Docker's containers do not have, so that a job cannot mount, reboot or set the clock.
void drop_capabilities();

}  // namespace gf::sim
