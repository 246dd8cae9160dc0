// What this machine has: GPUs by `nvidia-smi`, CPUs, memory and free disk. Blocking (nvidia-smi takes a
// second; one that hangs is killed after the caller's patience, and left alone where even that does not end it).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/bytes.hpp"
#include "model/result.hpp"
#include "model/time.hpp"

namespace gf::local {

struct Card {
    std::string uuid;  // "GPU-…"; the index where the driver shows none
    std::string name;
    std::optional<Bytes> memory;  // absent where nvidia-smi says [N/A]
    std::string driver;
    Bytes used{};          // of its memory, by anybody; 0 where it is not told
    Bytes compute_used{};  // of its memory, by processes that compute (not by a desktop)
};

/// Somebody computes on this card, or so little of its memory is free that somebody must. A desktop alone does not count: it
/// takes some hundred MiB.
[[nodiscard]] bool is_busy(const Card& card);

struct Hardware {
    std::vector<Card> cards;
    std::string gpu_trouble;  // why there are no cards although nvidia-smi is there (it fails or hangs); empty = none
    std::string cuda;         // "12.8"; empty = unknown
    int cpus{0};              // that this process may use
    Bytes memory;
    Bytes disk_free;  // of the folder's file system
    std::string host;
    std::string arch;  // "amd64", "arm64", else the kernel's word
};

/// `nvidia_smi` is a program name or path; a missing one means a machine without GPUs, one that fails or hangs a driver in
/// trouble. Each of its three calls has `patience` and a second. Error: `io` when the folder's disk cannot be read.
Result<Hardware> probe_hardware(const std::string& nvidia_smi, const std::string& folder, Millis patience);

/// Pure: the answer of `nvidia-smi --query-gpu=uuid,name,memory.total,driver_version,memory.used
/// --format=csv,noheader,nounits`.
[[nodiscard]] std::vector<Card> parse_cards(std::string_view csv);
/// Pure: what `--query-compute-apps=gpu_uuid,used_memory` answers, one line per process, added to the cards that it names. Lines
/// of another form change nothing.
void read_compute_used(std::string_view csv, std::vector<Card>& cards);
/// Pure: "CUDA Version: 12.8" in nvidia-smi's table; empty if it is not there.
[[nodiscard]] std::string parse_cuda_version(std::string_view table);

}  // namespace gf::local
